"""Loops of the online scheduler: which instance gets a tuple, by what it is estimated to cost there.

Matrices are flat, (depth * width) cells an instance, read by `cost_matrices`. `now` is the moment of a tuple where
loads are moments of finishing, and minus infinity where they are sums of work, which nothing raises but work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.cost_matrices import cost_in

__all__ = ["deal_longest_first", "least_loaded", "schedule_tuples"]

I64 = NDArray[np.int64]
I32 = NDArray[np.int32]
F64 = NDArray[np.float64]


@kernel
def least_loaded(loads: F64, now: float, turn: int) -> int:
    """The instance with the least load, the first from `turn` on of several; one that finished before now is idle."""
    best = turn
    least = max(loads[turn], now)
    for step in range(1, loads.size):
        place = turn + step
        if place >= loads.size:
            place -= loads.size
        load = max(loads[place], now)
        if load < least:
            best = place
            least = load
    return best


@kernel
def schedule_tuples(
    cells: I32,
    moments: F64,
    counts: I64,
    sums: I64,
    means: F64,
    loads: F64,
    turn: int,
    to_mark: int,
    out: I32,
    marks: F64,
) -> int:
    """Tuples in their order, each to the least loaded instance, whose load it raises; gives back whose turn is next.

    The first `to_mark` go to instances in turn, and `marks` takes the load that each then has.
    """
    instances = loads.size
    for i in range(out.size):
        place = turn if i < to_mark else least_loaded(loads, moments[i], turn)
        loads[place] = max(loads[place], moments[i]) + cost_in(counts[place], sums[place], cells, i, means[place])
        if i < to_mark:
            marks[place] = loads[place]
        out[i] = place
        turn = place + 1 if place + 1 < instances else 0
    return turn


@kernel
def deal_longest_first(order: I64, costs: F64, loads: F64, out: I32) -> None:
    """Rows in `order`, each to the least loaded task: with the dearest first, Graham's LPT rule.

    A heap of the tasks, ties to the lower number: log(tasks) steps a row, however many tasks there are.
    """
    tasks = loads.size
    heap = np.arange(tasks)
    for place in range(tasks // 2 - 1, -1, -1):
        _sift(heap, loads, place)
    for i in range(order.size):
        row = order[i]
        task = heap[0]
        out[row] = task
        loads[task] += costs[row]
        _sift(heap, loads, 0)


@kernel
def _sift(heap: I64, loads: F64, place: int) -> None:
    while True:
        child = 2 * place + 1
        if child >= heap.size:
            return
        if child + 1 < heap.size and _before(loads, heap[child + 1], heap[child]):
            child += 1
        if not _before(loads, heap[child], heap[place]):
            return
        heap[child], heap[place] = heap[place], heap[child]
        place = child


@kernel
def _before(loads: F64, one: int, other: int) -> bool:
    return loads[one] < loads[other] or (loads[one] == loads[other] and one < other)
