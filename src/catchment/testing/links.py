"""What is between the nodes: paths that delay, lose, double, clog and are cut, and the calendar of what comes when.

The calendar is a heap of tuples, and a message on its way is one of them: no object is made for it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappush
from math import log
from typing import Any
from zlib import crc32

from catchment.errors import ParameterError
from catchment.monitor.machine import Send
from catchment.testing.faults import STRIKES, Faults
from catchment.testing.host import Host, Node, Path
from catchment.testing.trace import Trace

__all__ = ["CALL", "DELIVER", "FEED", "FLUSH", "TICK", "Links"]

DELIVER, TICK, FEED, FLUSH, CALL = range(5)
"""What an entry of the calendar is: (time, number, one of these, and what it is about)."""

_BY_HAND, _BY_CHANCE = 1, 2


class Links:
    """The paths between hosts, and all that is drawn about them; `Network` adds the lives of the machines."""

    def __init__(self, nodes: Sequence[Node], seed: int, faults: Faults) -> None:
        self.seed = seed
        self.time = 0
        self.sent = self.sent_bytes = 0
        self.struck: Counter[str] = Counter(dict.fromkeys(STRIKES, 0))
        self._trace = Trace()
        self._records = self._trace.records
        self._rng = random.Random(f"network {seed}")
        self._random = self._rng.random
        self._heap: list[tuple[Any, ...]] = []
        self._order = 0
        self._hosts = {node.name: Host(node) for node in nodes}
        if not nodes or len(self._hosts) != len(nodes):
            raise ParameterError(f"{len(nodes)} nodes, {len(self._hosts)} names", "give nodes, each with its own name")
        for host in self._hosts.values():
            host.paths = {name: Path(host.name, to) for name, to in self._hosts.items() if to is not host}
        self._apply(faults)
        if faults.partition != "none":
            self._call(self._pause(faults.partition_every), self._partition)
        if faults.swizzle_every:
            self._call(self._draw(faults.swizzle_every), self._swizzle)

    # -- by hand ----------------------------------------------------------------------------------------------

    def cut(self, senders: Iterable[str], receivers: Iterable[str]) -> None:
        """Let nothing through from these to those, until `mend`; cut twice for both directions."""
        self._cut(senders, receivers, _BY_HAND)

    def mend(self) -> None:
        """End all cuts, also those of the partition that happens to be."""
        for host in self._hosts.values():
            for path in host.paths.values():
                path.cut = 0

    def clog(self, name: str, until: int) -> None:
        """Hold all messages from and to a node until then."""
        for path in self._paths_of(self._host(name)):
            self._clog(path, until)

    # -- messages ---------------------------------------------------------------------------------------------

    def _transmit(self, host: Host, send: Send) -> None:
        path = host.paths.get(send.to)
        if path is None:
            raise ParameterError(f"{host.name} sends to {send.to!r}", f"send to one of {', '.join(host.paths)}")
        frame = send.frame
        self.sent += 1
        self.sent_bytes += len(frame)
        if path.cut:
            self._drop("cut", path, frame)
            return
        if self._capacity and path.flight >= self._capacity:
            self._drop("capacity", path, frame)
            return
        uniform = self._random
        if self._loss and uniform() < self._loss:
            self._drop("loss", path, frame)
            return
        mean = self._delay_mean
        arrives = self.time + self._delay_min
        if mean:
            arrives += int(-log(1.0 - uniform()) * mean)
        path.flight += 1
        self._order = order = self._order + 1
        heappush(self._heap, (arrives, order, DELIVER, path, frame))
        if self._duplicate and uniform() < self._duplicate:
            self.struck["duplicate"] += 1
            path.flight += 1
            again = self._delay_min + self._draw(mean) + self._draw(self.faults.duplicate_mean)
            self._push(self.time + again, DELIVER, path, frame)
        if self._clog_share and uniform() < self._clog_share:
            self._clog(path, self.time + 1 + self._draw(self.faults.clog_mean))

    def _drop(self, why: str, path: Path, frame: bytes) -> None:
        self.struck[why] += 1
        self._records.append((self.time, why, path.label, len(frame), crc32(frame)))

    # -- by chance --------------------------------------------------------------------------------------------

    def _partition(self) -> None:
        if self.faults.partition == "none":
            return
        rng = self._rng
        names = list(self._hosts)
        mode = self.faults.partition if self.faults.partition != "any" else rng.choice(("isolate", "split"))
        rng.shuffle(names)
        size = 1 if mode == "isolate" else rng.randint(1, max(len(names) - 1, 1))
        some, others = names[:size], names[size:]
        if rng.random() < 0.5:
            some, others = others, some
        one_way = rng.random() < self.faults.partition_one_way
        self._cut(some, others, _BY_CHANCE)
        if not one_way:
            self._cut(others, some, _BY_CHANCE)
        self.struck["partition"] += 1
        self.struck["one-way"] += one_way
        self._note("partition", f"{', '.join(some)} {'→' if one_way else '↔'} {', '.join(others)}")
        self._call(self.time + self._pause(self.faults.partition_mean), self._reunite)

    def _reunite(self) -> None:
        self._note("reunite", "network")
        for host in self._hosts.values():
            for path in host.paths.values():
                path.cut &= ~_BY_CHANCE
        self._call(self.time + self._pause(self.faults.partition_every), self._partition)

    def _cut(self, senders: Iterable[str], receivers: Iterable[str], by: int) -> None:
        to = [self._host(name).name for name in receivers]
        for sender in map(self._host, senders):
            for name in to:
                if name != sender.name:
                    sender.paths[name].cut |= by

    def _pause(self, mean: float) -> int:
        return 1 + self.faults.partition_stability + self._draw(mean)

    def _swizzle(self) -> None:
        if not self.faults.swizzle_every:
            return
        rng, mean = self._rng, self.faults.swizzle_mean
        chosen = rng.sample(list(self._hosts.values()), rng.randint(1, len(self._hosts)))
        clogs, time = [], self.time
        for host in chosen:
            clogs.append((time, host))
            time += 1 + self._draw(mean)
        rng.shuffle(clogs)
        for start, host in clogs:
            self._call(start, self._swizzle_one, host, time)
            time += 1 + self._draw(mean)
        self._call(time + self._draw(self.faults.swizzle_every), self._swizzle)

    def _swizzle_one(self, host: Host, until: int) -> None:
        if self.faults.swizzle_every:
            self.struck["swizzle"] += 1
            self._note("swizzle", host.name, until)
            self.clog(host.name, until)

    def _clog(self, path: Path, until: int) -> None:
        if until > path.clogged:
            path.clogged = until
            self._call(until, self._release, path)

    def _release(self, path: Path) -> None:
        if path.held and path.clogged <= self.time:
            for entry in path.held:
                # Under its old number: what was held leaves in the order in which it was sent.
                heappush(self._heap, (self.time, *entry[1:]))
            path.held.clear()

    # -- the calendar -----------------------------------------------------------------------------------------

    def _push(self, time: int, kind: int, *what: Any) -> None:
        self._order = order = self._order + 1
        heappush(self._heap, (time, order, kind, *what))

    def _call(self, time: int, action: Callable[..., None], *arguments: Any) -> None:
        self._push(time, CALL, action, arguments)

    def _draw(self, mean: float) -> int:
        """An exponential draw in whole milliseconds."""
        return int(-log(1.0 - self._random()) * mean) if mean else 0

    def _note(self, what: str, where: str, size: int = 0, checksum: int = 0) -> None:
        self._records.append((self.time, what, where, size, checksum))

    # -- small things -----------------------------------------------------------------------------------------

    def _apply(self, faults: Faults) -> None:
        """Take these faults; those that every message meets are kept at hand."""
        self.faults = faults
        self._delay_min = faults.delay_min
        self._delay_mean = faults.delay_mean
        self._loss = faults.loss
        self._duplicate = faults.duplicate
        self._capacity = faults.capacity
        self._clog_share = faults.clog

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            raise ParameterError(f"no node {name!r}", f"choose one of {', '.join(self._hosts)}")
        return host

    def _paths_of(self, host: Host) -> list[Path]:
        to = [other.paths[host.name] for other in self._hosts.values() if other is not host]
        return [*host.paths.values(), *to]
