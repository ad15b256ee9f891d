"""What is written down about an index, in the cloud that has it.

Every database with indexes has a hidden one beside it, `catchment_index_<database>`, with three kinds of tables:

    index_<name>            empty; its properties say what is indexed. It exists exactly as long as the index does
    rows_<id>_<segment>     a segment: rows of some source files, in the order of the indexed column
    about_<id>_<segment>    one row: which source files, as they were before they were read, and the sketches

Nothing is ever changed in place. A segment counts once its `about` table exists, which is made last; an index is gone
once its `index` table is, which is dropped first. The id is drawn anew for every index, the segment for every segment,
so a name is never used for two things, and whoever has read a segment's row may remember it.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import asdict, dataclass

__all__ = ["HIDDEN", "PROPERTY", "Claim", "Definition", "Manifest", "SourceFile", "hidden_database", "property_of"]

PROPERTY = "catchment.index"
HIDDEN = "catchment_index_"
"""How the name of a database of indexes begins."""
_DEFINING = ("Type", "Provider", "Location", "Storage Properties", "Partition Columns")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the source table, as it was listed."""

    path: str
    size: int
    changed: int
    """When it was written last, in microseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What a table is, read off `SHOW TABLE EXTENDED`: where its files are, and how they are read."""

    text: str

    @classmethod
    def of(cls, information: str) -> Definition:
        """The lines that say how its rows come about; not its age, nor its statistics."""
        head, _, schema = information.partition("\nSchema: ")
        lines = [line for line in head.splitlines() if line.split(":", 1)[0] in _DEFINING]
        return cls("\n".join([*lines, schema.strip()]))

    def __getitem__(self, key: str) -> str:
        found = re.search(rf"^{key}: (.*)$", self.text, re.MULTILINE)
        return found[1].strip() if found else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """An index by its name: what the properties of its table say."""

    name: str
    id: str
    table: str
    column: str
    type: str
    covered: tuple[str, ...]

    def to_text(self) -> str:
        """For a property: letters, digits and a few signs that survive any catalog."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def from_text(cls, text: str) -> Claim:
        stored = json.loads(base64.urlsafe_b64decode(text))
        return cls(**stored | {"covered": tuple(stored["covered"])})


@dataclass(frozen=True, slots=True)
class Manifest:
    """Of one segment: the definition and the files of the source table from which it was made."""

    definition: Definition
    files: tuple[SourceFile, ...]

    def to_text(self) -> str:
        files = [[file.path, file.size, file.changed] for file in self.files]
        return json.dumps({"definition": self.definition.text, "files": files})

    @classmethod
    def from_text(cls, text: str) -> Manifest:
        stored = json.loads(text)
        return cls(Definition(stored["definition"]), tuple(SourceFile(*file) for file in stored["files"]))


def hidden_database(database: str) -> str:
    """Where the indexes of a database are."""
    return f"{HIDDEN}{database}"


def property_of(information: str) -> str | None:
    """The property that describes an index, from what `SHOW TABLE EXTENDED` says of its table."""
    found = re.search(rf"{re.escape(PROPERTY)}=([\w=-]+)", information)
    return found[1] if found else None
