"""The columns of an answer, named and typed as one Spark that holds everything would name and type them.

Spark itself is asked: the user's own text, in which each table is replaced by a relation of the same columns without a
row, is analysed by one cloud. That reads nothing, finds what is wrong with a statement before any table is touched, and
answers what a planner can not know: how Spark calls `sum(a + 1)`, and which decimal it makes of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa
from sqlglot import exp

from catchment.errors import QueryError
from catchment.federation.catalog import Catalog
from catchment.federation.dialect import CLOUD_COLUMN, write
from catchment.federation.rules.scan import standin_of

__all__ = ["base_tables", "has_star", "shape_of", "shaped", "spark_type", "spliced"]

_TYPES = {
    "bool": "boolean", "int8": "tinyint", "int16": "smallint", "int32": "int", "int64": "bigint", "float": "float",
    "double": "double", "string": "string", "large_string": "string", "binary": "binary", "large_binary": "binary",
    "date32[day]": "date", "null": "void",
}  # fmt: skip


def shape_of(text: str, tree: exp.Query, catalog: Catalog) -> str:
    """A query that reads no table and has the columns of the one in `text`."""
    hidden = any(part.name.lower() == CLOUD_COLUMN for part in tree.find_all(exp.Column))
    if hidden and has_star(tree):
        raise QueryError(
            f"a star beside the hidden column {CLOUD_COLUMN}", "name the columns: a star does not show that one"
        )

    def nothing(table: exp.Table) -> str:
        logical = catalog.table(table.name)
        names = [*logical.columns, CLOUD_COLUMN] if hidden else [*logical.columns]
        select = standin_of(logical, names)
        for projection, name in zip(select.expressions, names, strict=True):
            written = logical.columns[name].name if name in logical.columns else name
            projection.set("alias", exp.to_identifier(written, quoted=True))
        return write(select)

    return f"SELECT * FROM (\n{spliced(text, tree, nothing)}\n) LIMIT 0"


def spliced(text: str, tree: exp.Query, instead: Callable[[exp.Table], str]) -> str:
    """The text with a derived table in place of each table, and everything else as it was written."""
    cuts = []
    for table in base_tables(tree):
        where = table.this.meta
        relation = f"({instead(table)})"
        if not table.alias:
            relation += f" AS `{table.name}`"
        cuts.append((where["start"], where["end"] + 1, relation))
    for start, end, relation in sorted(cuts, reverse=True):
        text = text[:start] + relation + text[end:]
    return text


def has_star(tree: exp.Query) -> bool:
    """Whether a star stands for columns; that of count(*) does not."""
    return any(not isinstance(star.parent, exp.Count) for star in tree.find_all(exp.Star))


def base_tables(tree: exp.Query) -> list[exp.Table]:
    """The tables of clouds that a query names; not its common table expressions, and no functions."""
    found = []
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or _is_cte(table):
            continue
        found.append(table)
    return found


def _is_cte(table: exp.Table) -> bool:
    """Whether a WITH above, or an earlier part of the same WITH, gives this name."""
    name = table.name.lower()
    node: exp.Expr | None = table
    while node is not None:
        above = node.parent
        clause = above.args.get("with_") if above is not None else None
        given = clause.expressions if clause is not None and clause is not node else []
        if any(part.alias.lower() == name for part in given):
            return True
        if isinstance(node, exp.CTE) and isinstance(above, exp.With):
            place = above.expressions.index(node)
            before = above.expressions[: place + 1 if above.args.get("recursive") else place]
            if any(part.alias.lower() == name for part in before):
                return True
            node = above.parent  # the WITH's own query does not see itself
            continue
        node = above
    return False


def spark_type(kind: pa.DataType) -> str:
    """Spark's name of an Arrow type, as far as a planner needs it.

    >>> spark_type(pa.decimal128(10, 2)), spark_type(pa.int64()), spark_type(pa.list_(pa.int8()))
    ('decimal(10,2)', 'bigint', 'list<element: int8>')
    """
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return _TYPES.get(str(kind), re.sub(r"\bitem\b", "element", str(kind)))


def shaped(rows: pa.Table, shape: pa.Schema) -> pa.Table:
    """Rows with the names and types of a shape; any value may be null, also inside of others.

    What Spark can prove never to be null in a struct is null all the same where the struct is, which Arrow denies.
    """
    if rows.num_columns != len(shape):
        raise AssertionError(f"{rows.num_columns} columns where {len(shape)} are expected")
    schema = pa.schema([pa.field(field.name, _nullable(field.type)) for field in shape])
    columns = [
        values if values.type.equals(field.type) else values.cast(field.type)
        for values, field in zip(rows.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _nullable(kind: pa.DataType) -> pa.DataType:
    """The type whose values may be null at every depth; the keys of a map never are."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_field, pa.field(kind.item_field.name, _nullable(kind.item_type)))
    return kind


Shapes = Mapping[str, pa.Schema]
