"""Events by number: the same whatever the cut, and shaped as asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.kernel.generate import DAY, alias_table, numbered_texts, write_events
from catchment.kernel.hashing import draws

PLAIN = {
    "keys": 50, "events_a_day": 86_400_000.0, "sites": 4, "largest": 9, "burst_share": 0.0, "burst_every": 0,
    "burst_for": 0, "late_share": 0.0, "late_by": 0, "null_share": 0.0, "bad_share": 0.0, "seed": 3, "start": 10**15,
}  # fmt: skip
EVERYTHING = PLAIN | {
    "burst_share": 0.5, "burst_every": 100_000, "burst_for": 30_000, "late_share": 0.1, "late_by": 5_000_000,
    "null_share": 0.05, "bad_share": 0.05,
}  # fmt: skip


def events(first: int, count: int, **chosen: Any) -> dict[str, Any]:
    """The columns of a range, null flags unpacked."""
    asked = PLAIN | chosen
    names = ("site", "time", "key", "value")
    columns: dict[str, Any] = {name: np.full(count, -1, dtype=np.int64) for name in names}
    bitmaps = [np.full((count + 7) // 8, 255, dtype=np.uint8) for _ in range(2)]
    day = np.linspace(0, DAY, 65)
    nulls = write_events(
        np.uint64(first), draws(asked["seed"], 7), alias_table(1.0 / np.arange(1, asked["keys"] + 1)), day,
        asked["events_a_day"], asked["start"], np.uint64(asked["sites"]), np.uint64(asked["largest"]),
        asked["burst_share"], asked["burst_every"], asked["burst_for"], asked["late_share"], asked["late_by"],
        asked["null_share"], asked["bad_share"], *columns.values(), *bitmaps,
    )  # fmt: skip
    flags = [np.unpackbits(bits, count=count, bitorder="little") for bits in bitmaps]
    return columns | {"key_there": flags[0], "time_there": flags[1], "nulls": nulls}


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(0, 2**40), st.integers(0, 2**63))
def test_a_range_has_the_same_events_however_it_is_cut(sizes: list[int], first: int, seed: int) -> None:
    whole = events(first, sum(sizes), **EVERYTHING | {"seed": seed})
    starts = first + np.concatenate([[0], np.cumsum(sizes)[:-1]])
    parts = [events(int(at), size, **EVERYTHING | {"seed": seed}) for at, size in zip(starts, sizes, strict=True)]
    assert sum(part["nulls"] for part in parts) == whole["nulls"]
    for name in ("site", "time", "key", "value", "key_there", "time_there"):
        assert np.array_equal(np.concatenate([part[name] for part in parts]), whole[name]), name


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=60))
def test_an_alias_table_holds_the_odds_that_it_was_given(odds: list[float]) -> None:
    table = alias_table(np.array(odds))
    kept = ((table & np.uint64(0xFFFFFFFF)).astype(np.float64) + 1) / 2**32
    share = kept / len(odds)
    np.add.at(share, (table >> np.uint64(32)).astype(np.int64), (1 - kept) / len(odds))
    assert np.allclose(share, np.array(odds) / np.sum(odds), rtol=0, atol=1e-9)


def test_keys_are_drawn_by_their_odds() -> None:
    drawn = events(0, 400_000)["key"]
    odds = 1.0 / np.arange(1, 51)
    expected = odds / odds.sum() * drawn.size
    observed = np.bincount(drawn, minlength=50)
    assert ((observed - expected) ** 2 / expected).sum() < 49 + 6 * np.sqrt(2 * 49)


def test_everything_drawn_is_even_and_unrelated() -> None:
    made = events(10**9, 200_000)
    columns = np.stack([made["site"], made["value"], made["key"], made["time"] % 1000]).astype(np.float64)
    assert np.all(np.abs(np.corrcoef(columns) - np.eye(4)) < 6 / np.sqrt(200_000))
    after = np.corrcoef(columns[:, 1:], columns[:, :-1])[:4, 4:]
    assert np.all(np.abs(after) < 6 / np.sqrt(200_000)), "an event tells something about the next"
    assert set(made["site"]) == set(range(4))
    assert set(made["value"]) == set(range(1, 10))


def test_times_are_in_order_one_for_each_share_of_the_traffic() -> None:
    made = events(0, 100_000)
    assert np.array_equal((made["time"] - 10**15) // 1000, np.arange(100_000))
    days_later = events(86_400_000 * 30_000, 10)["time"]
    assert np.array_equal((days_later - 10**15) // 1000, 86_400_000 * 30_000 + np.arange(10))


def test_a_burst_has_one_key_for_its_while() -> None:
    made = events(0, 1000, burst_share=1.0, burst_every=100_000, burst_for=30_000)
    place = (made["time"] - 10**15) % 100_000
    for number in range(10):
        inside = slice(100 * number, 100 * (number + 1))
        in_burst = made["key"][inside][place[inside] < 30_000]
        assert in_burst.size == 30
        assert len(set(in_burst)) == 1
        assert len(set(made["key"][inside][place[inside] >= 30_000])) > 5
    assert len({made["key"][100 * number] for number in range(10)}) > 3, "each burst draws its key"


def test_late_events_are_late_by_at_most_the_longest_delay() -> None:
    on_time, made = events(0, 100_000), events(0, 100_000, late_share=0.2, late_by=7_000_000)
    delay = on_time["time"] - made["time"]
    assert abs(np.mean(delay > 0) - 0.2) < 6 * np.sqrt(0.16 / 100_000)
    assert delay.min() == 0
    assert 6_990_000 < delay.max() <= 7_000_000
    assert abs(delay[delay > 0].mean() - 3_500_000) < 6 * 7_000_000 / np.sqrt(12 * 20_000)


def test_nulls_and_bad_events_come_in_their_shares_and_change_nothing_else() -> None:
    plain, made = events(0, 100_000), events(0, 100_000, null_share=0.1, bad_share=0.1)
    tolerance = 6 * np.sqrt(0.05 / 100_000)
    for flag in ("key_there", "time_there"):
        assert abs(np.mean(made[flag] == 0) - 0.05) < tolerance
    assert made["nulls"] == np.sum(made["key_there"] == 0) + np.sum(made["time_there"] == 0)
    negative, ahead = made["value"] < 0, made["time"] > plain["time"]
    assert abs(negative.mean() - 0.05) < tolerance
    assert abs(ahead.mean() - 0.05) < tolerance
    assert np.array_equal(np.abs(made["value"]), plain["value"])
    assert set(made["time"] - plain["time"]) == {0, 365 * DAY}
    assert not np.any(negative & ahead)
    assert np.array_equal(made["key"], plain["key"])


@pytest.mark.parametrize(("digits", "numbers"), [(1, [0, 9]), (3, [0, 7, 42, 999]), (19, [2**62, 1])])
def test_texts_are_the_numbers_with_leading_zeros(digits: int, numbers: list[int]) -> None:
    out = np.zeros(len(numbers) * (2 + digits), dtype=np.uint8)
    numbered_texts(np.frombuffer(b"k-", dtype=np.uint8), digits, np.array(numbers), out)
    assert out.tobytes().decode() == "".join(f"k-{number:0{digits}d}" for number in numbers)
