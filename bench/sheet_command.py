"""What the commands that print a sheet have in common: their options, their progress, and where the sheet goes."""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.sheet import Sheet
from bench.signals import end_in_order

_TABLE_COLUMNS: Final = 190


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--quick", action="store_true", help="a smoke run: little work, one repeat, nothing is judged")
    parser.add_argument("--repeats", type=int, help="how often each line is measured (default 3; quick 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append one JSON line per line of the table")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--directory", type=Path, help="where data is kept meanwhile (default: TMPDIR)")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a requirement is short")


def parse(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    options = parser.parse_args(arguments)
    if options.quick and options.strict:
        parser.error("a smoke run judges nothing: --strict needs a full one")
    options.repeats = options.repeats or (1 if options.quick else 3)
    end_in_order()
    return options


def make_console() -> Console:
    return Console(width=max(Console().width, _TABLE_COLUMNS))


@contextmanager
def shown(console: Console) -> Iterator[Progress]:
    """Redrawn seldom: the measured processes need both cores."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=1) as progress:
        yield progress


def finish(sheet: Sheet, options: argparse.Namespace, console: Console) -> int:
    """Print and write it; the exit status."""
    console.print(sheet.rich_table())
    for note in sheet.notes():
        console.print(note, markup=False)
    if options.markdown:
        options.markdown.write_text(sheet.markdown())
    if options.json:
        with options.json.open("a") as lines:
            lines.writelines(json.dumps(line) + "\n" for line in sheet.json_lines())
    return 1 if sheet.failures or (options.strict and sheet.any_short()) else 0
