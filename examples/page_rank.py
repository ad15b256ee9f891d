"""PageRank of links that lie in several clouds: what crosses a border in a round is one number for each page.

    python -m examples.page_rank links source target

The ranks of a round go out with the functions, some 30 bytes a page; a graph with millions of pages wants the join in
SQL instead.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

DAMPING = 0.85


class Shares:
    """Maps a link to the share of its source's rank that it hands on."""

    def __init__(self, source: str, target: str, share: dict[str, float]) -> None:
        self.source, self.target, self.share = source, target, share

    def __call__(self, row: dict[str, Any]) -> Iterator[tuple[str, float]]:
        yield row[self.target], self.share[row[self.source]]


class Ends:
    """Maps a link to its two pages, counting the links that go out."""

    def __init__(self, source: str, target: str) -> None:
        self.source, self.target = source, target

    def __call__(self, row: dict[str, Any]) -> Iterator[tuple[str, int]]:
        yield row[self.source], 1
        yield row[self.target], 0


def added(_page: str, parts: Iterable[float]) -> float:
    return sum(parts)


def page_rank(federation: Any, table: str, source: str, target: str, rounds: int = 20) -> dict[str, float]:
    """The rank of each page after some rounds; ranks sum to one. A page without links hands on to all alike."""
    ends = federation.map_reduce(table, map=Ends(source, target), local_reduce=added, columns=[source, target])
    links: dict[str, int] = ends.pairs
    pages = len(links)
    ranks = dict.fromkeys(links, 1 / pages)
    for _ in range(rounds):
        share = {page: ranks[page] / out for page, out in links.items() if out}
        lost = sum(ranks[page] for page, out in links.items() if not out)
        handed = federation.map_reduce(
            table, map=Shares(source, target, share), local_reduce=added, columns=[source, target]
        ).pairs
        ranks = {page: (1 - DAMPING + DAMPING * lost) / pages + DAMPING * handed.get(page, 0.0) for page in links}
    return ranks


def main() -> None:
    from catchment.spark.cloud import federation

    with federation() as clouds:
        ranks = page_rank(clouds, sys.argv[1], sys.argv[2], sys.argv[3])
    for page, rank in sorted(ranks.items(), key=lambda item: -item[1])[:10]:
        print(f"{rank:.6f} {page}")


if __name__ == "__main__":
    main()
