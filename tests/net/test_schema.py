"""catchment.proto describes the bytes: written from the code, and read by real protobuf."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from catchment import monitor
from catchment.errors import ParameterError
from catchment.monitor import wire
from catchment.monitor.wire import Message, read_frame, write_frame
from catchment.net import schema
from catchment.net.health import HealthReply, HealthRequest
from tests.net import toy

PROTO = Path(schema.__file__).with_name("catchment.proto")
TOYS: list[type[Message]] = [toy.ToyCount, toy.ToyAck, toy.ToyAll]


def everything() -> list[type[Message]]:
    return [*schema.frame_kinds(), *TOYS]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The messages as protobuf's own compiler understands the text, the toys included."""
    return compile_proto(str(tmp_path_factory.mktemp("proto")))


@cache
def compile_proto(folder: str) -> Any:
    (Path(folder) / "catchment.proto").write_text(schema.proto(everything()), encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", f"--descriptor_set_out={folder}/set",
         f"{folder}/catchment.proto"],
        check=True,
    )  # fmt: skip
    files = descriptor_pb2.FileDescriptorSet.FromString((Path(folder) / "set").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"catchment.v1.{name}"))


def test_the_file_is_what_the_code_says() -> None:
    cure = "run python -m catchment.net.schema src/catchment/net/catchment.proto"
    assert PROTO.read_text(encoding="utf-8") == schema.proto(), cure


def test_importing_the_room_is_enough_to_know_every_kind() -> None:
    code = "from catchment.net import schema; print([kind.__name__ for kind in schema.frame_kinds()])"
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    for module in walk_packages(monitor.__path__, f"{monitor.__name__}."):
        import_module(module.name)
    assert alone == str([kind.__name__ for kind in schema.frame_kinds()]), "import it in monitor/__init__.py"


def test_every_message_and_field_is_explained() -> None:
    for kind in [*schema.frame_kinds(), HealthRequest, HealthReply]:
        assert schema._own_docstring(kind), f"{kind.__name__} has no docstring"
        missing = [name for name, said in schema.field_docs(kind).items() if not said]
        assert not missing, f"{kind.__name__}: say what {', '.join(missing)} is, with doc= or a text below the field"


def test_fields_are_explained_by_what_is_written_about_them() -> None:
    text = schema.proto(TOYS)
    for said in (
        "// What a site has counted so far.",
        "// How many events.\n  uint64 events = 3;",
        "// the sum of the hashes of all keys, so that a lost event cannot hide behind a doubled one.\n  uint64 digest",
        "// The life of the site; larger after each restart.\n  uint64 incarnation = 1;",
        "// A text below a field explains it.\n  string name = 4;",
        "    ToyCount toy_count = 1900;\n    ToyAck toy_ack = 1901;",
        "  ToyAck inner = 17;",
        "  repeated sint64 many_signed = 7;",
    ):
        assert said in text


VALUES: dict[str, Any] = {
    wire.UINT: st.integers(0, 2**64 - 1),
    wire.SINT: st.integers(-(2**63), 2**63 - 1),
    wire.DOUBLE: st.floats(allow_nan=False),
    wire.BYTES: st.binary(max_size=50),
    wire.TEXT: st.text(max_size=20),
}
VALUES |= {
    many: st.lists(VALUES[one], max_size=5).map(tuple)
    for many, one in ((wire.UINTS, wire.UINT), (wire.SINTS, wire.SINT), (wire.DOUBLES, wire.DOUBLE))
}


def messages(kind: type[Message]) -> Any:
    def of(field: Any) -> Any:
        form = field.metadata["form"]
        return VALUES[form] if isinstance(form, str) else st.none() | messages(form)

    fields = {field.name: of(field) for field in dataclasses.fields(kind)}
    # A message may have rules of its own; what it refuses to be is no example.
    return st.builds(lambda **values: _made(kind, values), **fields).filter(lambda made: made is not None)


def _made(kind: type[Message], values: dict[str, Any]) -> Message | None:
    try:
        return kind(**values)
    except ParameterError:
        return None


@pytest.mark.parametrize("kind", everything(), ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_real_protobuf_reads_each_frame_and_writes_the_same_bytes(compiled: Any, kind: Any, data: Any) -> None:
    message = data.draw(messages(kind))
    frame = write_frame(message)
    theirs = compiled("Frame").FromString(frame)
    assert theirs.WhichOneof("content") == schema._snake(kind.__name__)
    assert theirs.SerializeToString(deterministic=True) == frame
    inner = getattr(theirs, theirs.WhichOneof("content"))
    for field in dataclasses.fields(kind):
        value = getattr(message, field.name)
        if isinstance(field.metadata["form"], str):
            there = getattr(inner, field.name)
            assert (tuple(there) if isinstance(value, tuple) else there) == value
        else:
            assert inner.HasField(field.name) is (value is not None)
    assert read_frame(theirs.SerializeToString(deterministic=True)) == message
