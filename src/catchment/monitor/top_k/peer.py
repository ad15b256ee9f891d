"""Peer: the top k of many sites' streams, held by each of them, without a centre (TOPiCo), and certified.

Each peer has one register that it wants the others to know, its list, and sends it every period until they say that
they hold it; then it sends a pulse instead. A neighbour is

    =========  =======================  ==========================================
    state      what is held of it       in the answer
    =========  =======================  ==========================================
    ABSENT     nothing                  no: named as missing
    PRESENT    a list, and it speaks    yes, at the cut of that list
    MISSING    a list, but it is quiet  no: named as missing, until it speaks again
    =========  =======================  ==========================================

and goes from one to the other by the table below. Messages that are not newer than what is held change nothing, so
loss, doubling, delay and reordering are harmless. After a restart a peer has a new incarnation, counts on from its
newest blob and holds nothing of others; its first message says so, and they send their lists again. A list is true of
the cut that it names whatever happens to its site afterwards, so nothing needs to be durable before it is sent, but
for the incarnation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catchment.answer import Answer, Ranking
from catchment.errors import BytesError, DamagedBytesError, ParameterError
from catchment.kernel.checksum import crc32c
from catchment.monitor.machine import Action, Persist, Purpose, Received, Send, Tick
from catchment.monitor.top_k.certificate import certify
from catchment.monitor.top_k.counts import LocalCounts
from catchment.monitor.top_k.items import order_of, values_of
from catchment.monitor.top_k.known import Known, combine
from catchment.monitor.top_k.messages import ListMessage, PulseMessage, digest_of
from catchment.monitor.top_k.neighbour import ABSENT, MISSING, NOTHING, PRESENT, Cut, Heard, Neighbour, Nominations
from catchment.monitor.top_k.shortlist import Shortlist, choose
from catchment.monitor.traffic import Traffic
from catchment.monitor.wire import Message, read_frame, write_frame
from catchment.sketch.checks import check_whole
from catchment.sketch.codec import Reader, Writer

__all__ = ["STATE", "TRANSITIONS", "Arrived", "Membership", "Peer", "TopK"]

LIST, PULSE, LAPSE = "LIST", "PULSE", "LAPSE"

TRANSITIONS = {
    (ABSENT, LIST): PRESENT,  # its list is held from now on
    (ABSENT, PULSE): ABSENT,  # it lives, but the list it means was lost: it will send it again
    (ABSENT, LAPSE): ABSENT,
    (PRESENT, LIST): PRESENT,  # a newer list in place of the one before
    (PRESENT, PULSE): PRESENT,  # the list still stands
    (PRESENT, LAPSE): MISSING,  # nothing new for longer than the lease
    (MISSING, LIST): PRESENT,
    (MISSING, PULSE): PRESENT,  # the list that is held was never wrong about its cut
    (MISSING, LAPSE): MISSING,
}
"""What a newer message, or a lease that has run out, makes of a neighbour."""

STATE = "top-k"
"""The name under which a peer keeps its state."""

MOST_MEMBERS = 4096
MOST_NOMINATIONS = 1 << 16
_NO_THRESHOLD = 2**62
_TIME_LIMIT = 2**53

U64 = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Arrived:
    """Events of the peer's own site: arrays, as `LocalCounts.update` takes them."""

    keys: Any
    at: Any = None
    weights: Any = 1
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """From now on these are the peers; who is new is asked, who is gone is forgotten."""

    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The answer of one peer, about the union of the sites' windows at `cut`.

    The count of an item is the sum, over the sites in `cut`, of its count in that site's window at that moment of its
    stream. `ranking` holds up to k items with bounds that always hold; its values are the lower bounds, of what is
    known for sure. `certain` says of each whether it is in the true top-k at that cut, ties being broken by the order
    of items: a yes is never wrong. No item outside the ranking has more than `left_out`.

    `missing` names the members that are not in it. What is certain is certain for the sites in `cut` alone; for all
    members nothing is, and `everywhere` is false.
    """

    k: int
    ranking: Ranking
    certain: tuple[bool, ...]
    left_out: int
    cut: dict[str, Cut]
    missing: tuple[str, ...]

    @property
    def everywhere(self) -> bool:
        """Whether it is about all members."""
        return not self.missing

    @property
    def settled(self) -> bool:
        """Whether the ranking is the true top-k in its true order: all are certain, all counts exact."""
        exact = np.array_equal(self.ranking.answers.low, self.ranking.answers.high)
        return all(self.certain) and exact and (len(self.certain) == self.k or self.left_out == 0)


class Peer:
    """A site of a top-k without a centre.

    **Guarantee.** Every `answer` is true at the cut that it names (`TopK`), whatever was lost, doubled, late, out of
    order or restarted. *Proof.* A `Shortlist` is true of its site at its cut when it is made, and is kept whole.
    `combine` adds bounds that each site states. A site looked for an item if its list was made (or found to be
    unchanged) when it held a list that nominates the item, and said so; that is looked up by the exact (incarnation,
    version) which it names. `certify` proves the rest.

    **Eventually perfect.** On a frozen stream, once all members hold each other's lists, four rounds in which nothing
    is lost make every answer the exact top-k, every item certain, and from then on only pulses are sent. *Proof.* Let N
    be the number of sites and G the true count at rank k (0 if there are fewer items). The threshold that a peer tests
    with is Γ, the k-th largest sum of lower bounds, so Γ <= G. An item of count c >= G has at least c/N at some site;
    there N times its count is at least Γ, and it is nominated, always. (1) One round on, all sites hold lists that
    nominate the true top-k; (2) the next lists echo them, so their sums are exact, and Γ = G from there on. (3)
    Nominations then stay as they are, and whatever is in no list has at each site less than G/N, so all floors
    together are less than G. (4) All sites have looked for all nominations, so all known sums are exact, and unknown
    ones are below the last of the top k. With a sketch for local counts the bounds stay as wide as the sketch's.

    Peers that are missing are left out of N as they are left out of the sums.

    Parameters
    ----------
    name, members
        This peer's name, and the names of all peers, its own among them; the same at all of them.
    k
        How many items to answer with.
    counts
        The counts of this site's events, empty: `ExactCounts` or `SketchedCounts`. All peers have one window.
    period
        Milliseconds between rounds (the paper's δ).
    lease
        A neighbour that says nothing new for longer than this is missing; four periods by default.
    query
        A name that keeps apart the messages of several questions between the same peers.
    save_every
        Milliseconds between two blobs of its state, at least; a period by default. What a crash loses is fed again.
    limit
        The most nominations of one list. Where the window holds many items of much the same count, TOPiCo sends
        them all; beyond the limit certificates get weaker, never wrong.
    saved
        The newest durable blob of the name `STATE`, after a restart; its members, which may have changed since, go
        before `members`. Feed events again from `position` on.

    Examples
    --------
    >>> from catchment.monitor.top_k import ExactCounts
    >>> here, there = (Peer(name, ["a", "b"], k=1, counts=ExactCounts(), period=1000) for name in "ab")
    >>> _ = here.handle(Arrived(["x"] * 5 + ["y"] * 4), now=0), there.handle(Arrived(["z"] * 5 + ["y"] * 4), now=0)
    >>> for now in range(0, 5000, 1000):
    ...     for peer, other in ((here, there), (there, here)):
    ...         for action in peer.handle(Tick(), now):
    ...             if isinstance(action, Send):
    ...                 _ = other.handle(Received(peer.name, action.frame), now)
    >>> top = here.answer()
    >>> top.ranking.keys, top.certain, top.left_out, top.cut["b"].position
    (('y',), (True,), 5, 9)

    References
    ----------
    V. Schiavoni, E. Rivière, P. Sutra, P. Felber, M. Matos, R. Oliveira: TOPiCo: detecting most frequent items from
    multiple high-rate event streams, DEBS 2015.
    """

    def __init__(
        self,
        name: str,
        members: Sequence[str],
        *,
        k: int,
        counts: LocalCounts,
        period: int,
        lease: int | None = None,
        query: str = "",
        save_every: int | None = None,
        limit: int = MOST_NOMINATIONS,
        saved: bytes | None = None,
    ) -> None:
        self.name = name
        self.k = check_whole("k", k, 1, 2**20)
        self.period = check_whole("period", period, 1, _TIME_LIMIT)
        self.lease = check_whole("lease", 4 * period if lease is None else lease, 1, _TIME_LIMIT)
        self.save_every = check_whole("save_every", period if save_every is None else save_every, 0, _TIME_LIMIT)
        self.limit = check_whole("limit", limit, self.k, 2**24)
        self.query = query
        self.counts = counts
        self.traffic = Traffic()
        self.ignored = 0
        """Frames that were none of this question's, from strangers, or damaged."""
        self._neighbours: dict[str, Neighbour] = {}
        self._join(members)
        self._incarnation = 1
        self._durable = 0  # the incarnation in the newest blob
        self._saved: tuple[Cut, int] | None = None  # what the newest blob is about, and when it was made
        if saved is not None:
            self._load(saved)
        self._seq = self._version = 0
        self._content: tuple[Any, ...] = ()
        self._shortlist: Shortlist | None = None
        self._threshold = _NO_THRESHOLD
        self._nominations = Nominations()
        self._now = self._next = 0

    # -- the machine ------------------------------------------------------------------------------------------

    @property
    def due(self) -> int | None:
        """When the next round begins."""
        return self._next

    @property
    def position(self) -> int:
        """How many events of its site it has taken."""
        return self.counts.position

    @property
    def incarnation(self) -> int:
        return self._incarnation

    @property
    def members(self) -> tuple[str, ...]:
        """All peers, in the order of their names."""
        return self._members

    @property
    def shortlist(self) -> Shortlist | None:
        """The list that it wants the others to hold; None before its first round."""
        return self._shortlist

    def states(self) -> dict[str, str]:
        """The state of each neighbour."""
        return {name: other.state for name, other in self._neighbours.items()}

    def handle(self, event: Arrived | Membership | Received | Tick, now: int) -> list[Action]:
        """Take an event in: own events, a change of members, a frame, or a tick."""
        self._now = max(self._now, now)
        if isinstance(event, Arrived):
            self.counts.update(event.keys, at=event.at, weights=event.weights, until=event.until)
            return []
        if isinstance(event, Received):
            return self._receive(event)
        if isinstance(event, Membership):
            self._join(event.members)
            return [self._persist()]
        if isinstance(event, Tick):
            if self._now < self._next:
                return []
            self._next = self._now + self.period
            return self._round()
        raise ParameterError(f"an event of type {type(event).__name__}", "give Arrived, Membership, Received or Tick")

    def _join(self, members: Sequence[str]) -> None:
        names = tuple(sorted(members))
        odd = any(not name or "\n" in name for name in names)
        if self.name not in names or len(set(names)) != len(names) or len(names) > MOST_MEMBERS or odd:
            raise ParameterError(
                f"members {', '.join(names)!r:.80} for {self.name!r}",
                f"give up to {MOST_MEMBERS} different names of one line each, this peer's among them",
            )
        self._members = names
        self._digest = digest_of(names)
        before = self._neighbours
        self._neighbours = {name: before.get(name) or Neighbour() for name in names if name != self.name}
        for other in self._neighbours.values():
            other.acknowledged = NOTHING  # by its old members' digest; the next message says it anew

    # -- a round ----------------------------------------------------------------------------------------------

    def _round(self) -> list[Action]:
        self._lapse()
        self._seq += 1
        self._threshold = self._bar()
        held = [other.shortlist.nominations for other in self._neighbours.values() if other.shortlist is not None]
        shortlist = self._choose(held)
        cut = self._cut()
        content = (shortlist.to_bytes(), shortlist.floor, shortlist.beyond, cut)
        if content != self._content:
            self._content, self._shortlist, self._version = content, shortlist, self._seq
            self._nominations.remember((self._incarnation, self._version), shortlist.nominations)
        saves: list[Action] = []
        if self._durable != self._incarnation or self._save_is_due(cut):
            saves.append(self._persist())
        return [*saves, *self._sends(cut)]

    def _save_is_due(self, cut: Cut) -> bool:
        return self._saved is None or (self._saved[0] != cut and self._now - self._saved[1] >= self.save_every)

    def _bar(self) -> int:
        """The least count that passes the candidacy test: count * N >= Γ."""
        parts = self._parts()
        return -(-combine(list(parts.values())).lowest_of(self.k) // len(parts))

    def _sends(self, cut: Cut) -> list[Action]:
        which = self._incarnation, self._version
        heard = [NOTHING if name == self.name else self._neighbours[name].held for name in self._members]
        header: dict[str, Any] = {
            "query": self.query,
            "incarnation": self._incarnation,
            "seq": self._seq,
            "version": self._version,
            "members": self._digest,
            "heard_incarnations": tuple(incarnation for incarnation, _ in heard),
            "heard_versions": tuple(version for _, version in heard),
        }
        pulse = whole = b""
        sends: list[Action] = []
        for name, other in self._neighbours.items():
            if other.acknowledged == which:
                pulse = pulse or write_frame(PulseMessage(**header))
                sends.append(self._send(name, pulse, Purpose.CONTROL))
            else:
                whole = whole or write_frame(self._list_message(header, cut))
                purpose = Purpose.DATA if self._version == self._seq else Purpose.RESEND
                sends.append(self._send(name, whole, purpose))
        return sends

    def _list_message(self, header: dict[str, Any], cut: Cut) -> ListMessage:
        blob, floor, beyond, _ = self._content
        return ListMessage(
            **header,
            window=self.counts.window or 0,
            position=cut.position,
            time=cut.time,
            floor=floor,
            beyond=beyond,
            shortlist=blob,
        )

    def _send(self, to: str, frame: bytes, purpose: str) -> Send:
        self.traffic.add(purpose, len(frame))
        return Send(to, frame, purpose)

    def _lapse(self) -> None:
        for other in self._neighbours.values():
            if self._now - other.spoke > self.lease:
                other.state = TRANSITIONS[other.state, LAPSE]

    # -- messages ---------------------------------------------------------------------------------------------

    def _receive(self, event: Received) -> list[Action]:
        other = self._neighbours.get(event.sender)
        try:
            message = read_frame(event.frame)
            shortlist = self._shortlist_in(message)
        except BytesError:
            other = None
        if other is None or not isinstance(message, ListMessage | PulseMessage) or message.query != self.query:
            self.ignored += 1
            return []
        if isinstance(message, ListMessage) and message.window != (self.counts.window or 0):
            self.ignored += 1
            return []
        return self._learn(other, message, shortlist)

    def _shortlist_in(self, message: Message) -> Shortlist | None:
        if not isinstance(message, ListMessage):
            return None
        return Shortlist.from_bytes(message.shortlist, floor=message.floor, beyond=message.beyond)

    def _learn(
        self, other: Neighbour, message: ListMessage | PulseMessage, shortlist: Shortlist | None
    ) -> list[Action]:
        round_, which = (message.incarnation, message.seq), (message.incarnation, message.version)
        heard = self._heard_in(message)
        newer = round_ > other.newest
        if shortlist is not None and isinstance(message, ListMessage) and which > other.held:
            # Its round may be older than a pulse that overtook it: the list is what that pulse meant.
            other.held, other.shortlist, other.cut = which, shortlist, Cut(message.position, message.time)
            other.nominations.remember(which, shortlist.nominations)
            other.told, other.heard = NOTHING, {}
            if newer:
                other.state = TRANSITIONS[other.state, LIST]
            elif other.state == ABSENT:  # a pulse came first and is why the lease runs
                other.state = TRANSITIONS[ABSENT, LIST]
        elif newer:
            other.state = TRANSITIONS[other.state, PULSE]
        if which == other.held and round_ > other.told:
            other.told, other.heard = round_, heard
        if newer:
            other.newest, other.spoke = round_, self._now
            other.acknowledged = heard.get(self.name, NOTHING)
        known = heard.get(self.name, NOTHING)
        if known > (self._incarnation, self._seq):  # from a life that the blob of this one does not know of
            self._incarnation = known[0] + 1
            self._content = ()
            return [self._persist()]
        return []

    def _heard_in(self, message: ListMessage | PulseMessage) -> dict[str, Heard]:
        if message.members != self._digest or len(message.heard_versions) != len(self._members):
            return {}
        pairs = zip(message.heard_incarnations, message.heard_versions, strict=True)
        return dict(zip(self._members, pairs, strict=True))

    # -- the answer -------------------------------------------------------------------------------------------

    def answer(self, now: int | None = None) -> TopK:
        """The top k of the sites that are present, as of what is held of each, and of now here."""
        self._now = max(self._now, now or 0)
        self._lapse()
        parts = self._parts()
        known = combine(list(parts.values()))
        found = certify(known.low, known.high, order_of(known.keys), known.unknown, self.k)
        missing = tuple(name for name in self._members if name not in parts)
        cut = {name: self._cut() if name == self.name else self._neighbours[name].cut for name in parts}
        low, high = known.low[found.places], known.high[found.places]
        answers = Answer(low, low, high, confidence=1.0, epsilon=0.0, sites=tuple(parts), missing=missing)
        keys = tuple(values_of(known.keys.take(found.places)))
        ranking = Ranking(keys, answers, self._note(known, len(keys)))
        certain = tuple(found.certain.tolist())
        return TopK(self.k, ranking, certain, found.left_out, cut, missing)

    def _note(self, known: Known, count: int) -> str:
        if count == self.k:
            return ""
        return f"only {count} items {'are known here so far' if known.unknown else 'are in the windows'}"

    def _cut(self) -> Cut:
        return Cut(self.counts.position, self.counts.time)

    def _parts(self) -> dict[str, tuple[Shortlist, U64 | None]]:
        """The lists to add up, by site: its own made now, and those of neighbours that are present."""
        present = {
            name: (other, other.shortlist)
            for name, other in self._neighbours.items()
            if other.state == PRESENT and other.shortlist is not None
        }
        kind = self._kind([shortlist for _, shortlist in present.values()])
        present = {
            name: (other, shortlist)
            for name, (other, shortlist) in present.items()
            if not len(shortlist) or shortlist.keys.kind == kind
        }
        memory = {name: other.nominations for name, other in self._neighbours.items()}
        memory[self.name] = self._nominations
        parts: dict[str, tuple[Shortlist, U64 | None]] = {}
        hashes = [shortlist.hashes for _, shortlist in present.values()]
        for name in self._members:
            if name == self.name:
                parts[name] = self._choose(hashes, ties=True), None
            elif name in present:
                other, shortlist = present[name]
                vague = shortlist.floor > shortlist.beyond
                parts[name] = shortlist, other.looked_for(memory) if vague else _NO_HASHES
        return parts

    def _kind(self, lists: list[Shortlist]) -> int | None:
        """The type of items: the site's own, or while it has none the first of the others'; other types are missing."""
        if self.counts.kind is not None:
            return self.counts.kind
        return min((shortlist.keys.kind for shortlist in lists if len(shortlist)), default=None)

    def _choose(self, wanted: list[U64], *, ties: bool = False) -> Shortlist:
        hashes = np.concatenate(wanted) if wanted else _NO_HASHES
        counted = self.counts.counted()
        return choose(counted, hashes, k=self.k, threshold=self._threshold, limit=self.limit, ties=ties)

    # -- state ------------------------------------------------------------------------------------------------

    def _persist(self) -> Persist:
        self._durable = self._incarnation
        self._saved = self._cut(), self._now
        writer = Writer()
        names = "\n".join(self._members).encode()
        writer.numbers("QI", self._incarnation, len(names))
        writer.raw(names)
        writer.raw(self.counts.to_bytes())
        body = writer.getvalue()
        return Persist(STATE, body + _checksum(body))

    def _load(self, blob: bytes) -> None:
        body = blob[:-4]
        if blob[-4:] != _checksum(body):
            raise DamagedBytesError("the checksum of a peer's state does not match: some byte was altered")
        reader = Reader(memoryview(body))
        incarnation, size = reader.numbers("QI")
        members = bytes(reader.raw(size)).decode().split("\n")
        self.counts.load(bytes(reader.raw(reader.left)))
        self._join(members)
        self._incarnation = incarnation + 1


def _checksum(body: bytes) -> bytes:
    return int(crc32c(np.frombuffer(body, dtype=np.uint8))).to_bytes(4, "little")


_NO_HASHES = np.zeros(0, dtype=np.uint64)
