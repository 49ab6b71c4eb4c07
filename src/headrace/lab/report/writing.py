"""A report in files: the page, its charts as figures, and the tables for other programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.lab.errors import LabError
from headrace.lab.report.markdown import markdown
from headrace.lab.report.page import page
from headrace.lab.report.sections import charts_of
from headrace.lab.report.sheets import means_csv, metrics_csv, seconds_csv
from headrace.lab.report.subjects import Subject, subjects_of
from headrace.lab.results import FILE_NAME, Results, find_runs

PAGE_NAME: Final = "report.html"
SHORT_NAME: Final = "report.md"
FIGURES_NAME: Final = "figures"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    page: Path
    figures: Sequence[Path]
    sheets: Sequence[Path]


def run_paths(paths: Sequence[Path]) -> list[Path]:
    """Runs and files as they are; of a directory of runs, all that are in it."""
    found: list[Path] = []
    for path in paths:
        inside = [] if not path.is_dir() or (path / FILE_NAME).exists() else find_runs(path)
        found += inside or [path]
    return found


def write_report(runs: Sequence[Results], into: Path, *, with_figures: bool = True) -> Written:
    subjects = subjects_of(runs)
    sheets = {
        "metrics.csv": metrics_csv(runs),
        "means.csv": means_csv(subjects),
        "seconds.csv": seconds_csv(runs),
    }
    try:
        into.mkdir(parents=True, exist_ok=True)
        figures = [*_write_figures(runs, subjects, into / FIGURES_NAME)] if with_figures else []
        short = markdown(runs, subjects, [f"{FIGURES_NAME}/{path.name}" for path in figures])
        for name, text in {PAGE_NAME: page(runs), SHORT_NAME: short, **sheets}.items():
            (into / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(f"cannot write a report to {into}: {error.strerror}") from error
    return Written(page=into / PAGE_NAME, figures=figures, sheets=[into / name for name in sheets])


def _write_figures(runs: Sequence[Results], subjects: Sequence[Subject], into: Path) -> Iterator[Path]:
    from headrace.lab.report.png import write_png  # Half a second of matplotlib, which the page does without.

    into.mkdir(exist_ok=True)
    for chart in charts_of(runs, subjects):
        path = into / f"{chart.key}.png"
        write_png(chart, path)
        yield path
