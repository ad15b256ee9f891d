"""Two machine instructions that numba does not offer: count trailing and leading zeros of a uint64."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic

__all__ = ["leading_zeros", "trailing_zeros"]


def _zero_counter(instruction: str) -> Any:
    def typed(context: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            zero_is_defined = context.get_constant(types.boolean, False)
            return getattr(builder, instruction)(arguments[0], zero_is_defined)

        return types.uint64(types.uint64), generate

    return intrinsic(typed)


leading_zeros = _zero_counter("ctlz")
trailing_zeros = _zero_counter("cttz")
