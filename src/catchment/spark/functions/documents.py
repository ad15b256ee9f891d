"""docs/sql.md, written from the table of functions: `python -m catchment.spark.functions.documents docs/sql.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from catchment.spark.functions.catalog import EVENTS, FUNCTIONS, TABLE_FUNCTIONS, SqlFunction, TableFunction
from catchment.spark.functions.kinds import KINDS

__all__ = ["sql_document"]

_HEAD = f"""# SQL functions

Written by `python -m catchment.spark.functions.documents docs/sql.md` from the table in the code; a test runs every
example.

```python
from catchment.spark import register

register(spark)
```

- **Sketches** are BINARY columns. Names are regular: `<kind>_sketch_agg` builds, `<kind>_panes_agg` builds one in time,
  `<kind>_sketch_<question>` asks, `…_with_error_bounds` gives the whole answer, `<kind>_union` and `<kind>_union_agg`
  merge.
- **Keys** are integers, STRING or BINARY. **Times** are integers, in ticks, or timestamps, which become whole seconds.
  `last` and `now` choose a range: the last so many ticks up to `now`; the whole window up to the newest time otherwise.
- **Parameters** (`epsilon`, `window`, …) are literals; they can be given by name: `counter => 'eh'`. In a classic
  session wrong ones, wrong types and wrong numbers of arguments fail while the query is analysed. Through Spark Connect
  they fail in the tasks; so does, anywhere, what only the bytes can tell, such as a `last` beyond the window.
- **Nulls**: a null sketch, key or parameter gives null; a null `last` or `now` means that it was not given. Aggregates
  skip rows with a null in any column. A group in which nothing else is left gives an empty sketch where rows build it,
  and null for a union. No rows at all give no row, as with every Python aggregate of Spark.
- **Counts** are BIGINT, rounded where an estimate is between two; other values are DOUBLE; what is not finite is null.
  The whole answer is a STRUCT of `value`, `low`, `high`, `confidence`, `epsilon`, `window_start`, `window_end`,
  `sites` and `missing`. Rankings are a STRUCT of `items`, an array of such answers with their `item`, and a `note` that
  says why there may be fewer than were asked for.
- **Aggregates** here are Python aggregates: they shuffle all rows of their group, and cannot stand in a SELECT beside
  Spark's own, such as `count(*)`. `<kind>_…_partials(TABLE(…), …)` builds a sketch for each partition first, so that
  only sketches are shuffled.

The examples are about these events; fractions are shown to four digits.

```sql
{EVENTS};
```
"""


def sql_document() -> str:
    """The whole file."""
    parts = [_HEAD]
    for group in ("any", *KINDS):
        about = "Any sketch" if group == "any" else f"`{group}`: {KINDS[group].named}"
        parts.append(f"\n## {about}\n")
        functions: list[SqlFunction | TableFunction] = [*FUNCTIONS.values(), *TABLE_FUNCTIONS.values()]
        parts += [_entry(function) for function in functions if function.group == group]
    return "".join(parts)


def _entry(function: SqlFunction | TableFunction) -> str:
    code = f"```sql\n{function.example};\n-- {function.result}\n```\n"
    return f"\n### `{function.name}`\n\n`{function.signature}`\n\n{function.meaning}\n\n{code}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(sql_document())
