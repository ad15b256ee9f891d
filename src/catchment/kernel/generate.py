"""Events from nothing but their number: event n is a function of the seed, the recipe and n.

Random numbers come from a counter, not from a state: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014) of n, once for each
thing that is drawn. Any range of events, cut anywhere and made anywhere, therefore has the same rows.

Keys are drawn from an alias table (Walker, ACM TOMS 3(3), 1977; Vose, IEEE TSE 17(9), 1991): one random number and one
look at memory for any distribution. Times come from the inverse of the day's cumulated rate: event n falls at a random
place in the n-th equal share of the traffic, so times never go back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from catchment.kernel.compile import kernel
from catchment.kernel.hashing import mixed

__all__ = ["DAY", "alias_table", "numbered_texts", "write_events"]

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]
U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]

DAY = 86_400_000_000
"""Microseconds."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_S11, _S32 = np.uint64(11), np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_1 = np.uint64(1)
_UNIT = 2.0**-53
_HALF_UNIT = 2.0**-32
_YEAR = 365 * DAY


@kernel
def alias_table(odds: F64) -> U64:
    """One word for each key: the low half a threshold, the high half the key to give at or above it.

    Odds need not sum to one. Only additions, multiplications and divisions: the same table on every machine. The
    threshold has 32 bits, so a probability is off by at most 2^-32 of 1/keys.
    """
    keys = odds.size
    scaled = odds * (keys / odds.sum())
    table = np.empty(keys, dtype=np.uint64)
    waiting = np.empty(keys, dtype=np.int64)  # the small ones from the left, the large ones from the right
    small, large = 0, keys
    for key in range(keys):
        if scaled[key] < 1.0:
            waiting[small] = key
            small += 1
        else:
            large -= 1
            waiting[large] = key
    while small > 0 and large < keys:
        small -= 1
        one = waiting[small]
        other = waiting[large]
        table[one] = (np.uint64(other) << _S32) | np.uint64(scaled[one] * 4294967295.0)
        scaled[other] -= 1.0 - scaled[one]
        if scaled[other] < 1.0:
            large += 1
            waiting[small] = other
            small += 1
    for place in range(small):  # what is left is one up to rounding
        table[waiting[place]] = (np.uint64(waiting[place]) << _S32) | _LOW
    for place in range(large, keys):
        table[waiting[place]] = (np.uint64(waiting[place]) << _S32) | _LOW
    return table


@kernel
def _drawn_key(table: U64, random: np.uint64) -> np.uint64:
    place = ((random >> _S32) * np.uint64(table.size)) >> _S32
    word = table[place]
    return place if (random & _LOW) <= (word & _LOW) else word >> _S32


@kernel
def write_events(
    first: np.uint64,
    draws: U64,
    table: U64,
    day: F64,
    events_a_day: float,
    start: int,
    sites: np.uint64,
    largest: np.uint64,
    burst_share: float,
    burst_every: int,
    burst_for: int,
    late_share: float,
    late_by: int,
    null_share: float,
    bad_share: float,
    site: I64,
    time: I64,
    key: I64,
    value: I64,
    key_there: U8,
    time_there: U8,
) -> int:
    """Fill the columns with events `first`, `first` + 1, …; gives back how many keys and times are null.

    `draws` has seven numbers out of the seed. `day` holds the moments (in microseconds after the start of a day of the
    stream) by which equal shares of the day's events have come, first 0 and last a whole day. `burst_every` is 0 where
    there are no bursts. `key_there` and `time_there` are bitmaps, all ones before the call.
    """
    shares = day.size - 1
    keys = np.uint64(table.size)
    odd = null_share > 0.0 or bad_share > 0.0
    nulls = 0
    for i in range(time.size):
        number = first + np.uint64(i)
        counter = number * _GOLDEN
        random = mixed(counter, draws[0])
        days = (float(number) + float(random >> _S11) * _UNIT) / events_a_day
        whole = np.floor(days)
        along = (days - whole) * shares
        share = min(int(along), shares - 1)
        at = start + int(whole) * DAY + int(day[share] + (day[share + 1] - day[share]) * (along - share))

        random = mixed(counter, draws[1])
        drawn = _drawn_key(table, random)
        if burst_every > 0:
            since = at - start
            burst = since // burst_every
            taken = float(mixed(counter, draws[2]) >> _S11) * _UNIT < burst_share
            if taken and since - burst * burst_every < burst_for:
                drawn = ((mixed(np.uint64(burst), draws[3]) >> _S32) * keys) >> _S32

        random = mixed(counter, draws[4])
        site[i] = ((random >> _S32) * sites) >> _S32
        amount = np.int64(((random & _LOW) * largest) >> _S32) + 1

        if late_share > 0.0:
            random = mixed(counter, draws[5])
            if float(random >> _S32) * _HALF_UNIT < late_share:
                at -= 1 + np.int64(float(random & _LOW) * _HALF_UNIT * late_by)

        if odd:
            random = mixed(counter, draws[6])
            fate = float(random >> _S11) * _UNIT
            if fate < null_share:
                nulls += 1
                if random & _1:
                    key_there[i >> 3] &= np.uint8(255 ^ (1 << (i & 7)))
                else:
                    time_there[i >> 3] &= np.uint8(255 ^ (1 << (i & 7)))
            elif fate < null_share + bad_share:
                if random & _1:
                    amount = -amount
                else:
                    at += _YEAR
        time[i] = at
        key[i] = drawn
        value[i] = amount
    return nulls


@kernel
def numbered_texts(prefix: U8, digits: int, numbers: I64, out: U8) -> None:
    """The prefix and the number with leading zeros, all of one length, one after the other."""
    width = prefix.size + digits
    for i in range(numbers.size):
        begin = i * width
        for place in range(prefix.size):
            out[begin + place] = prefix[place]
        rest = np.uint64(numbers[i])
        for place in range(begin + width - 1, begin + prefix.size - 1, -1):
            tens = rest // np.uint64(10)
            out[place] = np.uint8(48) + np.uint8(rest - tens * np.uint64(10))
            rest = tens
