"""`catchment merge-check`: the harness of `catchment.testing.merge_check` over several sketches, as one report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from catchment.answer import plain
from catchment.app.report import Progress, Report
from catchment.errors import ParameterError
from catchment.testing.merge_check import OURS, PEERS, Outcome, is_ours, load_adapter, merge_check, pooled

__all__ = ["MergeChecks", "adapters_there_are", "parse_sites", "run_merge_check"]

_COLUMNS = (
    "sketch", "sites", "delta", "trials", "refused", "asked", "outside", "rate", "limit",
    "max err", "mean err", "width/err", "verdict",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MergeChecks:
    """The outcomes of a run, and what was asked for."""

    outcomes: Sequence[Outcome]
    trials: int
    seed: int
    ours: frozenset[str]
    """The names of the adapters whose claims are this package's."""

    @property
    def broken(self) -> list[str]:
        """The adapters whose claims do not hold: in one scenario, or in all together, which sees smaller excesses."""
        return [
            name
            for name in dict.fromkeys(outcome.adapter for outcome in self.outcomes)
            if not all(outcome.holds for outcome in self._of(name)) or not pooled(self._of(name)).holds
        ]

    def _of(self, name: str) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.adapter == name]

    def report(self) -> Report:
        """A row for each sketch and number of sites, over all scenarios."""
        rows = [_row(group) for group in self._by_sites()]
        rates = {f"{row[0]} at {row[1]} sites, outside": row[_COLUMNS.index("rate")] for row in rows}
        figures = {**rates, "broken": len(self.broken), "broken of ours": len(self.ours & set(self.broken))}
        return Report("Does the claimed interval hold the truth after merging?", _COLUMNS, rows, figures, self._notes())

    def _by_sites(self) -> list[list[Outcome]]:
        groups: dict[tuple[str, int], list[Outcome]] = {}
        for outcome in self.outcomes:
            groups.setdefault((outcome.adapter, outcome.sites), []).append(outcome)
        return list(groups.values())

    def _notes(self) -> list[str]:
        notes = [
            f"Trials of each scenario: {self.trials}, seed {self.seed}. Errors are shares of the events in the window."
        ]
        for name in self.broken:
            found = [outcome for outcome in self._of(name) if outcome.first is not None]
            worst = max(found, key=lambda outcome: (outcome.surely, outcome.violations))
            notes.append(f"{name} claims what does not hold: {worst.first}")
        return notes

    def to_json(self, *, quick: bool) -> str:
        """The report, and every scenario by itself."""
        content = json.loads(self.report().to_json("merge-check", quick=quick))
        content |= {"trials": self.trials, "seed": self.seed, "broken": self.broken}
        content["outcomes"] = [plain(outcome.to_dict()) for outcome in self.outcomes]
        return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _row(group: list[Outcome]) -> list[Any]:
    whole = pooled(group)
    holds = whole.holds and all(outcome.holds for outcome in group)
    return [
        whole.adapter, whole.sites, whole.delta, whole.trials, whole.refused, whole.questions,
        whole.violations, whole.rate, whole.allowed, whole.largest_error, whole.mean_error, whole.width_over_error,
        "refused" if whole.refused == whole.trials else "holds" if holds else "broken",
    ]  # fmt: skip


def run_merge_check(
    names: Sequence[str], *, sites: Sequence[int], trials: int, seed: int, progress: Progress
) -> MergeChecks:
    """Check the adapters of these names, all of ours where there are none."""
    adapters = [load_adapter(name) for name in (names or OURS)]
    outcomes: list[Outcome] = []
    for place, adapter in enumerate(adapters):

        def tell(share: float, place: int = place, label: str = adapter.name) -> None:
            progress(label, (place + share) / len(adapters))

        outcomes += merge_check(adapter, sites=sites, trials=trials, seed=seed, progress=tell)
    ours = frozenset(adapter.name for adapter in adapters if is_ours(adapter))
    return MergeChecks(outcomes, trials, seed, ours)


def parse_sites(text: str) -> list[int]:
    """The numbers of sites in `1,2,4,16`.

    >>> parse_sites("1,4")
    [1, 4]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ParameterError(f"--sites {text}", "give whole numbers with commas between them: 1,2,4,16") from None


def adapters_there_are() -> dict[str, str]:
    """Each adapter's name, and whose sketch it is."""
    return dict.fromkeys(OURS, "ours") | dict.fromkeys(PEERS, "another library's: pip install 'catchment[peers]'")
