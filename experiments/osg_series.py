"""OSG as a stream unfolds, with a change in the middle: the thesis's Figures 7.27 (simulator) and 7.28 (prototype).

Both have 150,000 tuples of ten times the usual execution times, 10 to 640 ms, on instances whose speeds change after
75,000. The prototype ran on Storm, on machines of a cloud; of what that adds the thesis gives no numbers. Here 7.28 is
the same virtual clock with two things that a cluster has and the simulator has not: messages to the scheduler take
`LATENCY`, and execution times vary by `JITTER`. Both numbers are ours, and so is the time after which a tuple counts as
timed out, which is Storm's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import altair as alt

from catchment.balance.scheduler import SchedulerSettings
from catchment.testing.queueing import Operated, operate_full_knowledge, operate_osg, operate_round_robin, speed_up
from catchment.testing.workload import Phase, Workload, make_workload

__all__ = ["SERIES", "Series", "Unfolded", "recovered_at", "unfold"]

INSTANCES = 5
CHANGE_AT, TIMED = 75_000, 150_000
BEFORE, AFTER = (1.05, 1.025, 1.0, 0.975, 0.95), (0.90, 0.95, 1.0, 1.05, 1.10)
STEP = 2_000
LATENCY, JITTER = 10_000, 0.1
TIMED_OUT = 30_000_000


@dataclass(frozen=True, slots=True)
class Series:
    """A figure: its conditions, and what the thesis says of it: the tuples of RUN and of recovery, and time-outs."""

    figure: str
    latency: int
    jitter: float
    run_at: int
    recovered_at: int
    timed_out: int | None

    def work(self, *, seed: int = 0, scale: int = 1) -> Workload:
        phases = (Phase(CHANGE_AT // scale, factors=BEFORE), Phase((TIMED - CHANGE_AT) // scale, factors=AFTER))
        return make_workload(
            seed=seed, instances=INSTANCES, phases=phases, cheapest=10_000, dearest=640_000, jitter=self.jitter
        )


SERIES = (
    Series("7.27", 0, 0.0, 10_690, 84_912, None),
    Series("7.28", LATENCY, JITTER, 20_978, 82_311, 1_600),
)


def recovered_at(operated: Operated, change: int) -> int | None:
    """The tuple at which loads were put right with matrices that each instance sent after the change."""
    anew: set[int] = set()
    for at, who in operated.log:
        if at >= change and who >= 0:
            anew.add(who)
        if who < 0 and len(anew) == INSTANCES:
            return at
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Unfolded:
    """What came of one figure."""

    series: Series
    change: int
    runs: dict[str, Operated]

    def rows(self) -> list[tuple[Any, ...]]:
        """For the columns of the experiment: each stretch of the stream, by its mean completion times."""
        ours = self.runs["OSG"]
        begun = min(ours.first_run or self.change, self.change)
        stretches = {"until RUN": (0, begun), "until the change": (begun, self.change), "after it": (self.change, None)}
        found = []
        for name, (start, stop) in stretches.items():
            part = slice(start, stop)
            means = {who: float(run.completion[part].mean()) / 1000 for who, run in self.runs.items()}
            turns = means["round-robin"]
            found.append(
                (
                    f"{self.series.figure} series", name, turns, means["OSG"], turns / means["OSG"], None, None, None,
                    turns / means["OSG, the thesis's rules"], turns / means["full knowledge"], None, None, None,
                )
            )  # fmt: skip
        return found

    def figures(self) -> dict[str, float]:
        ours, prefix = self.runs["OSG"], "series" if self.series.figure == "7.27" else "prototype_series"
        back = recovered_at(ours, self.change)
        return {
            f"{prefix}_run_at": float(-1 if ours.first_run is None else ours.first_run),
            f"{prefix}_recovered_after": float(-1 if back is None else back - self.change),
            f"{prefix}_speed_up": speed_up(ours, self.runs["round-robin"]),
            f"{prefix}_timed_out": float(self.timed_out("OSG")),
            f"{prefix}_round_robin_timed_out": float(self.timed_out("round-robin")),
        }

    def timed_out(self, who: str) -> int:
        return int((self.runs[who].completion > TIMED_OUT).sum())

    def note(self) -> str:
        """The thesis's numbers beside ours."""
        series = self.series
        said = [f"Figure {series.figure}: RUN from tuple {self._run('OSG')} on, by the thesis's rules "
                f"{self._run(THESIS)} (thesis: {series.run_at:,}); costs on all instances learnt anew "
                f"{self._back('OSG')} tuples after the change, by the thesis's rules {self._back(THESIS)} "
                f"(thesis: {series.recovered_at - CHANGE_AT:,})"]  # fmt: skip
        if series.timed_out is not None:
            said.append(
                f"above {TIMED_OUT // 1_000_000} s were {self.timed_out('round-robin'):,} tuples in turns and "
                f"{self.timed_out('OSG'):,} with OSG (thesis: {series.timed_out:,} in turns timed out)"
            )
            said.append(
                f"messages take {series.latency / 1000:g} ms and execution times vary by {series.jitter:.0%}: a "
                "prototype's conditions on the virtual clock, with numbers that are ours; no prototype was run"
            )
        return "; ".join(said) + "."

    def _run(self, who: str) -> str:
        first = self.runs[who].first_run
        return "never" if first is None else f"{first:,}"

    def _back(self, who: str) -> str:
        back = recovered_at(self.runs[who], self.change)
        return "never" if back is None else f"{back - self.change:,}"

    def chart(self) -> Any:
        points = []
        for who, run in self.runs.items():
            for start in range(0, run.completion.size - STEP + 1, STEP):
                part = run.completion[start : start + STEP] / 1000
                points.append(
                    {"tuple": start + STEP, "who": who, "mean": part.mean(), "least": part.min(), "most": part.max()}
                )
        return (
            alt.Chart(alt.InlineData(values=points))
            .mark_line()
            .encode(
                x=alt.X("tuple:Q"),
                y=alt.Y("mean:Q", scale=alt.Scale(type="log"), title="completion, ms"),
                color=alt.Color("who:N", title=None),
            )
            .properties(
                width=880, height=220, title=f"{self.series.figure}: the instances' speeds change in the middle"
            )
        )


THESIS = "OSG, the thesis's rules"


def unfold(series: Series, *, scale: int = 1) -> Unfolded:
    """One stream, as in the figure, `scale` times shorter."""
    work = series.work(scale=scale)
    runs = {
        "round-robin": operate_round_robin(work),
        "OSG": operate_osg(work, SchedulerSettings(), latency=series.latency),
        THESIS: operate_osg(work, SchedulerSettings.thesis(), latency=series.latency),
        "full knowledge": operate_full_knowledge(work, measure="backlog"),
    }
    return Unfolded(series, CHANGE_AT // scale, runs)
