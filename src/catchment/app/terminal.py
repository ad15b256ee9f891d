"""What commands share about terminals: consoles, progress, and text that cannot take the terminal over."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from catchment.app.report import Progress

__all__ = ["new_console", "printable", "progress_bar"]


def new_console(*, stderr: bool = False) -> Console:
    """Wide enough for the tables when the output is a file or a pipe."""
    width = None if (sys.stderr if stderr else sys.stdout).isatty() else 220
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """A bar on the terminal; a line each time the work moves on, where there is none."""
    if sys.stderr.isatty():
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
        with Bar(*columns, console=new_console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=1.0)
            yield lambda label, share: bar.update(task, description=label, completed=share)
        return
    last = ""

    def tell(label: str, share: float) -> None:
        nonlocal last
        if label != last:
            last = label
            print(f"{share:4.0%} {label}", file=sys.stderr, flush=True)

    yield tell


def printable(text: str) -> str:
    r"""The text with every character that a terminal would obey instead of show written as an escape.

    >>> printable("caf\u00e9 \x1b[2J\n\u202e")
    'café \\x1b[2J\\n\\u202e'
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
