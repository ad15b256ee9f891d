"""A pipeline's file: what is in it, and what is said about what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from catchment import ECMSketch
from catchment.errors import NameNotFoundError, ParameterError, PipelineError
from catchment.spark.pipeline.read import EXAMPLE, parse_pipeline, read_pipeline
from catchment.spark.pipeline.sources import needed_settings
from catchment.window.settings_lines import lines_of

pytestmark = pytest.mark.spark

GOOD = """\
[pipeline]
name = "views"
[source]
format = "generator"
[source.options]
sites = 2
[columns]
time = "time"
site = "site"
[window]
length = "1 hour"
[[sketch]]
name = "hits"
kind = "ecm"
key = "key"
epsilon = 0.1
[output]
folder = "out"
[spark]
per_batch = 10
"""


def test_a_file_becomes_a_pipeline(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text(GOOD)
    pipeline = read_pipeline(file)
    assert (pipeline.name, pipeline.window.ticks, pipeline.window.lateness) == ("views", 3600, 10_000_000)
    assert pipeline.columns.by == ("site",)
    assert pipeline.output.folder == str(tmp_path / "out")
    assert pipeline.checkpoint == str(tmp_path / "out/checkpoint")
    (hits,) = pipeline.sketches
    assert hits.using == ECMSketch.for_tree(0.1, 0.01, window=3600, height=1)
    assert pipeline == parse_pipeline(GOOD, folder=tmp_path)


def test_the_connector_of_a_pipeline_that_only_writes_to_kafka_may_be_in_a_folder(tmp_path: Path) -> None:
    jar = tmp_path / "jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"
    jar.parent.mkdir()
    jar.touch()
    kafka = '[output.kafka]\nservers = "host:9092"\ntopic = "sketches"\n'
    there = GOOD.replace("[spark]", kafka + 'jars = "jars"\n[spark]')
    assert needed_settings(parse_pipeline(there, folder=tmp_path)) == {"spark.jars": jar.resolve().as_uri()}
    fetched = parse_pipeline(GOOD.replace("[spark]", kafka + "[spark]"), folder=tmp_path)
    assert list(needed_settings(fetched)) == ["spark.jars.packages"]
    assert needed_settings(parse_pipeline(GOOD)) == {}


def test_the_example_is_a_pipeline_with_every_kind() -> None:
    pipeline = read_pipeline(EXAMPLE)
    assert [each.kind for each in pipeline.sketches] == ["ecm", "top", "distinct", "quantiles", "count"]
    assert pipeline.source.options["sites"] == "8"


@pytest.mark.parametrize(
    ("old", "new", "line", "problem", "cure"),
    [
        ('length = "1 hour"', 'length = "1 hor"', 11, "length='1 hor' is no length of time", "10 minutes"),
        ('length = "1 hour"', "length = 3600", 11, "length = 3600", '"10 minutes"'),
        ('length = "1 hour"', 'lenght = "1 hour"', 11, "[window] has no key 'lenght'", "did you mean 'length'?"),
        ('length = "1 hour"', 'tick = "7 seconds"', 10, "no whole number of ticks", "finer tick"),
        ('length = "1 hour"', 'lateness = "2 hours"', 11, "lateness is longer than the window", "shorter"),
        ('format = "generator"', 'format = "genrator"', 4, 'format = "genrator"', "did you mean 'generator'?"),
        ('format = "generator"', 'format = "json"', 3, "[source] has no path", "the folder of the files"),
        ('format = "generator"', 'format = "kafka"', 3, "[source] has no servers", "host:9092"),
        ("sites = 2", "sead = 2", 6, "catchment_events has no option 'sead'", "did you mean 'seed'?"),
        ("sites = 2", "sites = [2]", 6, "sites = [2]", "give a text, a number, true or false"),
        ('kind = "ecm"', 'kind = "count"', 15, "[sketch] has no key 'key'", "it takes name, kind, weights, epsilon"),
        ('kind = "ecm"', 'kind = "cms"', 14, 'kind = "cms"', "Choose one of ecm, distinct, top"),
        ('key = "key"\n', "", 12, "[sketch] has no key", "a ecm sketch is of a column"),
        ("epsilon = 0.1", "epsilon = 2", 16, "epsilon = 2", "above 0 and below 1"),
        ("epsilon = 0.1", "epsilon = true", 16, "epsilon = true", "give a number"),
        ("epsilon = 0.1", "epsilon = 1e-13", 16, "epsilon=1e-13", "give a number from 1e-12"),
        ("[output]", '[[sketch]]\nname = "hits"\nkind = "count"\n[output]', 18, "a second sketch", "name of its own"),
        ('name = "hits"', 'name = "a b"', 13, 'name = "a b"', "letters, digits"),
        ('folder = "out"', 'mode = "updates"', 17, "[output] has no folder", 'folder = "out"'),
        ('folder = "out"', 'folder = "out"\nkeep = 1', 19, "keep = 1", "integer from 2"),
        ('folder = "out"', 'folder = "s3a://x/y"', 18, 'folder = "s3a://x/y"', "this machine"),
        ('folder = "out"', 'folder = ""', 18, 'folder = ""', "where snapshots go"),
        ("per_batch = 10", 'trigger = "available now"', 20, "a generator without end", "events = 1000000"),
        ("per_batch = 10", 'trigger = "sometimes"', 20, "trigger='sometimes'", "10 minutes"),
        ("sites = 2", "per_batch = 5", 6, "per_batch is given here and under [spark]", "keep the one"),
        ('site = "site"', 'site = "name"', 9, "a column called 'name'", "rename it"),
        ('site = "site"', 'site = "site"\nby = ["site"]', 10, "the column 'site'", "each column once"),
        ("[columns]", "[colums]", 7, "a pipeline has no key 'colums'", "did you mean 'columns'?"),
        ('[columns]\ntime = "time"\nsite = "site"\n', "", 1, "the file has no columns", "add a table [columns]"),
        ("[window]", "[columns.window]", 1, "the file has no window", "add a table [window]"),
        ("[spark]", "[sparc]", 19, "a pipeline has no key 'sparc'", "did you mean 'spark'?"),
        ('name = "views"', "name = views", 2, "this is not TOML", "texts are in quotes"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_cure(old: str, new: str, line: int, problem: str, cure: str) -> None:
    assert old in GOOD
    with pytest.raises(PipelineError) as caught:
        parse_pipeline(GOOD.replace(old, new, 1), "p.toml")
    assert caught.value.problem.startswith(f"p.toml, line {line}")
    assert problem in caught.value.problem
    assert cure in caught.value.cure
    assert isinstance(caught.value, ParameterError)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(NameNotFoundError, match="pipeline init"):
        read_pipeline(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'a = 1\nb = "\xe9"\n')
    with pytest.raises(PipelineError, match="line 2: a byte that is not UTF-8"):
        read_pipeline(tmp_path / "latin.toml")
    with pytest.raises(PipelineError, match="line 2: this is not TOML"):
        parse_pipeline("a = [1,\n")


def test_lines_are_found_over_texts_lists_and_comments() -> None:
    text = (
        'a = """\n[not]\nx = 1\n"""  # [b]\n'
        "b = [ # ]\n  1, '''\n]''', \"]\\\"\",\n]\n"
        'c = { d = 1, "e" = [2] }\n'
        "[f.'g h']\ni . j = 1\n"
        "[[k]]\n[k.l]\nm = 1\n[[k]]\n[[k.n]]\no = 2"
    )
    lines = lines_of(text)
    assert {path[-1]: line for path, line in lines.items() if isinstance(path[-1], str)} == {
        "a": 1, "b": 5, "c": 9, "g h": 10, "i": 11, "j": 11, "k": 12, "l": 13, "m": 14, "n": 16, "o": 17,
    }  # fmt: skip
    assert lines["k", 0, "l", "m"] == 14
    assert lines["k", 1, "n", 0, "o"] == 17
    assert lines["k", 1] == 15
