"""The columns of WorldCup98 records are what the record's own definition says."""

from __future__ import annotations

import numpy as np

from catchment.kernel.wc98 import LOGGED, NO_SIZE, RECORD, write_columns


def test_records_of_random_bytes_decode_as_their_definition() -> None:
    rng = np.random.default_rng(5)
    count = 1003
    records = np.frombuffer(rng.bytes(count * 20), dtype=RECORD).copy()
    records["at"][::2] = rng.integers(LOGGED[0], LOGGED[1] + 1, 502)
    records["at"][:2] = LOGGED
    records["at"][2:4] = LOGGED[0] - 1, LOGGED[1] + 1
    records["size"][::3] = NO_SIZE
    words, codes = np.empty((4, count), dtype=np.int64), np.empty((5, count), dtype=np.int16)
    there, sized = (np.full((count + 7) // 8, 255, dtype=np.uint8) for _ in range(2))
    strange = write_columns(records.view(np.uint8), words, codes, there, sized)
    assert np.array_equal(words[0], records["at"].astype(np.int64) * 1_000_000)
    for row, name in enumerate(("client", "object", "size"), start=1):
        assert np.array_equal(words[row], records[name].astype(np.int64)), name
    for row, name in enumerate(("method", "status", "type", "server")):
        assert np.array_equal(codes[row], records[name]), name
    assert np.array_equal(codes[4], records["server"] // 32)
    inside = (records["at"] >= LOGGED[0]) & (records["at"] <= LOGGED[1])
    assert strange == np.sum(~inside) > 2
    assert np.array_equal(np.unpackbits(there, count=count, bitorder="little"), inside)
    assert np.array_equal(np.unpackbits(sized, count=count, bitorder="little"), inside & (records["size"] != NO_SIZE))
