"""An operator of several instances, the slow and obvious way: one event after the other, machines with messages."""

from __future__ import annotations

import heapq
from collections import deque

import numpy as np

from catchment.balance.scheduler import Mark, OperatorInstance, Scheduler, SchedulerSettings
from catchment.testing.workload import Workload


def operated_slowly(work: Workload, settings: SchedulerSettings, *, latency: int = 0) -> tuple[list[int], list[int]]:
    """The instance and the end of each tuple, by the classes."""
    scheduler = Scheduler(work.instances, settings)
    machines = [OperatorInstance(number, settings) for number in range(work.instances)]
    costs = [work.costs_on(number) for number in range(work.instances)]
    free = [0] * work.instances
    under_way: list[tuple[int, int, int, Mark | None]] = []
    chosen, ends = [], []
    for number, arrival in enumerate(work.arrivals.tolist()):
        while under_way and under_way[0][0] + latency <= arrival:
            end, place, done, mark = heapq.heappop(under_way)
            marks = [] if mark is None else [(0, mark)]
            for message in machines[place].executed(work.keys[done : done + 1], [costs[place][done]], marks=marks):
                scheduler.hear(message, at=end + latency)
        assignment = scheduler.assign(work.keys[number : number + 1], at=arrival)
        place = int(assignment.instances[0])
        free[place] = max(free[place], arrival) + int(costs[place][number])
        chosen.append(place)
        ends.append(free[place])
        heapq.heappush(under_way, (free[place], place, number, assignment.marks[0][1] if assignment.marks else None))
    return chosen, ends


def queued_slowly(work: Workload, instances: list[int]) -> list[int]:
    """When each tuple ends: an explicit queue for each instance, second by second of its own clock."""
    queues: list[deque[int]] = [deque() for _ in range(work.instances)]
    for number, place in enumerate(instances):
        queues[place].append(number)
    ends = np.zeros(len(work), dtype=np.int64)
    for place, queue in enumerate(queues):
        clock = 0
        cost = work.costs_on(place)
        while queue:
            number = queue.popleft()
            clock = max(clock, int(work.arrivals[number])) + int(cost[number])
            ends[number] = clock
    return ends.tolist()
