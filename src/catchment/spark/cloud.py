"""A micro-cloud over Spark Connect: SQL in, Arrow out; every call ends in bounded time, and errors name the cloud.

from catchment.spark.cloud import federation

with federation() as clouds:                     # clouds.toml here, or those of `catchment clouds up`
clouds.sql("SELECT country, count(*) FROM visits GROUP BY country")
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyspark.sql.connect.proto as proto
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from catchment.errors import CatchmentError, CloudError, ParameterError
from catchment.federation.cloud import Errand, Table
from catchment.federation.federation import Federation
from catchment.federation.map_reduce import Functions
from catchment.federation.settings import CloudSettings
from catchment.spark.channel import CHUNK_ROWS, arrow_chunks
from catchment.spark.cloud_folder import find_clouds
from catchment.spark.cloud_line import Line
from catchment.spark.cloud_tables import TableReader
from catchment.spark.connect_session import is_session_lost
from catchment.spark.lists_of_rows import listed, unlisted
from catchment.spark.map_reduce import over_line

__all__ = ["ConnectCloud", "ConnectFederation", "connected", "federation"]

TABLES_SECONDS = 5.0
"""How old the list of tables may be."""
_INLINE_BYTES = 256 << 10
"""Rows up to this size go with the statement that makes them a view, larger ones before it, in chunks."""
_PIECE_BYTES = 16 << 20
"""Spark keeps a local relation in memory as long as the view, and sends its rows with each task that reads them. More
than this becomes pieces, each of them turned into blocks that Spark can move to disk."""
_WORN_BYTES = 256 << 20
"""A server keeps what was sent until the session ends; after so much, an idle session is changed for a new one."""
_READS = re.compile(r"\s*\(*\s*(select|with|values|table|show|describe|desc|explain)\b", re.IGNORECASE)
_VIEW = re.compile(r"[a-z_][a-z0-9_]*")


def _nothing(_point: str) -> None:
    """Nobody watches."""


class ConnectCloud:
    """One micro-cloud behind Spark Connect. Threads may share it; they share one session, which holds the views.

    Parameters
    ----------
    settings
        Where it is, and what bytes cost there.
    watch
        Called with the name of each point that a call comes by (`run`, `run: batch`, `run: end`, `put`, `put: sent`,
        `put: end`, `keep`, `keep: end`, `forget`, `tables`), in the thread that makes the call. For tests and progress.

    The session is opened at the first call. If the cloud was restarted since, a new one is opened, unless views of
    a query were lost with the old one: that query gets a `CloudError`.
    """

    def __init__(self, settings: CloudSettings, *, watch: Callable[[str], None] = _nothing) -> None:
        self.settings = settings
        self.watch = watch
        self._line = Line(settings, self._forget_all)
        self._lock = threading.Lock()
        self._views: set[str] = set()
        self._pieces: dict[str, list[Any]] = {}
        self._worn = 0
        self._reader = TableReader()
        self._tables: tuple[float, Mapping[str, Table]] | None = None

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def region(self) -> str:
        return self.settings.region

    @property
    def cost_in(self) -> float:
        return self.settings.cost_in

    @property
    def cost_out(self) -> float:
        return self.settings.cost_out

    def __repr__(self) -> str:
        return f"ConnectCloud({self.name!r}, {self.settings.address!r})"

    def session(self) -> SparkSession:
        """The session, opened if there is none: for what SQL and Arrow alone do not do, such as Python functions."""
        return self._line.session()

    def tables(self) -> Mapping[str, Table]:
        """The tables by their lower-case names, at most five seconds old; their sizes at most a minute."""
        with self._lock:
            if self._tables is not None and time.monotonic() - self._tables[0] < TABLES_SECONDS:
                return self._tables[1]
        self.watch("tables")
        found: Mapping[str, Table] = self._line.ask(self._reader.read)
        with self._lock:
            self._tables = (time.monotonic(), found)
        return found

    def refresh(self) -> None:
        """Have the next `tables` ask the cloud for everything."""
        with self._lock:
            self._tables = None
            self._reader.forget()

    def run(self, sql: str, errand: Errand) -> pa.Table:
        """What a statement gives, whole; its batches are not copied. One that changes something is never sent twice."""
        reads = _READS.match(sql) is not None
        repeatable = reads and not self._views
        try:
            return self._whole(sql, errand)
        except CloudError as problem:
            if not repeatable or not is_session_lost(problem.__cause__):
                raise
        finally:
            if not reads:
                self.refresh()
        return self._whole(sql, errand)

    def stream(self, sql: str, errand: Errand) -> Iterator[pa.RecordBatch]:
        """What a SELECT gives, batch by batch; eight wait at most, so that a slow reader slows the channel.

        Spark sends the rows of a partition when it has them all: one with few partitions comes late, and in its memory.
        """
        return (part for part in self._stream(sql, errand) if isinstance(part, pa.RecordBatch))

    def run_functions(
        self, sql: str, functions: Functions, errand: Errand, progress: Callable[[float], None]
    ) -> pa.Table:
        """What tasks of a map-reduce give; what goes in is entered as the program."""
        self.watch("run")
        return over_line(self._line, self.name, sql, functions, errand, progress)

    def put(self, name: str, rows: pa.Table, errand: Errand) -> None:
        """Make rows a view of that name, in this session."""
        self.watch("put")
        command, view = self._new_view(name)
        if rows.nbytes <= _INLINE_BYTES and rows.num_rows <= CHUNK_ROWS:
            (view.input.local_relation.data,) = arrow_chunks(rows)
        elif rows.nbytes <= _PIECE_BYTES:
            view.input.CopyFrom(unlisted(self._sent(listed(rows), errand)))
        else:
            pieces = [self._blocks(self._sent(listed(piece), errand), errand) for piece in _pieces(rows, _PIECE_BYTES)]
            view.input.CopyFrom(unlisted(_union([piece._plan.plan(self.session().client) for piece in pieces])))
            self._pieces[name] = pieces
        self.watch("put: sent")
        self._do(command, errand, rows=rows.num_rows)
        self.watch("put: end")

    def keep(self, name: str, sql: str, errand: Errand) -> None:
        """Run a SELECT, keep what it gives as blocks of the cloud, and make them a view of that name."""
        self.watch("keep")
        command, view = self._new_view(name)
        asked = proto.Relation()
        asked.sql.query = sql
        piece = self._blocks(asked, errand)
        view.input.CopyFrom(piece._plan.plan(self.session().client))
        self._pieces[name] = [piece]
        self._do(command, errand)
        self.watch("keep: end")

    def forget(self, names: Iterable[str]) -> None:
        """Drop views that were put or kept; one that is not there, or a cloud that does not answer, is no error."""
        self.watch("forget")
        with self._lock:
            here = [name for name in names if name in self._views]
            self._views.difference_update(here)
            dropped = [self._pieces.pop(name) for name in here if name in self._pieces]
            worn = self._worn >= _WORN_BYTES and not self._views
        if here:
            # A view lives in our session: with a cloud that is gone, or the session, it is gone too.
            with suppress(CatchmentError):
                self._line.ask(lambda session: [session.catalog.dropTempView(name) for name in here])
        del (
            dropped
        )  # which lets the cloud drop the blocks, at its next collection of garbage, after the views over them
        if worn:
            self._line.renew()
            self._worn = 0

    def cancel(self, query: str) -> None:
        """Stop what runs for a query; its callers get `CancelledQueryError`, at once, and so does who asks later."""
        self._line.cancel(query)

    def check(self) -> float:
        """Ask the cloud for a sign of life; the seconds it took."""
        start = time.monotonic()
        self._line.ask(lambda session: session.client.get_configs("spark.sql.session.timeZone"))
        return time.monotonic() - start

    def close(self) -> None:
        """Drop everything that the cloud keeps for us; never fails."""
        self._line.close()
        self._forget_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _whole(self, sql: str, errand: Errand) -> pa.Table:
        schema: pa.Schema | None = None
        batches = []
        for part in self._stream(sql, errand):
            if isinstance(part, pa.Schema):
                schema = part
            else:
                batches.append(part)
        return pa.Table.from_batches(batches, None if batches else schema)

    def _stream(self, sql: str, errand: Errand) -> Iterator[pa.RecordBatch | pa.Schema]:
        plan = proto.Plan()
        plan.root.sql.query = sql
        self.watch("run")
        for part in self._line.answers(lambda client: client.to_table_as_iterator(plan, {}), errand):
            if isinstance(part, StructType):
                yield to_arrow_schema(part, timezone="UTC")
            else:
                self.watch("run: batch")
                yield from part.to_batches()
        self.watch("run: end")

    def _send(self, rows: pa.Table, errand: Errand) -> list[str]:
        """Send rows in chunks; the server keeps them under their hashes, and is not sent again what it has."""
        blobs = list(arrow_chunks(rows))
        with self._lock:
            self._worn += sum(map(len, blobs))
        (hashes,) = self._line.answers(lambda client: iter([client.cache_artifacts(blobs)]), errand)
        self.watch("put: chunk")
        found: list[str] = hashes
        return found

    def _new_view(self, name: str) -> tuple[proto.Command, Any]:
        """The command that makes a view, which is ours from now on, without what it shows."""
        if not _VIEW.fullmatch(name):
            raise ParameterError(f"a view of the name {name!r}", "use small letters, digits and _")
        command = proto.Command()
        view = command.create_dataframe_view
        view.name, view.replace = name, True
        with self._lock:
            self._views.add(name)
        return command, view

    def _do(self, command: proto.Command, errand: Errand, rows: int = 0) -> None:
        for _ in self._line.answers(lambda client: _ignored(client, command), errand, rows=rows):
            pass

    def _blocks(self, relation: proto.Relation, errand: Errand) -> Any:
        """A relation as blocks of the cloud; they are dropped with the last reference to what this gives."""
        command = proto.Command()
        checkpoint = command.checkpoint_command
        checkpoint.relation.CopyFrom(relation)
        checkpoint.local = checkpoint.eager = True
        (kept,) = self._line.answers(lambda client: iter([client.execute_command(command)[1]]), errand)
        return kept["checkpoint_command_result"]

    def _sent(self, rows: pa.Table, errand: Errand) -> proto.Relation:
        """Rows that were sent, as a relation."""
        relation = proto.Relation()
        relation.chunked_cached_local_relation.dataHashes.extend(self._send(rows, errand))
        return relation

    def _forget_all(self) -> None:
        """Views that are gone with their session."""
        with self._lock:
            self._views.clear()
            self._pieces.clear()
            self._worn = 0


class ConnectFederation(Federation):
    """A federation that closes its clouds with itself."""

    def close(self) -> None:
        """Stop all queries and release what the clouds keep for us."""
        super().close()
        for cloud in self.clouds:
            if isinstance(cloud, ConnectCloud):
                cloud.close()


def federation(file: Path | None = None, **options: Any) -> Federation:
    """The federation of a file's clouds; of `clouds.toml` here, or else of the clouds that run on this machine.

    `options` are those of `Federation`. No cloud is asked anything before the first statement.
    """
    return ConnectFederation([ConnectCloud(each) for each in find_clouds(file).values()], **options)


@contextmanager
def connected(settings: Mapping[str, CloudSettings], **options: Any) -> Iterator[dict[str, ConnectCloud]]:
    """Clouds by name, not yet asked anything; closed at the end, come what may."""
    clouds = {name: ConnectCloud(each, **options) for name, each in settings.items()}
    try:
        yield clouds
    finally:
        for cloud in clouds.values():
            cloud.close()


def _ignored(client: Any, command: Any) -> Iterator[Any]:
    """Run a command; yields nothing."""
    client.execute_command(command)
    yield from ()


def _pieces(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    """Rows cut into pieces of about that size."""
    step = max(1, rows.num_rows * size // max(1, rows.nbytes))
    return (rows.slice(start, step) for start in range(0, rows.num_rows, step))


def _union(relations: list[Any]) -> Any:
    """All rows of several relations; halved and halved again, since a plan may not be deep."""
    if len(relations) == 1:
        return relations[0]
    half = len(relations) // 2
    union = proto.Relation()
    union.set_op.left_input.CopyFrom(_union(relations[:half]))
    union.set_op.right_input.CopyFrom(_union(relations[half:]))
    union.set_op.set_op_type = proto.SetOperation.SET_OP_TYPE_UNION
    union.set_op.is_all = True
    return union
