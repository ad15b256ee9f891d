"""The slow and obvious versions of what kernels do."""

from __future__ import annotations

_MASK = 2**64 - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotl(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & _MASK


def _round(lane: int, word: int) -> int:
    return (_rotl((lane + word * _P2) & _MASK, 31) * _P1) & _MASK


def xxh64(data: bytes, seed: int) -> int:
    """XXH64 with Python's own integers."""
    rest = memoryview(data)
    if len(rest) >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        while len(rest) >= 32:
            lanes = [_round(lane, int.from_bytes(rest[8 * i : 8 * i + 8], "little")) for i, lane in enumerate(lanes)]
            rest = rest[32:]
        h = sum(_rotl(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            h = ((h ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        h = (seed + _P5) & _MASK
    h = (h + len(data)) & _MASK
    while len(rest) >= 8:
        h = (_rotl(h ^ _round(0, int.from_bytes(rest[:8], "little")), 27) * _P1 + _P4) & _MASK
        rest = rest[8:]
    if len(rest) >= 4:
        h = (_rotl(h ^ (int.from_bytes(rest[:4], "little") * _P1) & _MASK, 23) * _P2 + _P3) & _MASK
        rest = rest[4:]
    for byte in rest:
        h = (_rotl(h ^ (byte * _P5) & _MASK, 11) * _P1) & _MASK
    h = ((h ^ (h >> 33)) * _P2) & _MASK
    h = ((h ^ (h >> 29)) * _P3) & _MASK
    return h ^ (h >> 32)


def crc32c(data: bytes) -> int:
    """CRC-32C a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def space_saving(events: list[tuple[int, int]], capacity: int) -> tuple[list[tuple[int, int, int]], int]:
    """The slots (key, count, error) and the floor, by search through a list."""
    slots: list[tuple[int, int, int]] = []
    floor = 0
    for key, weight in events:
        kept = [slot[0] for slot in slots]
        if weight == 0:
            continue
        if key in kept:
            place = kept.index(key)
            slots[place] = (key, slots[place][1] + weight, slots[place][2])
        elif len(slots) < capacity:
            slots.append((key, floor + weight, floor))
        else:
            place = min(range(capacity), key=lambda other: (slots[other][1], other))
            smallest = slots[place][1]
            if floor + weight <= smallest:
                floor += weight
            else:
                slots[place] = (key, floor + weight, floor)
                floor = smallest
    return slots, floor
