"""catchment.proto, written from the messages: `python -m catchment.net.schema src/catchment/net/catchment.proto`.

The dataclasses of `monitor/` are the one description of what goes over the wire (`monitor/wire.py`). This file turns
them into protobuf's language, so that others can read and write the same bytes with the tools they have. Nothing here
uses the result: gRPC carries frames as the bytes that they are.

A message is explained by its docstring. A field is explained by `doc=` in its `wire(…)`, by a text below it in the
class, or by a line `` `name`: … `` in the docstring; the fields of every header have their words here.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import textwrap
from pathlib import Path

from catchment import monitor
from catchment.monitor.wire import Message
from catchment.net.health import HealthReply, HealthRequest

__all__ = ["field_docs", "frame_kinds", "proto"]

_HEADER = {
    "query": "Which question this is about.",
    "epoch": "The life of the coordinator; what is of an older one is ignored.",
    "round": "The round of the protocol in that life.",
    "incarnation": "The life of the site; larger after each restart.",
    "seq": "Counts what the sender has to say in this life; only the newest of each sender matters.",
}


_ROOM = f"{monitor.__name__}."
"""Importing the room has added the kinds of all its modules."""


def frame_kinds(package: str = _ROOM) -> list[type[Message]]:
    """The messages that can be a frame, by their number, of the modules whose names begin so."""
    known = Message._kinds
    return [known[number] for number in sorted(known) if known[number].__module__.startswith(package)]


def proto(kinds: list[type[Message]] | None = None) -> str:
    """The text of catchment.proto for these kinds of frames; for all, unless some are named."""
    kinds = frame_kinds() if kinds is None else kinds
    described = _with_parts([HealthRequest, HealthReply, *kinds])
    blocks = [_HEAD, _frame(kinds), *map(_message, described)]
    return "\n\n".join(blocks) + "\n"


def field_docs(kind: type[Message]) -> dict[str, str]:
    """What is said about each field of a message; "" where nothing is."""
    below = _texts_below_fields(kind)
    said = _own_docstring(kind)
    docs = {}
    for field in dataclasses.fields(kind):
        line = re.search(
            rf"^\s*(?:-\s+)?`{field.name}`:\s*(.+(?:\n(?!\s*(?:-\s+)?`\w+`:)\s+\S.*)*)", said, re.MULTILINE
        )
        found = field.metadata.get("doc") or below.get(field.name) or (line[1] if line else "")
        docs[field.name] = " ".join((found or _HEADER.get(field.name, "")).split())
    return docs


_HEAD = """\
// Written by `python -m catchment.net.schema`; a test holds it equal to the messages in the code.
//
// Bytes are canonical: fields in the order of their numbers, numbers in the fewest bytes, defaults left out. What is
// not written so is refused, and so are unknown fields.
syntax = "proto3";

package catchment.v1;

service Catchment {
  // A site opens this stream and keeps it open; frames go both ways. A frame may be lost, doubled, late or out of
  // order: what it says is cumulative and is said again until it is acknowledged. Who the site is comes from its
  // certificate, never from a field. A newer stream of a site takes the place of an older one.
  rpc Connect(stream Frame) returns (stream Frame);

  // Whether the coordinator is up; the same as grpc.health.v1.Health/Check, which is served too.
  rpc Health(HealthRequest) returns (HealthReply);
}"""


def _frame(kinds: list[type[Message]]) -> str:
    lines = ["// What goes over the stream: one message of one kind.", "message Frame {"]
    if kinds:
        lines += [
            "  oneof content {",
            *(f"    {kind.__name__} {_snake(kind.__name__)} = {kind.kind};" for kind in kinds),
        ]
        lines.append("  }")
    return "\n".join([*lines, "}"])


def _message(kind: type[Message]) -> str:
    lines = [*_comment(inspect.cleandoc(_own_docstring(kind)), ""), f"message {kind.__name__} {{"]
    docs = field_docs(kind)
    for place, field in enumerate(sorted(dataclasses.fields(kind), key=lambda field: field.metadata["number"])):
        form = field.metadata["form"]
        lines += [""] if place and docs[field.name] else []
        lines += _comment(docs[field.name], "  ")
        lines.append(f"  {form if isinstance(form, str) else form.__name__} {field.name} = {field.metadata['number']};")
    return "\n".join([*lines, "}"])


def _comment(text: str, indent: str) -> list[str]:
    lines: list[str] = []
    for line in text.strip().splitlines():
        inner = indent + line[: len(line) - len(line.lstrip())]
        lines += textwrap.wrap(line.strip(), 120, initial_indent=f"{indent}// {inner[len(indent):]}",
                               subsequent_indent=f"{indent}// {inner[len(indent):]}") or [f"{indent}//"]  # fmt: skip
    return lines


def _with_parts(kinds: list[type[Message]]) -> list[type[Message]]:
    """These messages and those inside them, each once."""
    found: dict[type[Message], None] = {}
    waiting = list(reversed(kinds))
    while waiting:
        kind = waiting.pop()
        if kind in found:
            continue
        found[kind] = None
        inner = [field.metadata["form"] for field in dataclasses.fields(kind)]
        waiting += [form for form in reversed(inner) if not isinstance(form, str)]
    return list(found)


def _own_docstring(kind: type[Message]) -> str:
    """The docstring that was written; not the signature that `dataclass` puts where there is none."""
    said = kind.__doc__ or ""
    return "" if said.startswith(f"{kind.__name__}(") else inspect.cleandoc(said)


def _texts_below_fields(kind: type[Message]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Message) or base is Message:
            continue
        (node,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(node, ast.ClassDef)
        for field, text in zip(node.body, node.body[1:], strict=False):
            named = isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if named and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                texts[field.target.id] = str(text.value.value)  # type: ignore[attr-defined]
    return texts


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(proto(), encoding="utf-8")
