"""`headrace lab report`: results as one page, figures and tables."""

from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.extras import require
from headrace.cli.lab_results import OUT
from headrace.cli.output import AsJson, note, print_json


def report(
    results: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN...", help="Runs' paths, names or parts of them, or last; or a directory with several."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            file_okay=False,
            metavar="DIRECTORY",
            help="Where to; `report` beside the first run's results if not said.",
        ),
    ] = None,
    kept: Annotated[
        Path, typer.Option("--runs", file_okay=False, metavar="DIRECTORY", help="Where runs with names are kept.")
    ] = OUT,
    figures: Annotated[bool, typer.Option("--figures/--no-figures", help="Also the charts as PNG files.")] = True,
    as_json: AsJson = False,
) -> None:
    """Make a page of one run or of several side by side: charts, tables, verdicts. It needs no network."""
    require("scipy", extra="lab")
    if figures:
        require("matplotlib", extra="lab")
    from headrace.lab.report.writing import run_paths, write_report
    from headrace.lab.results import read_results
    from headrace.lab.summary import find_run

    runs = [read_results(path) for path in run_paths([find_run(named, kept) for named in results])]
    written = write_report(runs, out or runs[0].path.parent / "report", with_figures=figures)
    for run in runs:
        if run.partial:
            note(f"partial: {run.path}: {run.partial}")
    if as_json:
        sheets, drawn = ([str(path) for path in paths] for paths in (written.sheets, written.figures))
        print_json({"page": str(written.page), "figures": drawn, "sheets": sheets})
    else:
        print(written.page)
        note(f"beside it {len(written.sheets)} tables as CSV" + (f" and {len(written.figures)} figures" * figures))
