"""What no rule can plan: every table that the query names goes to one cloud, and the user's own text runs there.

The text is as it was written, with a derived table in place of each table, so this is right for all that Spark can do.
Columns that the query does not name anywhere stay where they are.
"""

from __future__ import annotations

from sqlglot import exp

from catchment.federation.dialect import CLOUD_COLUMN, write
from catchment.federation.planning import Planning
from catchment.federation.relation import Relation
from catchment.federation.rules.scan import scan
from catchment.federation.shape import base_tables, has_star, spliced
from catchment.federation.statements import Query

__all__ = ["ship_all"]


def ship_all(planner: Planning, query: Query, reason: str) -> tuple[str, str]:
    """The cloud to which the tables go, and the text that runs there; never fails for want of a rule."""
    named = {part.name.lower() for part in query.tree.find_all(exp.Identifier)}
    starred = has_star(query.tree) or _names_joins(query.tree)
    relations: dict[str, Relation] = {}
    for table in base_tables(query.tree):
        logical = planner.catalog.table(table.name)
        columns = set(logical.columns) if starred else set(logical.columns) & named
        columns |= {CLOUD_COLUMN} & named
        relations.setdefault(logical.name, scan(planner, logical, logical.name, columns, []))
    cloud = planner.cheapest(list(relations.values()))
    planner.notes.append(f"tables go to {cloud}: {reason}")
    text = spliced(query.text, query.tree, lambda table: write(planner.whole(relations[table.name.lower()], cloud)))
    return cloud, text


def _names_joins(tree: exp.Query) -> bool:
    return any(join.method or join.args.get("using") for join in tree.find_all(exp.Join))
