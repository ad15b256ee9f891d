"""HeavyHitterCoordinator: the machine that puts the sites' reports together (Listing 4.5, with the batching of 5.1).

    event                              what changes                             what is sent
    ─────────────────────────────────  ───────────────────────────────────────  ─────────────────────────────────
    first event of a life              a new epoch, kept first                  Ask to all: the list of the last life
    Report, newest of its site         the claim; then, if no round is open,
      something unresolved, not asked    a round opens: a longer list           Ask to all
      who is heavy has changed           a new version of the same list         Ask to all
    Report that answers an old list    the claim as well                        Ask to its site, if not just sent
    Report of an older epoch           nothing                                  Ask to its site
    Report of a newer epoch            an epoch above it, kept first            Ask to all
    any Report                         its site was heard                       Heard to its site, if nothing else
    Tick, a site owes an answer        nothing                                  Ask to that site
    Tick, a lease has run out          the site is missing, rounds go on        (an open round may end)

A round is open while a site that is not missing has not answered the newest list. What sites warn of meanwhile waits
for its end, and goes into one list then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.errors import DamagedBytesError
from catchment.monitor.heavy_hitters.claim import Claim, Known, Mark, claim_of
from catchment.monitor.heavy_hitters.messages import HeavyAsk, HeavyCoordinatorState, HeavyHeard, HeavyReport, digest_of
from catchment.monitor.heavy_hitters.names import Key, Names, hashes_of, in_order
from catchment.monitor.heavy_hitters.plan import HeavyHitterPlan
from catchment.monitor.machine import Action, Persist, Purpose, Received, Send
from catchment.monitor.packing import LARGEST
from catchment.monitor.traffic import Traffic
from catchment.monitor.vectors import WEIGHT_LIMIT
from catchment.monitor.wire import Message, read_frame, write_frame

__all__ = ["HeavyHitterCoordinator"]

U64 = NDArray[np.uint64]

_LISTS_KEPT = 16
"""Versions whose answers can still be read; a later answer is asked for again."""

_STILL_NEAR = 0.5
"""An item leaves the list when its count is below this share of the threshold: near ones would soon come back."""


@dataclass(frozen=True, slots=True, eq=False)
class _List:
    """What was asked for in one version."""

    names: tuple[Key, ...]
    hashes: U64
    heavy: frozenset[int]

    @classmethod
    def of(cls, named: Mapping[int, Key], heavy: frozenset[int]) -> _List:
        names = in_order(named.values())
        return cls(names, hashes_of(names), heavy)

    @property
    def named(self) -> dict[int, Key]:
        return dict(zip(self.hashes.tolist(), self.names, strict=True))

    @property
    def flags(self) -> bytes:
        return HeavyAsk.packed(tuple(hash_ in self.heavy for hash_ in self.hashes.tolist()))

    @property
    def digest(self) -> int:
        return digest_of(Names.of(self.names), self.flags)


class HeavyHitterCoordinator:
    """The coordinator of a `HeavyHitterPlan`.

    `claim` is what follows from the newest reports, and is true at its cut at any moment. `complete` is the newest
    claim that had nothing unresolved and no site missing.

    Parameters
    ----------
    plan, query
        What is asked, and a number that tells this question's messages from others'.
    durable
        The newest blob that the last life kept, or None.
    """

    def __init__(self, plan: HeavyHitterPlan, *, query: int = 0, durable: bytes | None = None) -> None:
        self.plan, self._query = plan, query
        self.traffic = Traffic()
        self.rounds = 0
        watched: tuple[Key, ...] = ()
        self._epoch = 1
        if durable is not None:
            state = read_frame(durable)
            if not isinstance(state, HeavyCoordinatorState) or state.query != query:
                raise DamagedBytesError("this is not the state of the coordinator of this question")
            self._epoch, watched = state.epoch + 1, state.named()
        self._version = self._round = 1
        first = dict(zip(hashes_of(watched).tolist(), watched, strict=True))
        self._lists = {1: _List.of(first, frozenset())}
        self._known: dict[str, Known] = {}
        self._spoken_to: dict[str, int] = {}
        self._heard_at: dict[str, int] = {}
        self._now: int | None = None
        self._claim: Claim | None = None
        self._complete: Claim | None = None

    # -- what others see --------------------------------------------------------------------------------------

    @property
    def claim(self) -> Claim:
        """What the newest reports say: true at its cut."""
        if self._claim is None:  # worked out when asked for: in a round there is a report from every site
            self._claim = claim_of(self.plan, self._known, self.missing)
            self._complete = self._claim if self._claim.complete else self._complete
        return self._claim

    @property
    def complete(self) -> Claim | None:
        """The newest claim with nothing unresolved and no site missing, of those that were looked at; or None."""
        return self._complete if self.claim is not None else None

    @property
    def missing(self) -> tuple[str, ...]:
        """The sites that are silent for longer than their lease, or have never spoken."""
        return tuple(site for site in self.plan.sites if site not in self._known or not self._alive(site))

    def _alive(self, site: str) -> bool:
        return self._now is not None and self._now - self._heard_at.get(site, self._now) <= self.plan.lease

    @property
    def due(self) -> int | None:
        if self._now is None:
            return 0
        alive = [site for site in self.plan.sites if self._alive(site)]
        leases = [self._heard_at[site] + self.plan.lease + 1 for site in alive]
        again = [self._spoken_to[site] + self.plan.resend for site in alive if self._owes(site)]
        return min([*leases, *again], default=None)

    def _owes(self, site: str) -> bool:
        """Whether a site has not answered the newest list."""
        return site not in self._known or self._known[site].asked < self._round

    # -- events -----------------------------------------------------------------------------------------------

    def handle(self, event: Any, now: int) -> list[Action]:
        actions: list[Action] = []
        before = self.missing
        first, self._now = self._now is None, now
        if first:
            self._heard_at = dict.fromkeys(self.plan.sites, now)
            actions += self._open_epoch(self._epoch)
        if isinstance(event, Received):
            actions += self._receive(event)
        if self.missing != before:
            self._claim = None
        actions += self._next_round()
        late = [site for site in self.plan.sites if self._alive(site) and self._owes(site)]
        late = [site for site in late if now >= self._spoken_to[site] + self.plan.resend]
        actions += [self._ask(site, Purpose.RESEND) for site in late]
        if isinstance(event, Received) and not any(isinstance(one, Send) and one.to == event.sender for one in actions):
            actions += self._heard(event.sender)
        return actions

    def _open_epoch(self, epoch: int) -> list[Action]:
        """Begin anew under a number that no site has seen: what it knew about sites' lists is void."""
        self._epoch = epoch
        current = self._lists[self._version]
        self._version = self._round = 1
        self._lists = {1: _List(current.names, current.hashes, frozenset())}
        self._known, self._claim = {}, None
        return [self._persist(), *(self._ask(site, Purpose.CONTROL) for site in self.plan.sites)]

    def _receive(self, event: Received) -> list[Action]:
        message = read_frame(event.frame)
        site = event.sender
        if site not in self.plan.sites or not isinstance(message, HeavyReport):
            raise DamagedBytesError(f"a {type(message).__name__} from {site!r} at the coordinator")
        if message.query != self._query:
            return []
        if message.epoch >= LARGEST:  # there must be a life above it
            raise DamagedBytesError(f"a report of {site!r} about a life {message.epoch} of the coordinator")
        self._heard_at[site] = self._now or 0
        if message.asked == 0:  # the site has no list yet, of whatever epoch
            listed: _List | None = _List.of({}, frozenset())
        elif message.epoch < self._epoch:
            listed = None
        elif self._stranger(message):
            return self._open_epoch(message.epoch + 1)
        else:
            listed = self._lists.get(message.asked)
        if listed is None:
            return [self._ask(site, Purpose.CONTROL)]
        report = self._opened(message, listed)
        if site not in self._known or report.order > self._known[site].order:
            self._known[site] = report
            self._claim = None
        # The list may still be on its way to a site that does not know it; it is not sent a second time at once.
        waited = (self._now or 0) - self._spoken_to[site] >= self.plan.resend
        return [self._ask(site, Purpose.CONTROL)] if report.asked < self._version and waited else []

    def _stranger(self, report: HeavyReport) -> bool:
        """Whether the report follows another life of this coordinator: then this one began from an old blob."""
        listed = self._lists.get(report.asked)
        return (
            report.epoch > self._epoch
            or report.asked > self._version
            or (listed is not None and listed.digest != report.digest)
        )

    def _opened(self, report: HeavyReport, listed: _List) -> Known:
        """A report with its counts put to their items; nothing in it is believed that contradicts itself."""
        others = report.named()
        hashes = np.concatenate([listed.hashes, hashes_of(others)])
        counts = np.array(report.counts, dtype=np.uint64)
        flagged = [hash_ for hash_ in listed.hashes.tolist() if hash_ in listed.heavy]
        onsets = report.onsets if self.plan.window is not None else (0,) * len(flagged)
        order = np.argsort(hashes)
        if counts.size != hashes.size or np.unique(hashes).size != hashes.size or len(onsets) != len(flagged):
            raise DamagedBytesError(f"{counts.size} counts for {hashes.size} items")
        if (counts.size and int(counts.max()) > report.total) or report.total > report.position:
            raise DamagedBytesError(f"a count above the total of {report.total}, or that above {report.position}")
        if max(report.position, report.slack) >= WEIGHT_LIMIT:
            raise DamagedBytesError(f"a report at event {report.position} with a slack of {report.slack}")
        mark = Mark(report.position, report.time, report.total)
        names = listed.named | dict(zip(hashes_of(others).tolist(), others, strict=True))
        return Known(
            report.incarnation, report.seq, report.asked, mark, report.slack,
            hashes[order], counts[order].astype(np.int64), names, dict(zip(flagged, onsets, strict=True)),
        )  # fmt: skip

    # -- rounds -----------------------------------------------------------------------------------------------

    def _next_round(self) -> list[Action]:
        """Unless a round is open: ask for what is unresolved, or tell who is heavy now."""
        if any(self._alive(site) and self._owes(site) for site in self.plan.sites):
            return []
        current = self._lists[self._version]
        asked = current.named
        wanted = self._hashed(self.claim.unresolved)
        heavy = self._hashed(self.claim.heavy)
        if wanted.keys() - asked.keys():
            near = self._near(current)
            named = {hash_: asked[hash_] for hash_ in near} | heavy | wanted
            self.rounds += 1
            self._round = self._version + 1
            return self._ask_all(_List.of(named, frozenset(heavy)))
        if frozenset(heavy) & asked.keys() != current.heavy:
            return self._ask_all(_List(current.names, current.hashes, frozenset(heavy) & frozenset(asked)))
        return []

    def _hashed(self, found: tuple[Any, ...]) -> dict[int, Key]:
        keys = in_order(hitter.key for hitter in found)
        return dict(zip(hashes_of(keys).tolist(), keys, strict=True))

    def _near(self, current: _List) -> list[int]:
        """The items of the list that are not far below the threshold, or that some site would name again at once."""
        sums = np.zeros(current.hashes.size, dtype=np.int64)
        named = np.zeros(current.hashes.size, dtype=bool)
        for report in self._known.values():
            at = np.minimum(np.searchsorted(report.hashes, current.hashes), max(report.hashes.size - 1, 0))
            there = report.hashes[at] == current.hashes if report.hashes.size else np.zeros(0, dtype=bool)
            counts = report.counts[at[there]]
            sums[there] += counts
            named[there] |= counts >= self.plan.share * report.mark.total
        near: list[int] = current.hashes[named | (sums >= _STILL_NEAR * self.plan.share * self.claim.total)].tolist()
        return near

    # -- what is sent and kept --------------------------------------------------------------------------------

    def _ask_all(self, asked: _List) -> list[Action]:
        changed = asked.names != self._lists[self._version].names
        self._version += 1
        self._lists[self._version] = asked
        self._lists.pop(self._version - _LISTS_KEPT, None)
        kept: list[Action] = [self._persist()] if changed else []
        return kept + [self._ask(site, Purpose.DATA) for site in self.plan.sites if self._alive(site)]

    def _ask(self, site: str, purpose: str) -> Send:
        asked = self._lists[self._version]
        known = self._known.get(site)
        incarnation, heard = known.order if known else (0, 0)
        self._spoken_to[site] = self._now or 0
        items, heavy = Names.of(asked.names), asked.flags
        return self._send(
            site, HeavyAsk(self._query, self._epoch, self._version, incarnation, heard, items, heavy), purpose
        )

    def _heard(self, site: str) -> list[Action]:
        if site not in self._known:
            return []
        return [self._send(site, HeavyHeard(self._query, self._epoch, *self._known[site].order), Purpose.CONTROL)]

    def _send(self, site: str, message: Message, purpose: str) -> Send:
        frame = write_frame(message)
        self.traffic.add(purpose, len(frame))
        return Send(site, frame, purpose)

    def _persist(self) -> Persist:
        items = Names.of(self._lists[self._version].names)
        return Persist("coordinator", write_frame(HeavyCoordinatorState(self._query, self._epoch, items)))
