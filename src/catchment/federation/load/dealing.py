"""Rows dealt over clouds like cards: so many to the first, as many to the next, and around again.

Which cloud gets a row depends on the row's place in its file alone, not on how the file was cut into blocks: a load
that is repeated deals the same.
"""

from __future__ import annotations

import pyarrow as pa

__all__ = ["HAND", "Deal"]

HAND = 256
"""Rows that a cloud gets at a time: so few that small files are spread too."""


class Deal:
    """The dealing of one file over so many clouds.

    >>> deal = Deal(2, hand=2)
    >>> [part["n"].to_pylist() for part in deal(pa.table({"n": [0, 1, 2]}))]
    [[0, 1], [2]]
    >>> [part["n"].to_pylist() for part in deal(pa.table({"n": [3, 4]}))]
    [[4], [3]]
    """

    def __init__(self, clouds: int, hand: int = HAND) -> None:
        self._clouds = clouds
        self._hand = hand
        self._dealt = 0

    def __call__(self, rows: pa.Table) -> list[pa.Table]:
        """The rows of each cloud, of those that come next in the file."""
        if self._clouds == 1:
            return [rows]
        parts: list[list[pa.Table]] = [[rows.slice(0, 0)] for _ in range(self._clouds)]
        start = 0
        while start < rows.num_rows:
            whose, behind = divmod(self._dealt, self._hand)
            taken = min(self._hand - behind, rows.num_rows - start)
            parts[whose % self._clouds].append(rows.slice(start, taken))
            start += taken
            self._dealt += taken
        return [pa.concat_tables(part) for part in parts]
