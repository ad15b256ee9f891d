"""A network in one thread, with a virtual clock and faults by seed: what protocols are tested on, ours and anybody's.

It drives machines (`monitor.machine`) exactly as their contract says and as unkindly as the contract allows. The same
seed gives the same run, event by event, on every machine; `trace_hash` says so in one line. After every event that a
node has handled, every check is called, and a claim that is false ends the run with an error that names the seed.

The actions of a node form one queue, over all its events: a `Send` leaves when every `Persist` before it is durable,
also those of earlier events, since a machine's state holds what it asked to persist. While it waits the machine goes on
handling events; a crash loses the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from heapq import heappop
from typing import Any
from zlib import crc32

from catchment.errors import ParameterError, SimulationError
from catchment.monitor.machine import COORDINATOR, Action, Persist, Received, Send, Tick
from catchment.testing.faults import Faults
from catchment.testing.host import Host, Node
from catchment.testing.links import DELIVER, FEED, FLUSH, TICK, Links

__all__ = ["Check", "Network"]

Check = Callable[["Network"], None]
"""Looks at the machines after a step and raises `AssertionError` if one claims what is not so."""

_LINES_IN_ERRORS = 40


class Network(Links):
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
        super().__init__(nodes, seed, faults if faults is not None else Faults.quiet())
        self.until = until
        self.steps = self.delivered = self.claims = 0
        self.last = ""
        self.healed_at: tuple[int, int] | None = None
        """Steps and delivered messages when the network was healed; None before."""
        self._script = script
        self._checks = list(checks)
        self._stop_at: int | None = None
        self._fold_at = self._trace.fold_at
        self._feeding = True
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
        self._call(max(time, self.time), action, self)

    def heal(self, *, feeding: bool = True) -> None:
        """End all faults from now on: what was held is released, what is down is up again, clocks run on smoothly.

        Delays stay, and so do rates of clocks. Nodes that left stay away. Without `feeding` no batch is ever handed
        over again either.
        """
        self._apply(self.faults.healed())
        self._feeding = self._feeding and feeding
        self.healed_at = self.steps, self.delivered
        self._note("heal", "network")
        self.mend()
        for host in self._hosts.values():
            host.offset = max(host.offset, host.last_now - int(self.time * host.rate))
            for path in host.paths.values():
                path.clogged = 0
                self._release(path)
            host.tick_at = None
            self._watch(host)
            if host.machine is None and not host.gone and host.life:
                self._call(self.time, self._start, host, host.life)

    # -- faults by hand; `cut`, `mend` and `clog` are in `Links` ----------------------------------------------

    def crash(self, name: str, *, down: int | None = None, set_back: bool = False) -> None:
        """End a node's machine now, and build it anew later; `set_back`: from an older state of its disk."""
        self._crash(self._host(name), down=down, set_back=set_back)

    def jump(self, name: str, by: int) -> None:
        """Set a node's clock; one that is set back shows the same time until it has caught up."""
        host = self._host(name)
        host.offset = max(host.offset + by, 0)
        self.struck["jump"] += 1
        self._note("jump", name, by)
        host.tick_at = None
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
            if kind == DELIVER:
                self._deliver(entry)
            elif kind == TICK:
                self._tick(entry[3], entry[4])
            elif kind == FEED:
                self._hand_over(entry[3], entry[4], entry[5])
            elif kind == FLUSH:
                self._flushed(entry[3], entry[4])
            else:
                entry[3](*entry[4])
        except (_StoppedError, SimulationError):
            raise
        except Exception as problem:
            raise self._failure(f"{type(problem).__name__}: {problem}") from problem

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
                later = time + 1 + self._draw(self.faults.flush_mean + 10)
                self._call(later, self._crash_later, host, host.life)
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
        if due is None or (host.tick_at is not None and due >= host.tick_due):
            return
        at = host.when(due, self.time)
        if at != host.tick_at:
            self._push(at, TICK, host, host.life)
        host.tick_at, host.tick_due = at, due

    def _hand_over(self, host: Host, life: int, event: Any) -> None:
        if host.life == life and host.machine is not None and not host.leaving and self._feeding:
            self._handle(host, event, "feed", host.name, 0, 0)
            self._draw_batch(host)

    def _draw_batch(self, host: Host) -> None:
        batch = None if host.feed is None else next(host.feed, None)
        if batch is not None:
            at, event = batch
            self._push(max(at, self.time + self._draw(host.feed_mean)), FEED, host, host.life, event)

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
        self._push(host.flushing, FLUSH, host, host.life)

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
            self._call(joins, self._start, host, 0)
            if leaves is not None:
                self._call(leaves, self._leave_by_plan, host)
            if faults.jump_every:
                self._call(self._draw(faults.jump_every), self._jump_by_chance, host)

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
        self._call(self.time + pause, self._start, host, host.life)

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
            self._call(host.flushing, self._go, host)
        else:
            self._go(host)

    def _go(self, host: Host) -> None:
        host.gone = True
        host.end()
        self.struck["leave"] += 1
        self._note("leave", host.name)

    def _jump_by_chance(self, host: Host) -> None:
        if self.faults.jump_every:
            self.jump(host.name, self._rng.randint(-self.faults.jump, self.faults.jump))
            self._call(self.time + 1 + self._draw(self.faults.jump_every), self._jump_by_chance, host)

    # -- small things -----------------------------------------------------------------------------------------

    def _apply(self, faults: Faults) -> None:
        super()._apply(faults)
        for host in self._hosts.values():
            host.crash = faults.crash_coordinator if host.name == COORDINATOR else faults.crash

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
