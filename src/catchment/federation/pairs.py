"""Keys and values of a map-reduce on their way between a cloud's tasks and to the one who asked.

Pairs travel as Python's pickles, which keep what the functions gave: a tuple stays a tuple, 2**80 stays exact. Reading
a pickle can run code, so these are read by a reader that knows plain types only: numbers, texts, bytes, dates,
decimals, tuples, lists, sets, dictionaries, and NumPy's arrays of numbers. Columns of Arrow travel as an Arrow stream.

This file is sent to clouds together with the functions, which need not have this package: it imports nothing of it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

__all__ = ["Pair", "read_columns", "read_pairs", "write_columns", "write_pairs"]

Pair = tuple[Any, Any]

_PLAIN = {
    "builtins": {"bytearray", "complex", "frozenset", "set"},
    "collections": {"Counter", "OrderedDict"},
    "datetime": {"date", "datetime", "time", "timedelta", "timezone"},
    "decimal": {"Decimal"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "numpy.core.numeric": {"_frombuffer"},
}
_MOST = 1 << 31
"""Bytes that one message of pairs may unfold to; tasks make them far smaller."""


class _PlainReader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name not in _PLAIN.get(module, ()):
            raise pickle.UnpicklingError(f"{module}.{name} is no plain type")
        return super().find_class(module, name)


def write_pairs(pairs: list[Pair]) -> bytes:
    """Pairs as bytes, compressed.

    >>> list(read_pairs(write_pairs([("a", (1, 2.5)), (("b", 7), None)])))
    [('a', (1, 2.5)), (('b', 7), None)]
    """
    content = pickle.dumps(([key for key, _ in pairs], [value for _, value in pairs]), protocol=5)
    _PlainReader(io.BytesIO(content)).load()  # what the other side will not read is an error here, where its cause is
    return len(content).to_bytes(8, "little") + bytes(pa.compress(content, codec="zstd"))


def read_pairs(blob: bytes) -> Iterator[Pair]:
    """The pairs of such bytes; `pickle.UnpicklingError` where anything but plain types is in them."""
    size = int.from_bytes(blob[:8], "little")
    if size > _MOST:
        raise pickle.UnpicklingError(f"a message of {size:,} bytes")
    content = pa.decompress(blob[8:], decompressed_size=size, codec="zstd", asbytes=True)
    keys, values = _PlainReader(io.BytesIO(content)).load()
    return zip(keys, values, strict=True)


def write_columns(columns: pa.Table) -> bytes:
    """The columns `key` and `value` as an Arrow stream, compressed."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, columns.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(columns)
    return bytes(sink.getvalue())


def read_columns(blobs: Iterable[bytes]) -> pa.Table | None:
    """The columns of several messages, one after the other; None if there is no message."""
    tables = [pa.ipc.open_stream(blob).read_all() for blob in blobs]
    return pa.concat_tables(tables, promote_options="permissive") if tables else None
