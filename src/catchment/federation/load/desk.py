"""One cloud during a load: SQL that is not a query, with its errors and books."""

from __future__ import annotations

import uuid
from typing import Any

import pyarrow as pa

from catchment.federation.cloud import Cloud, Column, Errand, Purpose
from catchment.federation.ledger import Ledger
from catchment.federation.load.types import quoted

__all__ = ["Desk", "literal"]


class Desk:
    """Asks one cloud for what a load needs; everything that crosses is entered in the load's books."""

    def __init__(self, cloud: Cloud, ledger: Ledger, query: str) -> None:
        self.cloud = cloud
        self.ledger = ledger
        self.query = query

    @property
    def name(self) -> str:
        return self.cloud.name

    def run(self, sql: str) -> pa.Table:
        """What a query gives."""
        return self.cloud.run(sql, self.errand)

    def do(self, sql: str) -> None:
        """Run a statement that changes something; it is never sent twice."""
        self.cloud.run(sql, self.errand)

    def stop(self) -> None:
        """Stop what runs; what is asked from now on runs again."""
        self.cloud.cancel(self.query)
        self.query = f"{self.query}-end"

    def value(self, sql: str) -> Any:
        """The one value of a query."""
        return self.run(sql)[0][0].as_py()

    def put(self, rows: pa.Table) -> str:
        """Rows as a view, under a name of their own."""
        view = f"catchment_rows_{uuid.uuid4().hex[:12]}"
        self.cloud.put(view, rows, self.errand)
        return view

    def tables(self) -> list[str]:
        """The names of the tables that are there now, in lower case."""
        listed = self.run("SHOW TABLES").to_pylist()
        return [str(row["tableName"]).lower() for row in listed if row["namespace"]]

    def columns(self, table: str) -> tuple[Column, ...]:
        """The columns of a table that is there."""
        found = []
        for row in self.run(f"DESCRIBE TABLE {quoted(table)}").to_pylist():
            if not row["col_name"] or row["col_name"].startswith("#"):
                break  # partitions and the rest come after the columns
            found.append(Column(row["col_name"], row["data_type"]))
        return tuple(found)

    @property
    def errand(self) -> Errand:
        """For whom this is asked."""
        return Errand(self.query, Purpose.LOAD, self.ledger)

    def count(self, table: str) -> int:
        """How many rows there are; Parquet tells it without reading them."""
        return int(self.value(f"SELECT count(*) FROM {quoted(table)}"))


def literal(text: str) -> str:
    """A text as Spark's SQL writes it.

    >>> print(literal("it's a \\\\"))
    'it\\'s a \\\\'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
