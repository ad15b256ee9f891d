"""The types of columns and expressions: from the catalog where that is enough, otherwise Spark is asked."""

from __future__ import annotations

from sqlglot import exp

from catchment.federation.dialect import DIALECT, write
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.bind import Block

__all__ = ["type_of_column", "types_of"]

_NOT_TYPED = ("group", "where", "having", "order", "limit", "offset", "distinct", "qualify", "windows")


def types_of(planner: Planning, block: Block, values: list[exp.Expr]) -> list[str]:
    """The types of expressions over the rows of a block, as Spark writes them."""
    relations = {source.alias: source.relation for source in block.sources}
    known = [
        type_of_column(relations[value.table], value.name)
        if isinstance(value, exp.Column) and value.table in relations
        else None
        for value in values
    ]
    if None not in known:
        return [str(kind) for kind in known]
    asked = block.select.copy()
    for clause in _NOT_TYPED:
        asked.set(clause, None)
    asked.set("expressions", [exp.alias_(value.copy(), f"_t{place}") for place, value in enumerate(values)])
    return list(planner.types_of(write(block.standin(asked))))


def type_of_column(relation: Relation, name: str) -> str | None:
    """The type of a column that comes from a table as it is; None if an expression makes it."""
    for projection in relation.standin.expressions:
        if projection.alias_or_name == name:
            value = projection.unalias()
            if isinstance(value, exp.Cast) and isinstance(value.this, exp.Null):
                return value.to.sql(dialect=DIALECT).lower().replace(" ", "")
    return None
