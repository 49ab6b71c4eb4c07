"""`headrace lab run`: a workload on a target. `headrace lab targets`: what it can be run on.

Nothing of the lab is imported before a run begins, so that `--help` waits for no numpy.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

from headrace.cli.extras import require
from headrace.cli.lab_places import placed
from headrace.cli.lab_results import OUT, Out, print_results
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table, progress
from headrace.cli.stopping import StopRequest

if TYPE_CHECKING:
    from headrace.lab.running import Moment
    from headrace.lab.workload import Workload

PACKAGES: Final = ("numpy", "pyarrow", "scipy", "yaml")


def run(
    workload: Annotated[Path, typer.Argument(metavar="WORKLOAD", help="A YAML file: docs/lab.md has the keys.")],
    target: Annotated[
        str,
        typer.Option(
            "--target", "-t", help="node, kafka, kafka-3, null, HOST:PORT or a YAML file (headrace lab targets)."
        ),
    ] = "node",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", metavar="KEY=VALUE", help="Of the workload, instead of what the file says."),
    ] = None,
    faults: Annotated[
        list[str] | None,
        typer.Option(
            "--fault",
            metavar="KIND[:BROKER]@AT[+FOR]",
            help="kill, pause or cut a broker while it is measured: kill:broker1@5s, pause:node@5s+2s.",
        ),
    ] = None,
    max_rate: Annotated[
        bool,
        typer.Option("--max-rate", help="Search for the highest rate that is held, from the workload's own on."),
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(
            metavar="MASTER", help="Senders and consumers are tasks of Spark there: local[2], spark://HOST:PORT."
        ),
    ] = None,
    spark_options: Annotated[
        list[str] | None,
        typer.Option("--spark-option", metavar="KEY=VALUE", help="For --on: a setting of Spark's. May be repeated."),
    ] = None,
    out: Out = OUT,
    as_json: AsJson = False,
) -> None:
    """Run a workload on a target: every cell of its sweep, as often as it says, and all of it in one file."""
    for package in PACKAGES:
        require(package, extra="lab")
    from headrace.lab.documents import parse_assignment
    from headrace.lab.running import run_workload
    from headrace.lab.summary import results_json
    from headrace.lab.targets.spec import find_target
    from headrace.lab.workload import read_workload

    changes = dict(map(parse_assignment, assignments or []))
    if faults:
        changes["faults"] = list(faults)
    asked = read_workload(workload, changes)
    spec = find_target(target)
    place = placed(on=on, spark_options=spark_options or [])
    with StopRequest() as stop:
        with place.crew() as crew, watching(asked) as watch:
            results = run_workload(
                asked,
                spec,
                out=out,
                watch=watch,
                is_stopped=lambda: bool(stop),
                is_search=max_rate,
                tell_trial=lambda trial: note(str(trial)),
                crew=crew,
            )
        if as_json:
            print_json(results_json(results))
        else:
            print_results(results)
            note(f"results: {results.path}")
        stop.check()
    if results.partial is not None:
        raise CommandError(f"partial: {results.partial}")


@contextmanager
def watching(workload: "Workload") -> Iterator[Callable[["Moment"], None]]:
    from headrace.lab.results import cell_text
    from headrace.lab.sent import quantiles_ms

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[now]}"), TimeRemainingColumn())
    with progress(*columns) as bars:
        whole_s = sum(cell.load.send_s for cell, _ in workload.order())
        bar = bars.add_task(workload.name, total=whole_s, now="starting")
        done_s, number, last_s = 0.0, 0, 0.0

        def watch(moment: "Moment") -> None:
            nonlocal done_s, number, last_s
            if moment.number != number:
                done_s, number = done_s + last_s, moment.number
            last_s = moment.cell.load.send_s
            late = quantiles_ms(moment.row.lateness)
            lateness = "" if late is None else f", late by {late['p50']:g} ms, p99 {late['p99']:g} ms"
            bars.update(
                bar,
                description=f"{workload.name} {moment.number + 1}/{moment.repeats}, {cell_text(moment.cell.values)}",
                completed=done_s + min(moment.second + 1, last_s),
                now=f"{moment.row.sent:,}/s{lateness}",
            )

        yield watch


def targets(as_json: AsJson = False) -> None:
    """What workloads can be run on: what is here, and how to get the rest."""
    for package in PACKAGES:
        require(package, extra="lab")
    from dataclasses import asdict

    from headrace.lab.targets.available import available

    found = available()
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        rows = [(each.name, each.is_here, each.what, each.how) for each in found]
        print_table(("target", "here", "what", "how"), rows)
