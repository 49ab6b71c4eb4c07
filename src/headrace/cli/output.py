"""What commands show: tables for people, JSON for programs, notes beside the output.

Results go to standard output and nothing else does; notes, progress and errors go to standard error. A table
that is piped is neither coloured nor cut to a width.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, ProgressColumn
from rich.table import Table
from rich.text import Text

from headrace.errors import HeadraceError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_PIPE_COLUMNS: Final = 100_000  # Wider than any row.
_SIZE_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


class CommandError(HeadraceError):
    """A command that could not do what it was asked. The text is for the person who asked."""


def console() -> Console:
    """Made for each use, so that a test or a pipe that replaced standard output is respected."""
    terminal = sys.stdout.isatty()
    return Console(width=None if terminal else _PIPE_COLUMNS, highlight=False, soft_wrap=not terminal)


def note(text: str) -> None:
    """Something worth knowing beside the result."""
    print(text, file=sys.stderr)


def progress(*columns: ProgressColumn, on: Console | None = None) -> Progress:
    """Bars for a person watching, on standard error or on the console that text goes to meanwhile."""
    shown_on = on or Console(stderr=True)
    return Progress(*columns, console=shown_on, transient=True, disable=not shown_on.is_terminal)


def print_json(value: object) -> None:
    print(json.dumps(value, indent=2 if sys.stdout.isatty() else None, ensure_ascii=False))


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    right: Iterable[str] = (),
) -> None:
    """`right` names the columns of numbers. A cell may be a rich Text; anything else is shown as it is."""
    out = console()
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD if out.is_terminal else None,
        pad_edge=False,
        header_style="bold",
    )
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else escape(cell_text(cell)) for cell in row))
    out.print(table)


def cell_text(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ",".join(map(str, value))
        case _:
            return str(value)


def size_text(size_bytes: int | None) -> str:
    """Three figures or so and a unit: 1023 B, 4.0 KiB, 1.2 GiB."""
    if size_bytes is None:
        return "-"
    size: float = size_bytes
    for unit in _SIZE_UNITS:
        if size < 1024 or unit == _SIZE_UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
