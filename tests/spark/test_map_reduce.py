"""Map-reduce on Spark: the same over clouds of one session and over servers, examples against the obvious way."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catchment.errors import CloudError, FunctionError, ParameterError
from catchment.federation.federation import Federation
from catchment.federation.map_reduce import Functions
from catchment.spark.cloud import ConnectCloud
from catchment.spark.connect_server import ServerSettings, start, stop
from catchment.spark.local_clouds import LocalCloud
from catchment.spark.map_reduce import _mapping, cloudpickle, packed, python_trouble
from examples.k_means import k_means
from examples.page_rank import DAMPING, page_rank
from examples.word_count import fast_word_count, word_count
from tests.spark.clouds import SECONDS, errand, running_clouds, settings_of

TEXTS = [f"the {'quick ' * (n % 3)}fox{n % 11} Jumps" for n in range(500)]
POINTS = np.random.default_rng(7).normal(size=(300, 2)) + np.repeat([[0, 0], [8, 8], [0, 9]], 100, axis=0)
LINKS = sorted({(f"p{a}", f"p{b}") for a, b in np.random.default_rng(3).integers(0, 25, size=(90, 2)) if a != b})


@pytest.fixture(scope="module")
def clouds(spark: Any) -> Iterator[Federation]:
    names = ("mr_paris", "mr_rome")
    for place, name in enumerate(names):
        spark.sql(f"CREATE DATABASE {name}")
        rows = [(text,) for text in TEXTS[place::2]]
        spark.createDataFrame(rows, "line string").write.saveAsTable(f"{name}.lines")
        points = [tuple(map(float, point)) for point in POINTS[place::2]]
        spark.createDataFrame(points, "x double, y double").write.saveAsTable(f"{name}.points")
        spark.createDataFrame(LINKS[place::2], "source string, target string").write.saveAsTable(f"{name}.links")
    with Federation([LocalCloud(spark, name, name) for name in names]) as both:
        yield both
    for name in names:
        spark.sql(f"DROP DATABASE {name} CASCADE")


def test_word_count_is_exact_and_little_crosses(clouds: Federation) -> None:
    truth = Counter(word for text in TEXTS for word in text.lower().split())
    assert word_count(clouds, "lines", "line") == truth
    assert fast_word_count(clouds, "lines", "line") == truth
    from examples.word_count import total, words

    reduced = clouds.map_reduce("lines", map=words, local_reduce=total)
    whole = clouds.map_reduce("lines", map=words, reduce=total)
    assert reduced.pairs == whole.pairs == truth
    assert reduced.map_pairs == whole.crossed_pairs == truth.total()
    assert reduced.crossed_pairs <= 2 * len(truth)
    assert reduced.ledger.bytes(purpose="program", outward=False) > 1000


def test_k_means_finds_what_lloyd_finds(clouds: Federation) -> None:
    start = POINTS[[0, 1, 150]]
    expected = start.copy()
    for _ in range(20):
        chosen = ((POINTS[:, None, :] - expected[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
        expected = np.array([POINTS[chosen == centre].mean(axis=0) for centre in range(3)])
    assert np.allclose(k_means(clouds, "points", ["x", "y"], start), expected, rtol=1e-9)


def test_page_rank_is_that_of_the_matrix(clouds: Federation) -> None:
    pages = sorted({page for link in LINKS for page in link})
    matrix = np.zeros((len(pages), len(pages)))
    for source, target in LINKS:
        matrix[pages.index(target), pages.index(source)] += 1
    out = matrix.sum(axis=0)
    matrix = np.where(out > 0, matrix / np.where(out > 0, out, 1), 1 / len(pages))
    ranks = np.full(len(pages), 1 / len(pages))
    for _ in range(3):
        ranks = (1 - DAMPING) / len(pages) + DAMPING * matrix @ ranks
    found = page_rank(clouds, "links", "source", "target", rounds=3)
    assert np.allclose([found[page] for page in pages], ranks, rtol=1e-9)
    assert sum(found.values()) == pytest.approx(1)


def test_conditions_and_the_name_of_the_cloud(clouds: Federation) -> None:
    found = clouds.map_reduce(
        "points", map=lambda row: [(row["_cloud"], 1)], local_reduce="sum", columns=["_cloud"], where="x > 4"
    )
    assert found.pairs == {
        name: int((POINTS[place::2, 0] > 4).sum()) for place, name in enumerate(("mr_paris", "mr_rome"))
    }


def test_a_function_that_fails_in_a_task_is_named(clouds: Federation) -> None:
    def fragile(row: dict[str, Any]) -> list[tuple[int, int]]:
        return [(1, len(row["line"]) // row["line"].count("quick"))]

    with pytest.raises(FunctionError, match="fragile failed in cloud mr_") as caught:
        clouds.map_reduce("lines", map=fragile, local_reduce="sum")
    assert "ZeroDivisionError" in caught.value.traceback
    assert 'row["line"].count("quick")' in caught.value.traceback
    assert "the fox" in caught.value.at


def test_what_cannot_be_pickled_is_refused(clouds: Federation, tmp_path: Path) -> None:
    with (tmp_path / "open").open("w") as file, pytest.raises(ParameterError, match="cannot be sent"):
        clouds.map_reduce("lines", map=lambda row: [(file.name, row)])


def test_a_cloud_without_our_python_is_told_from_other_trouble() -> None:
    trouble = python_trouble(RuntimeError("[PYTHON_VERSION_MISMATCH] Python in worker has different version"), "paris")
    assert isinstance(trouble, CloudError)
    assert trouble.cloud == "paris"
    assert "spark.pyspark.python" in str(trouble)
    assert python_trouble(RuntimeError("out of memory"), "paris") is None


@pytest.mark.long("clouds")
def test_a_server_without_python_is_named(tmp_path: Path) -> None:
    lost = ServerSettings(
        "lost", tmp_path / "lost", "512m", 1, keeps_tables=False,
        more={"spark.pyspark.python": str(tmp_path / "no-python")},
    )  # fmt: skip
    try:
        server = start(lost, SECONDS)
        with Federation([ConnectCloud(settings_of(server))]) as alone:
            [cloud] = alone.clouds
            assert isinstance(cloud, ConnectCloud)
            cloud.run("CREATE TABLE lines USING parquet AS SELECT 'a' AS line", errand())
            with pytest.raises(CloudError, match="cloud lost cannot run functions of Python") as caught:
                alone.map_reduce("lines", map=lambda row: [(row["line"], 1)], local_reduce="sum")
            assert caught.value.cloud == "lost"
            assert alone.sql("SELECT line FROM lines").to_pylist() == [{"line": "a"}]
    finally:
        stop(lost.folder)


def test_programs_run_where_neither_this_package_nor_the_users_modules_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_mapping.py").write_text(
        "def double(row):\n    from their_rule import rule\n    return [(rule(row['n']), 1)]\n"
    )
    (tmp_path / "their_rule.py").write_text("def rule(n):\n    return n * 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    import their_mapping  # type: ignore[import-not-found]

    program = packed(Functions(their_mapping.double, None, "sum"))
    assert set(program.modules) == {"their_mapping", "their_rule"}
    (tmp_path / "elsewhere").mkdir()
    task = tmp_path / "elsewhere" / "task"
    task.write_bytes(cloudpickle.dumps(_mapping(program)))
    script = (
        "import sys, pickle, pyarrow as pa\n"
        "class Bar:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'catchment': raise ImportError('catchment is not here')\n"
        "sys.meta_path.insert(0, Bar())\n"
        "task = pickle.load(open(sys.argv[1], 'rb'))\n"
        "for _ in range(2):\n"
        "    made = pa.Table.from_batches(task([pa.RecordBatch.from_pydict({'n': [1, 2, 1]})]))\n"
        "    print(made.column('bucket').to_pylist(), made.column('blob')[-1])\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script, str(task)],
        capture_output=True,
        text=True,
        cwd=tmp_path / "elsewhere",
        check=False,
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.splitlines() == ["""[0, -2] b'{"rows": 3, "pairs": 3}'"""] * 2


@pytest.mark.long("clouds")
def test_servers_run_functions_of_a_module_that_only_we_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_words.py").write_text(
        "from their_stems import stem\ndef words(row):\n    return [(stem(word), 1) for word in row['line'].split()]\n"
    )
    (tmp_path / "their_stems.py").write_text("def stem(word):\n    return word.rstrip('0123456789')\n")
    monkeypatch.syspath_prepend(tmp_path)
    import their_words  # type: ignore[import-not-found]

    heard: list[tuple[str, float]] = []
    with running_clouds(2) as settings, Federation(map(ConnectCloud, settings.values())) as both:
        for place, cloud in enumerate(both.clouds):
            assert isinstance(cloud, ConnectCloud)
            lines = ", ".join(f"('{text}')" for text in TEXTS[place::2])
            cloud.run(f"CREATE TABLE lines USING parquet AS SELECT col1 AS line FROM VALUES {lines}", errand())
        asked = {"map": their_words.words, "columns": ["line"]}
        reduced = both.map_reduce("lines", local_reduce="sum", progress=lambda *told: heard.append(told), **asked)
        truth = Counter(word.rstrip("0123456789") for text in TEXTS for word in text.split())
        assert reduced.pairs == truth
        assert {(name, 1.0) for name in settings} <= set(heard)
        books = reduced.ledger
        assert books.bytes(purpose="program", outward=False) > len((tmp_path / "their_words.py").read_text())
        assert books.bytes(purpose="partial", outward=True) > 0
        # Without a local reduce each pair crosses.
        whole = both.map_reduce("lines", reduce="sum", **asked)
        assert whole.pairs == truth
        assert whole.crossed_pairs == truth.total() == reduced.map_pairs
        # A worker lives on: the module as it is now counts, not as it was.
        (tmp_path / "their_stems.py").write_text("def stem(word):\n    return word[0]\n")
        changed = both.map_reduce("lines", local_reduce="sum", **asked)
        assert changed.pairs == Counter(word[0] for text in TEXTS for word in text.split())
        with pytest.raises(FunctionError, match=r"words failed in cloud (berlin|lyon) at .*_cloud") as caught:
            both.map_reduce("lines", map=their_words.words, columns=["_cloud"])
        assert "KeyError: 'line'" in caught.value.traceback
        assert "row['line'].split()" in caught.value.traceback
