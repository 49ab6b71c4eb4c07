"""`python -m bench.run`: the race against Apache Kafka, or a part of it, and one table.

What is measured is in `race.yaml` and `workloads/`, and the lab runs it (`headrace.lab.racing`). Here are the programs
that send and consume (`engines`), the options, and the table.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench import engines
from bench.host import headrace_version, load_facts
from bench.signals import end_in_order
from bench.table import RaceTable
from headrace.errors import HeadraceError
from headrace.lab.race import Race, Turn, read_race
from headrace.lab.racing import run_race
from headrace.lab.results import Results
from tests.oracle.toolbox import ToolMissing

RACE: Final = Path(__file__).with_name("race.yaml")
_QUICK_SCALE: Final = 0.05
_TABLE_COLUMNS: Final = 190


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description="Race Headrace against Apache Kafka.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: little work, one repeat, no long log")
    parser.add_argument("--rows", help="names of workloads or of their rows, comma-separated, * allowed (default: all)")
    parser.add_argument("--repeats", type=int, help="how often each row is measured (default 3; quick 1)")
    parser.add_argument(
        "--attempts", type=int, help="how often at most a disturbed turn is measured per repeat (default 3; quick 1)"
    )
    parser.add_argument("--only", choices=["node", "kafka"], help="measure one target alone")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="keep the lab's results here, and go on from what is there already"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument("--directory", type=Path, help="where brokers keep their data (default: TMPDIR)")
    parser.add_argument("--strict", action="store_true", help="exit with status 1 if a requirement is short")
    options = parser.parse_args(arguments)
    if options.quick and options.strict:
        parser.error("a smoke run judges nothing: --strict needs a full one")
    return options


def asked_for(options: argparse.Namespace) -> Race:
    engines.register_all()
    race = read_race(RACE)
    if options.rows:
        race = race.chosen(options.rows.split(","))
    elif options.quick:
        race = race.chosen(race.smoke)
    if options.only:
        race = race.only(options.only)
    if options.quick:
        race = race.scaled(_QUICK_SCALE).repeated(repeats=1, attempts=1)
    return race.repeated(repeats=options.repeats, attempts=options.attempts)


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)
    console = Console(width=max(Console().width, _TABLE_COLUMNS))
    # So that brokers and loads are ended on the way out of an interrupted run.
    end_in_order()
    if options.directory:
        tempfile.tempdir = str(options.directory)
    began_s = time.monotonic()
    try:
        race = asked_for(options)
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            results = _go(race, options.resume or Path(directory), console)
    except (HeadraceError, ToolMissing) as error:
        console.print(str(error), style="red", markup=False)
        return 2
    table = RaceTable(race=race, results=results, seconds=time.monotonic() - began_s)
    console.print(table.rich_table())
    for note in table.notes():
        console.print(note, markup=False)
    if options.markdown:
        options.markdown.write_text(table.markdown())
    return 1 if table.failures() or (options.strict and table.any_short()) else 0


def _go(race: Race, out: Path, console: Console) -> dict[str, Results]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # Redrawn seldom: the measured processes need both cores.
    with Progress(*columns, console=console, refresh_per_second=1) as progress:
        bar = progress.add_task("", total=sum(1 for _ in race.turns()))
        numbers = itertools.count()

        def watch(turn: Turn) -> None:
            progress.update(bar, description=str(turn), completed=next(numbers))

        def tell_failure(turn: Turn, why: str) -> None:
            progress.console.print(f"failed: {turn}: {why}", style="red", markup=False)

        results = run_race(
            race, out=out, node_version=headrace_version(), host=load_facts(), watch=watch, tell_failure=tell_failure
        )
        progress.update(bar, completed=next(numbers))
    return results


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
