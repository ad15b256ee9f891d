"""The leaf of every plan: the columns of a table that are needed, of the rows that are wanted, in each cloud.

    SELECT t.a FROM visits AS t WHERE t.b = 1 AND t._cloud = 'rome'
    rome: SELECT t.a FROM visits AS t WHERE t.b = 1 AND 'rome' = 'rome'

A condition on the hidden column leaves out the clouds that it excludes, if it compares with plain names.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlglot import exp

from catchment.federation.catalog import LogicalTable
from catchment.federation.cloud import Table
from catchment.federation.dialect import CLOUD_COLUMN, DIALECT
from catchment.federation.estimates import row_width
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation, column, name_of
from catchment.federation.selectivity import estimate_rows

__all__ = ["scan", "standin_of"]


def scan(
    planner: Planning, table: LogicalTable, alias: str, outputs: Collection[str], conditions: Sequence[exp.Expr]
) -> Relation:
    """A table as a relation: `outputs` of it, where all `conditions` hold."""
    names = tuple(name for name in (*table.columns, CLOUD_COLUMN) if name in outputs)
    kinds = ["string" if name == CLOUD_COLUMN else table.columns[name].type for name in names]
    predicate = exp.and_(*conditions) if conditions else None
    clouds = [cloud for cloud in table.clouds if all(_may_hold(one, cloud) for one in conditions)]
    clouds = clouds or [table.clouds[0]]
    pieces: dict[str, exp.Query] = {}
    rows: dict[str, float] = {}
    plain: dict[str, Table] = {}
    for cloud in clouds:
        leaf = _leaf(table, alias, names, conditions, cloud)
        rows[cloud] = estimate_rows(table.parts[cloud], predicate)
        found = planner.use_index(leaf, table.parts[cloud])
        if found is not None:
            planner.notes.append(f"{cloud}: {found.reason}")
            rows[cloud] = found.rows
        pieces[cloud] = leaf if found is None else found.relation
        if found is None:
            plain[cloud] = table.parts[cloud]
    total = sum(rows.values())
    return Relation(
        pieces,
        names or ("_one",),
        standin_of(table, names),
        total,
        row_width(kinds),
        {cloud: part / total for cloud, part in rows.items()},
        scan=True,
        tables=plain,
        kept=total / max(total, sum(estimate_rows(table.parts[cloud], None) for cloud in table.clouds)),
        why=f"the columns of {table.name} that are needed",
    )


def standin_of(table: LogicalTable, names: Collection[str]) -> exp.Select:
    """Columns of these types, and no row."""
    values: list[exp.Expr] = []
    for name in names:
        kind = "string" if name == CLOUD_COLUMN else table.columns[name].type
        values.append(exp.alias_(_cast(exp.Null(), kind), name, quoted=True))
    return exp.Select(expressions=values or [_one()], where=exp.Where(this=exp.false()))


def _leaf(
    table: LogicalTable, alias: str, names: Sequence[str], conditions: Sequence[exp.Expr], cloud: str
) -> exp.Select:
    casts = table.casts(cloud)
    values: list[exp.Expr] = []
    for name in names:
        if name == CLOUD_COLUMN:
            values.append(exp.alias_(exp.Literal.string(cloud), name, quoted=True))
        elif name in casts:
            values.append(exp.alias_(_cast(column(name, alias), table.columns[name].type), name, quoted=True))
        else:
            values.append(column(name, alias))
    leaf = exp.Select(
        expressions=values or [_one()],
        from_=exp.From(this=exp.Table(this=name_of(table.name), alias=exp.TableAlias(this=name_of(alias)))),
    )
    if conditions:
        here = [_in_cloud(condition, cloud) for condition in conditions]
        leaf.set("where", exp.Where(this=exp.and_(*here, copy=False)))
    return leaf


def _one() -> exp.Expr:
    return exp.alias_(exp.Literal.number(1), "_one", quoted=True)


def _cast(value: exp.Expr, kind: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.DataType.build(kind, dialect=DIALECT))


def _in_cloud(condition: exp.Expr, cloud: str) -> exp.Expr:
    """The condition with the hidden column's value in its place."""

    def value(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and node.name == CLOUD_COLUMN:
            return exp.Literal.string(cloud)
        return node

    return condition.copy().transform(value)


def _may_hold(condition: exp.Expr, cloud: str) -> bool:
    """False only if the condition compares the hidden column with other names than this cloud's."""
    subject = condition.this
    if isinstance(condition, exp.EQ):
        sides = [condition.left, condition.right]
        if any(_is_cloud(side) for side in sides):
            return all(_is_cloud(side) or not _is_text(side) or side.name == cloud for side in sides)
    if isinstance(condition, exp.In) and _is_cloud(subject) and all(map(_is_text, condition.expressions)):
        return not condition.expressions or cloud in {value.name for value in condition.expressions}
    return True


def _is_cloud(node: object) -> bool:
    return isinstance(node, exp.Column) and node.name == CLOUD_COLUMN


def _is_text(node: object) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)
