"""Plans over a small catalog, as text: the pairs of `plans.sql` are a query and its plan.

`python -m tests.federation.plan_text` writes the plans anew; read the difference before you keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from catchment.federation.catalog import Catalog
from catchment.federation.cloud import Column, Table
from catchment.federation.dialect import readable
from catchment.federation.plan import Keep, Plan, Put
from catchment.federation.planner import Planner
from catchment.federation.rules.freeze_clock import freeze_clock
from catchment.federation.rules.qualify import qualify
from catchment.federation.statements import Query, parse_statement

PAIRS = Path(__file__).with_name("plans.sql")

_VISITS = (
    Column("ip", "string"), Column("url", "string"), Column("day", "date"), Column("revenue", "double"),
    Column("price", "decimal(10,2)"), Column("n", "int"),
)  # fmt: skip
_PAGES = (Column("url", "string"), Column("rank", "int"))
_SHOPS = (Column("ip", "string"), Column("name", "string"))


def catalog() -> Catalog:
    """Visits are many and in both clouds, pages fewer and in both, shops few and in one."""
    return Catalog(
        {
            "paris": {"visits": Table("visits", _VISITS, rows=10**7), "pages": Table("pages", _PAGES, rows=10**6)},
            "rome": {
                "visits": Table("visits", _VISITS, rows=10**7),
                "pages": Table("pages", _PAGES, rows=10**6),
                "shops": Table("shops", _SHOPS, rows=100),
            },
        }
    )


def plan_of(
    text: str, tables: Catalog | None = None, sample: Callable[[str, str], Sequence[int]] | None = None
) -> Plan:
    """The plan of a query; an expression whose type is asked for is a bigint."""
    query = parse_statement(text)
    assert isinstance(query, Query)
    tables = tables or catalog()
    prices = dict.fromkeys(tables.clouds, (0.0, 1.0))
    planner = Planner(tables, prices, "q", lambda sql: ["bigint"] * sql.count(" AS _t"), sample=sample)
    return planner.plan(freeze_clock(qualify(query.tree, tables), 0))


def plan_text(plan: Plan) -> str:
    """A line for each step, and one for the answer."""
    lines = []
    for step in plan:
        if isinstance(step, Put):
            lines.append(f"{step.name} {step.cloud}: {step.view} = {', '.join(step.needs)}")
        elif isinstance(step, Keep):
            lines.append(f"{step.name} {step.cloud}: {step.view} = {readable(step.sql)}")
        else:
            lines.append(f"{step.name} {step.cloud}: {readable(step.sql)}")
    cut = f" [{plan.offset}:{plan.offset + plan.limit}]" if plan.limit is not None else ""
    return "\n".join([*lines, f"answer: {', '.join(plan.results)}{cut}"])


def pairs() -> list[tuple[str, str]]:
    """Queries and their plans, as they are written."""
    blocks = [block.strip() for block in PAIRS.read_text().split("\n\n") if block.strip()]
    return [(query, plan) for query, _, plan in (block.partition(";\n") for block in blocks)]


if __name__ == "__main__":
    PAIRS.write_text("\n\n".join(f"{query.rstrip(';')};\n{plan_text(plan_of(query))}" for query, _ in pairs()) + "\n")
