"""A network in one thread, with a virtual clock and faults by seed: what protocols are tested on, ours and anybody's.

It drives machines (`monitor.machine`) exactly as their contract says and as unkindly as the contract allows. The same
seed gives the same run, event by event, on every machine; `trace_hash` says so in one line. After every event that a
node has handled, every check is called, and a claim that is false ends the run with an error that names the seed.

The actions of a node form one queue, over all its events: a `Send` leaves when every `Persist` before it is durable,
also those of earlier events, since a machine's state holds what it asked to persist. While it waits the machine goes on
handling events; a crash loses the queue.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from math import log
from typing import Any
from zlib import crc32

from catchment.errors import ParameterError, SimulationError
from catchment.monitor.machine import COORDINATOR, Action, Persist, Received, Send, Tick
from catchment.testing.faults import STRIKES, Faults
from catchment.testing.host import Host, Node, Path
from catchment.testing.trace import Trace

__all__ = ["Check", "Network"]

Check = Callable[["Network"], None]
"""Looks at the machines after a step and raises `AssertionError` if one claims what is not so."""

_DELIVER, _TICK, _FEED, _FLUSH, _CALL = range(5)
_BY_HAND, _BY_CHANCE = 1, 2
_LINES_IN_ERRORS = 40


class Network:
    """Nodes, the paths between them, and what goes wrong, by seed.

    Parameters:
        nodes: who takes part; a machine sends to others by these names.
        seed: draws everything that is drawn. Worlds that draw more, such as events, should draw it from the seed too.
        faults: what goes wrong, and how often.
        checks: called as `check(network)` after every step; more can be added by `add_check`.
        until: the virtual millisecond at which `run` and `play` stop.
        script: what `play` does, instead of a plain `run`; for example `run`, then `settle`.

    `steps`, `sent`, `sent_bytes`, `delivered`, `claims` and `struck` (by the names in `STRIKES`) count. A check adds
    one to `claims` whenever it has held a claim against the truth, so that a run that claimed nothing is visible.
    `last` is the node whose event was the last step: most checks need look only at some.

    An example, with machines that do nothing:

    >>> class Idle:
    ...     due = None
    ...     def handle(self, event, now):
    ...         return []
    >>> def feed(machine):
    ...     yield from ((at, "batch") for at in range(0, 1000, 100))
    >>> network = Network([Node("site", lambda blobs, life: Idle(), feed)], seed=1)
    >>> network.play()
    >>> network.steps, network.delivered
    (11, 0)
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        seed: int,
        faults: Faults | None = None,
        checks: Iterable[Check] = (),
        until: int = 20_000,
        script: Callable[[Network], None] | None = None,
    ) -> None:
        self.seed = seed
        self.until = until
        self.time = 0
        self.steps = self.sent = self.sent_bytes = self.delivered = self.claims = 0
        self.struck: Counter[str] = Counter(dict.fromkeys(STRIKES, 0))
        self.last = ""
        self.healed_at: tuple[int, int] | None = None
        """Steps and delivered messages when the network was healed; None before."""
        self._script = script
        self._checks = list(checks)
        self._stop_at: int | None = None
        self._trace = Trace()
        self._records = self._trace.records
        self._fold_at = self._trace.fold_at
        self._rng = random.Random(f"network {seed}")
        self._random = self._rng.random
        self._heap: list[tuple[Any, ...]] = []
        self._order = 0
        self._feeding = True
        self._hosts = {node.name: Host(node) for node in nodes}
        if not nodes or len(self._hosts) != len(nodes):
            raise ParameterError(f"{len(nodes)} nodes, {len(self._hosts)} names", "give nodes, each with its own name")
        for host in self._hosts.values():
            host.paths = {name: Path(host.name, to) for name, to in self._hosts.items() if to is not host}
        self._apply(faults if faults is not None else Faults.quiet())
        self._begin()

    # -- looking ----------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._hosts)

    def machine(self, name: str) -> Any:
        """A node's machine, or None while it is down."""
        return self._host(name).machine

    def life(self, name: str) -> int:
        """How many times a node's machine has been built."""
        return self._host(name).life

    def durable(self, name: str) -> dict[str, bytes]:
        """What a node would be built from if it crashed now."""
        return dict(self._host(name).disk.blobs)

    def has_left(self, name: str) -> bool:
        return self._host(name).gone

    @property
    def trace_hash(self) -> str:
        """One hash over all that happened: equal for equal runs, and for no others."""
        return self._trace.digest()

    def trace(self, last: int | None = None) -> list[str]:
        """The last lines of what happened; all that is kept, if no number is given."""
        return self._trace.lines(last)

    def keep_trace(self) -> None:
        """Keep every line from now on, instead of the last two hundred or more."""
        self._trace.keep = None

    def add_check(self, check: Check) -> None:
        self._checks.append(check)

    # -- running ----------------------------------------------------------------------------------------------

    def play(self, *, steps: int | None = None) -> None:
        """Run the script, or until the end; stop after so many steps, to look at what comes before a failure."""
        self._stop_at = steps
        try:
            if self._script is None:
                self.run()
            else:
                self._script(self)
        except SimulationError:
            raise
        except _StoppedError:
            pass
        except Exception as problem:
            raise self._failure(f"{type(problem).__name__}: {problem}") from problem
        finally:
            self._stop_at = None

    def run(self, until: int | None = None) -> None:
        """Let virtual time pass until then, or until nothing is left to happen."""
        limit = self.until if until is None else until
        heap = self._heap
        while heap and heap[0][0] <= limit:
            self._next()
        self.time = max(self.time, limit)

    def settle(
        self, done: Callable[[Network], bool], *, messages: int, steps: int = 100_000, feeding: bool = True
    ) -> int:
        """Heal, run until done, and return how many messages were delivered for it: what liveness is tested by.

        Raises `SimulationError` if it is not done when this many messages were delivered or steps were taken since,
        or when nothing is left to happen.
        """
        self.heal(feeding=feeding)
        first_message, first_step, seen = self.delivered, self.steps, -1
        while True:
            if seen != self.steps:
                seen = self.steps
                if self._guarded(done):
                    return self.delivered - first_message
                took = self.delivered - first_message, self.steps - first_step
                if took[0] >= messages or took[1] >= steps:
                    raise self._failure(f"not settled {took[0]} messages and {took[1]} steps after all faults ended")
            if not self._heap:
                raise self._failure("not settled, and nothing is left to happen")
            self._next()

    def at(self, time: int, action: Callable[[Network], None]) -> None:
        """Do this at a virtual time: scenarios are written with it."""
        self._push(max(time, self.time), _CALL, action, (self,))

    def heal(self, *, feeding: bool = True) -> None:
        """End all faults from now on: what was held is released, what is down is up again, clocks run on smoothly.

        Delays stay, and so do rates of clocks. Nodes that left stay away. Without `feeding` no batch is handed over
        any more either.
        """
        self._apply(self.faults.healed())
        self._feeding = feeding
        self.healed_at = self.steps, self.delivered
        self._note("heal", "network")
        self.mend()
        for host in self._hosts.values():
            host.offset = max(host.offset, host.last_now - int(self.time * host.rate))
            for path in host.paths.values():
                path.clogged = 0
                self._release(path)
            self._watch(host)
            if host.machine is None and not host.gone and host.life:
                self._push(self.time, _CALL, self._start, (host, host.life))

    # -- faults, by hand or by chance -------------------------------------------------------------------------

    def crash(self, name: str, *, down: int | None = None, set_back: bool = False) -> None:
        """End a node's machine now, and build it anew later; `set_back`: from an older state of its disk."""
        self._crash(self._host(name), down=down, set_back=set_back)

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

    def jump(self, name: str, by: int) -> None:
        """Set a node's clock; one that is set back shows the same time until it has caught up."""
        host = self._host(name)
        host.offset = max(host.offset + by, 0)
        self.struck["jump"] += 1
        self._note("jump", name, by)
        self._watch(host)

    def leave(self, name: str) -> None:
        """Let a node go for good."""
        self._leave(self._host(name))

    # -- the loop ---------------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Let the next thing happen."""
        if self._stop_at is not None and self.steps >= self._stop_at:
            raise _StoppedError
        entry = heappop(self._heap)
        self.time = entry[0]
        kind = entry[2]
        try:
            if kind == _DELIVER:
                self._deliver(entry)
            elif kind == _TICK:
                self._tick(entry[3], entry[4])
            elif kind == _FEED:
                self._hand_over(entry[3], entry[4], entry[5])
            elif kind == _FLUSH:
                self._flushed(entry[3], entry[4])
            else:
                entry[3](*entry[4])
        except (_StoppedError, SimulationError):
            raise
        except Exception as problem:
            raise self._failure(f"{type(problem).__name__}: {problem}") from problem

    def _push(self, time: int, kind: int, *what: Any) -> None:
        self._order = order = self._order + 1
        heappush(self._heap, (time, order, kind, *what))

    def _handle(self, host: Host, event: Any, what: str, where: str, size: int, checksum: int) -> None:
        """A step: one event into one machine, its actions carried out, every check called."""
        self.steps += 1
        self.last = host.name
        time = self.time
        records = self._records
        records.append((time, what, where, size, checksum))
        if len(records) >= self._fold_at:
            self._trace.fold()
            self._fold_at = self._trace.fold_at
        machine = host.machine
        actions = machine.handle(event, host.now(time))  # type: ignore[union-attr]  # callers have looked
        crashes = False
        if host.crash and self._random() < host.crash:
            if self._random() < 0.25:
                self._push(time + 1 + self._draw(self.faults.flush_mean + 10), _CALL, self._crash_later, (host, host.life))
            else:
                crashes = True
                carried_out = self._rng.randint(0, len(actions))
                if 0 < carried_out < len(actions):
                    self.struck["mid-crash"] += 1
                actions = actions[:carried_out]
        if actions:
            self._act(host, actions)
        self._watch(host)
        for check in self._checks:
            check(self)
        if crashes:
            self._crash(host)

    def _deliver(self, entry: tuple[Any, ...]) -> None:
        _, order, _, path, frame = entry
        if path.clogged > self.time:
            path.held.append(entry)
            self.struck["clog"] += 1
            return
        path.flight -= 1
        host = path.to
        if path.cut:
            self._drop("cut", path, frame)
        elif host.machine is None or host.leaving:
            self._drop("down", path, frame)
        else:
            if order < path.newest:
                self.struck["reorder"] += 1
            else:
                path.newest = order
            self.delivered += 1
            self._handle(host, Received(path.sender, frame), "deliver", path.label, len(frame), crc32(frame))

    def _tick(self, host: Host, life: int) -> None:
        if host.life != life or host.tick_at != self.time or host.machine is None or host.leaving:
            return
        host.tick_at = None
        due = host.machine.due
        if due is not None and host.now(self.time) >= due:
            self._handle(host, _TICK_EVENT, "tick", host.name, 0, 0)
        self._watch(host)

    def _watch(self, host: Host) -> None:
        """See to it that the machine gets its tick, unless one comes early enough: most events put `due` off."""
        due = None if host.machine is None else host.machine.due
        if due is None:
            return
        at = host.when(due, self.time)
        if host.tick_at is None or at < host.tick_at:
            host.tick_at = at
            self._push(at, _TICK, host, host.life)

    def _hand_over(self, host: Host, life: int, event: Any) -> None:
        if host.life == life and host.machine is not None and not host.leaving and self._feeding:
            self._handle(host, event, "feed", host.name, 0, 0)
            if host.life == life:
                self._draw_batch(host)

    def _draw_batch(self, host: Host) -> None:
        batch = None if host.feed is None else next(host.feed, None)
        if batch is not None:
            at, event = batch
            self._push(max(at, self.time + self._draw(host.feed_mean)), _FEED, host, host.life, event)

    # -- actions ----------------------------------------------------------------------------------------------

    def _act(self, host: Host, actions: Sequence[Action]) -> None:
        for action in actions:
            if type(action) is Send:
                if host.queue:
                    host.queue.append(action)
                else:
                    self._transmit(host, action)
            elif type(action) is Persist:
                self._persist(host, action)
            else:
                raise ParameterError(f"{action!r:.80} among the actions of {host.name}", "return Send and Persist only")

    def _persist(self, host: Host, action: Persist) -> None:
        self._note("persist", f"{host.name} {action.name}", len(action.blob), crc32(action.blob))
        durable = self.time + self.faults.flush_min + self._draw(self.faults.flush_mean)
        if durable == self.time and not host.queue:
            host.disk.flush(action)
            return
        host.flushing = max(host.flushing, durable)
        host.queue.append(action)
        self._push(host.flushing, _FLUSH, host, host.life)

    def _flushed(self, host: Host, life: int) -> None:
        if host.life != life or host.machine is None:
            return
        queue = host.queue
        persist = queue.popleft()
        assert type(persist) is Persist  # blobs become durable in the order of the queue
        host.disk.flush(persist)
        self._note("durable", f"{host.name} {persist.name}")
        while queue and type(queue[0]) is Send:
            self._transmit(host, queue.popleft())  # type: ignore[arg-type]  # looked at just before

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
        heappush(self._heap, (arrives, order, _DELIVER, path, frame))
        if self._duplicate and uniform() < self._duplicate:
            self.struck["duplicate"] += 1
            path.flight += 1
            again = self._delay_min + self._draw(mean) + self._draw(self.faults.duplicate_mean)
            self._push(self.time + again, _DELIVER, path, frame)
        if self._clog_share and uniform() < self._clog_share:
            self._clog(path, self.time + 1 + self._draw(self.faults.clog_mean))

    def _drop(self, why: str, path: Path, frame: bytes) -> None:
        self.struck[why] += 1
        self._records.append((self.time, why, path.label, len(frame), crc32(frame)))

    # -- lives ------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        rng, faults = self._rng, self.faults
        for host in self._hosts.values():
            host.rate = 1 + rng.uniform(-faults.skew, faults.skew)
            host.offset = rng.randint(0, faults.offset)
            self.struck["skew"] += host.rate != 1 or host.offset > 0
            host.feed_mean = faults.feed_mean * faults.feed_spread ** rng.uniform(-1, 1)
            site = host.name != COORDINATOR
            joins, leaves = host.node.joins, host.node.leaves
            if joins is None:
                joins = 1 + self._draw(faults.join_mean) if site and rng.random() < faults.join else 0
            if leaves is None and site and rng.random() < faults.leave:
                leaves = joins + 1 + self._draw(faults.leave_mean)
            self._push(joins, _CALL, self._start, (host, 0))
            if leaves is not None:
                self._push(leaves, _CALL, self._leave_by_plan, (host,))
            if faults.jump_every:
                self._push(self._draw(faults.jump_every), _CALL, self._jump_by_chance, (host,))
        if faults.partition != "none":
            self._push(self._pause(faults.partition_every), _CALL, self._partition, ())
        if faults.swizzle_every:
            self._push(self._draw(faults.swizzle_every), _CALL, self._swizzle, ())

    def _start(self, host: Host, life: int) -> None:
        if host.life != life or host.machine is not None or host.gone:
            return
        if life == 0 and self.time > 0:
            self.struck["join"] += 1
        host.life += 1
        self.steps += 1
        self.last = host.name
        self._note("start", host.name, host.life)
        host.last_now = max(int(self.time * host.rate) + host.offset, 0)
        host.machine = host.node.build(dict(host.disk.blobs), host.life)
        host.feed = None if host.node.feed is None else host.node.feed(host.machine)
        self._draw_batch(host)
        self._watch(host)
        for check in self._checks:
            check(self)

    def _crash(self, host: Host, *, down: int | None = None, set_back: bool = False) -> None:
        if host.machine is None or host.gone:
            return
        blobs = sum(type(action) is Persist for action in host.queue)
        self.struck["crash"] += 1
        self.struck["unflushed"] += blobs
        self.struck["unsent"] += len(host.queue) - blobs
        self._note("crash", host.name, len(host.queue))
        host.end()
        by_chance = self.faults.rollback and host.name in self.faults.rollback_nodes
        if (set_back or (by_chance and self._random() < self.faults.rollback)) and host.disk.set_back(self._rng):
            self.struck["rollback"] += 1
            self._note("rollback", host.name)
        pause = 1 + self._draw(self.faults.restart_mean) if down is None else down
        self._push(self.time + pause, _CALL, self._start, (host, host.life))

    def _crash_later(self, host: Host, life: int) -> None:
        if host.life == life and host.crash:
            self._crash(host)

    def _leave_by_plan(self, host: Host) -> None:
        if self.healed_at is None or host.node.leaves is not None:
            self._leave(host)

    def _leave(self, host: Host) -> None:
        if host.gone or host.leaving:
            return
        life = host.life
        if host.machine is not None and host.node.farewell is not None:
            self._handle(host, host.node.farewell, "farewell", host.name, 0, 0)
        if host.life == life and host.machine is not None and host.queue:
            host.leaving = True
            self._push(host.flushing, _CALL, self._go, (host,))
        else:
            self._go(host)

    def _go(self, host: Host) -> None:
        host.gone = True
        host.end()
        self.struck["leave"] += 1
        self._note("leave", host.name)

    # -- weather ----------------------------------------------------------------------------------------------

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
        self._push(self.time + self._pause(self.faults.partition_mean), _CALL, self._reunite, ())

    def _reunite(self) -> None:
        self._note("reunite", "network")
        for host in self._hosts.values():
            for path in host.paths.values():
                path.cut &= ~_BY_CHANCE
        self._push(self.time + self._pause(self.faults.partition_every), _CALL, self._partition, ())

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
            self._push(start, _CALL, self._swizzle_one, (host, time))
            time += 1 + self._draw(mean)
        self._push(time + self._draw(self.faults.swizzle_every), _CALL, self._swizzle, ())

    def _swizzle_one(self, host: Host, until: int) -> None:
        if self.faults.swizzle_every:
            self.struck["swizzle"] += 1
            self._note("swizzle", host.name, until)
            self.clog(host.name, until)

    def _clog(self, path: Path, until: int) -> None:
        if until > path.clogged:
            path.clogged = until
            self._push(until, _CALL, self._release, (path,))

    def _release(self, path: Path) -> None:
        if path.held and path.clogged <= self.time:
            for entry in path.held:
                # Under its old number: what was held leaves in the order in which it was sent.
                heappush(self._heap, (self.time, *entry[1:]))
            path.held.clear()

    def _jump_by_chance(self, host: Host) -> None:
        if self.faults.jump_every:
            self.jump(host.name, self._rng.randint(-self.faults.jump, self.faults.jump))
            self._push(self.time + 1 + self._draw(self.faults.jump_every), _CALL, self._jump_by_chance, (host,))

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
        for host in self._hosts.values():
            host.crash = faults.crash_coordinator if host.name == COORDINATOR else faults.crash

    def _draw(self, mean: float) -> int:
        """An exponential draw in whole milliseconds."""
        return int(-log(1.0 - self._random()) * mean) if mean else 0

    def _host(self, name: str) -> Host:
        host = self._hosts.get(name)
        if host is None:
            raise ParameterError(f"no node {name!r}", f"choose one of {', '.join(self._hosts)}")
        return host

    def _paths_of(self, host: Host) -> list[Path]:
        to = [other.paths[host.name] for other in self._hosts.values() if other is not host]
        return [*host.paths.values(), *to]

    def _note(self, what: str, where: str, size: int = 0, checksum: int = 0) -> None:
        self._records.append((self.time, what, where, size, checksum))

    def _guarded(self, done: Callable[[Network], bool]) -> bool:
        try:
            return done(self)
        except Exception as problem:
            raise self._failure(f"{type(problem).__name__}: {problem}") from problem

    def _failure(self, problem: str) -> SimulationError:
        lines = tuple(self._trace.lines(_LINES_IN_ERRORS))
        return SimulationError(
            "\n".join([f"seed {self.seed}, step {self.steps}, {self.time} ms: {problem}", *lines, ""]),
            f"run replay(build_world, {self.seed}) to see it again",
            seed=self.seed,
            step=self.steps,
            time=self.time,
            trace=lines,
        )


class _StoppedError(Exception):
    """As many steps as were asked for."""


_TICK_EVENT = Tick()
