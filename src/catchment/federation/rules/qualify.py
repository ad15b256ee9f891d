"""Say of every column whose it is, and of every star what it stands for.

SELECT a, sum(b) FROM t GROUP BY 1
SELECT t.a AS a, SUM(t.b) AS _col_1 FROM t AS t GROUP BY t.a
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify as sqlglot_qualify
from sqlglot.schema import MappingSchema

from catchment.federation.catalog import Catalog
from catchment.federation.dialect import CLOUD_COLUMN, DIALECT
from catchment.federation.relation import Unplanned

__all__ = ["qualify"]


def qualify(tree: exp.Query, catalog: Catalog) -> exp.Query:
    """The tree with every column qualified; `Unplanned` for what sqlglot cannot resolve (Spark may still)."""
    hidden = any(part.name.lower() == CLOUD_COLUMN for part in tree.find_all(exp.Column))
    if hidden and any(join.method for join in tree.find_all(exp.Join)):
        raise Unplanned("a natural join beside the hidden column")
    named = {table.name.lower() for table in tree.find_all(exp.Table)}
    schema: dict[str, object] = {
        name: dict.fromkeys((*table.columns, CLOUD_COLUMN) if hidden else table.columns, "STRING")
        for name, table in catalog.tables.items()
        if name in named
    }
    tree = tree.copy()
    _rename_semi_joined(tree)
    try:
        qualified = sqlglot_qualify(
            tree,
            dialect=DIALECT,
            schema=MappingSchema(schema, dialect=DIALECT, normalize=False),
            validate_qualify_columns=False,
            identify=True,
        )
    except SqlglotError as problem:
        raise Unplanned(f"the names in it cannot be resolved here ({problem})") from None
    if any(projection.is_star for block in qualified.find_all(exp.Select) for projection in block.expressions):
        raise Unplanned("a star of a relation whose columns are not known here")
    made = qualified.transform(_bool_or, copy=False)
    assert isinstance(made, exp.Query)
    return made


def _rename_semi_joined(tree: exp.Query) -> None:
    """Give relations that are semi-joined names that no column has, and say what is a field of a column of theirs.

    sqlglot does not know them in the condition of their join, the one place where they have a name, and takes `c.c` for
    a field of a column c. A name that stands for two relations is left as it is, and so is all where a subquery in the
    condition may have names of its own.
    """
    for select in tree.find_all(exp.Select):
        joins, source = select.args.get("joins") or (), select.args.get("from_")
        relations = [*([source.this] if source else ()), *(join.this for join in joins)]
        names = [relation.alias_or_name.lower() for relation in relations]
        for number, join in enumerate(join for join in joins if join.kind.upper() in ("SEMI", "ANTI")):
            relation, condition = join.this, join.args.get("on")
            old = relation.alias_or_name.lower()
            if condition is None or condition.find(exp.Query) or names.count(old) > 1:
                continue
            if not isinstance(relation, (exp.Table, exp.Subquery)):
                continue
            new = f"_semi{number}_{old}"
            for column in list(condition.find_all(exp.Column)):
                first, *rest = column.parts
                if rest and first.name.lower() == old:
                    named = exp.column(rest[0].copy(), table=exp.to_identifier(new, quoted=True))
                    column.replace(exp.Dot.build([named, *(part.copy() for part in rest[1:])]) if rest[1:] else named)
            alias = relation.args.get("alias") or exp.TableAlias()
            alias.set("this", exp.to_identifier(new, quoted=True))
            relation.set("alias", alias)


def _bool_or(node: exp.Expr) -> exp.Expr:
    """`any(a)` and `some(a)` are aggregates unless they stand beside a comparison."""
    if isinstance(node, exp.Any) and not isinstance(node.parent, exp.Binary) and node.find(exp.Query) is None:
        return exp.Anonymous(this="bool_or", expressions=[node.this.unnest()])
    return node
