"""What a step asks once the keys are known that one of its tables is joined with: by index where that costs less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from catchment.federation.dialect import write
from catchment.federation.index_text import LONGEST_LIST
from catchment.federation.plan import Asked, Probe
from catchment.federation.rules.use_index import Replacement

__all__ = ["MOST_KEYS", "probed_text"]

MOST_KEYS = 16 * LONGEST_LIST
"""Of more the text would be long, and hardly a page of the index without one."""
MOST_BYTES = 1 << 20
"""Of all keys that are texts together."""


def probed_text(step: Asked, found: Mapping[str, pa.Table]) -> tuple[str, list[str]]:
    """The statement of a step, and what was chosen for each of its probes."""
    text, said = step.template, []
    for probe in step.probes:
        try:
            relation, reason = _read(probe, _keys(probe, found))
        except ValueError as problem:
            relation, reason = write(probe.leaf), f"{probe.table.name} by scan: {problem}"
        text = text.replace(probe.mark, relation)
        said.append(reason)
    return text, said


def _keys(probe: Probe, found: Mapping[str, pa.Table]) -> list[int | str | date]:
    """The keys in order; `ValueError` if there are too many, or some that cannot be written in SQL."""
    columns = [found[run].column(probe.place) for run in probe.runs]
    chunks = [chunk for column in columns for chunk in column.chunks]
    if not chunks:
        return []
    keys = pc.drop_null(pc.unique(pa.chunked_array(chunks)))
    if len(keys) > MOST_KEYS:
        raise ValueError(f"there are more than {MOST_KEYS:,} keys")
    if keys.nbytes > MOST_BYTES:
        raise ValueError(f"the keys take {keys.nbytes:,} bytes")
    try:
        return sorted(keys.to_pylist())
    except (UnicodeDecodeError, OverflowError):
        raise ValueError("a key is no text, or a day that has no name") from None


def _read(probe: Probe, keys: Sequence[int | str | date]) -> tuple[str, str]:
    name = probe.table.name
    if not keys:
        return write(probe.leaf.where(exp.false())), f"nothing of {name}: there is no key"
    parts: list[Replacement] = []
    for start in range(0, len(keys), LONGEST_LIST):
        listed = exp.In(this=_column(probe), expressions=[_literal(key) for key in keys[start : start + LONGEST_LIST]])
        part = probe.choose(probe.leaf.copy().where(listed, copy=False), probe.table)
        if part is not None:
            parts.append(part)
        if part is None or sum(part.weight for part in parts) >= 1:
            return write(probe.leaf), f"{name} by scan, which costs less than {len(keys):,} keys by index"
    relations = [part.relation for part in parts]
    both = relations[0] if len(relations) == 1 else exp.union(*relations, distinct=False, copy=False)
    return write(both), f"{name} by {len(keys):,} keys, {parts[0].reason.split(':')[0]}"


def _column(probe: Probe) -> exp.Column:
    return exp.column(exp.to_identifier(probe.column, quoted=True), table=exp.to_identifier(probe.alias, quoted=True))


def _literal(key: int | str | date) -> exp.Expr:
    if isinstance(key, str):
        return exp.Literal.string(key)
    if isinstance(key, date):
        return exp.cast(exp.Literal.string(key.isoformat()), "date")
    return exp.Literal.number(key) if key >= 0 else exp.Neg(this=exp.Literal.number(-key))
