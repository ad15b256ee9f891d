"""Freshness: a cut that stands still while its site goes on is named after the lease; held to what the sites did."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from catchment.monitor.machine import COORDINATOR
from catchment.testing.faults import Faults
from catchment.testing.network import Network

__all__ = ["Freshness"]

Cut = tuple[int, int]


class Freshness:
    """Knows when each site left each position and time, and when the coordinator's cuts moved.

    A lease runs by the coordinator's clock, so that nothing is held against it where clocks are wrong, or where
    messages wait at will.
    """

    def __init__(self, sites: tuple[str, ...], faults: Faults, lease: int) -> None:
        self.holds = not (faults.skew or faults.jump_every or faults.clog or faults.swizzle_every)
        # An exponential draw beyond fifty times its mean does not happen.
        self._allowed = lease + 50 * int(faults.delay_mean + faults.flush_mean) + 200
        self._at: dict[str, Cut] = dict.fromkeys(sites, (0, 0))
        self._left: dict[tuple[str, Cut], int] = {}
        self._moved: dict[tuple[int, str], tuple[Cut, int]] = {}
        self._epoch = (0, 0)

    def look(self, network: Network) -> None:
        """To be called after every step."""
        site = network.last
        if site in self._at:
            machine = network.machine(site)
            now = self._at[site] if machine is None else (machine.position, machine.time)
            if now != self._at[site]:
                self._left[site, self._at[site]] = network.time
                self._left.pop((site, now), None)
                self._at[site] = now
        elif site == COORDINATOR:
            machine = network.machine(site)
            epoch = (network.life(site), 0 if machine is None else machine.epoch)
            if epoch != self._epoch:  # every lease begins anew
                self._epoch = epoch
                self._moved.clear()

    def hold(self, network: Network, query: int, cuts: Mapping[str, Cut], named: Collection[str]) -> None:
        """Whoever is not named is about where its cut says, or the cut has moved just now."""
        for site, cut in cuts.items():
            known, moved = self._moved.get((query, site), ((-1, 0), network.time))
            if cut != known or site in named:
                moved = network.time
            self._moved[query, site] = cut, moved
            left = self._left.get((site, cut), network.time)
            if self.holds and site not in named and network.time - max(left, moved) > self._allowed:
                raise AssertionError(
                    f"the cut of {site} stands at {cut} since {moved} ms, it left that at {left} ms, and is not named"
                )
