"""The course of a search for the highest rate: which rates were tried, and which were held.

A trial that others disturbed is on the line of what was tried and has no dot: it was neither.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from headrace.lab.report.charts import Chart, Level, LineChart, Series, axis_for
from headrace.lab.report.scales import short_number
from headrace.lab.report.subjects import Subject
from headrace.lab.results import cell_key

_FOUND: Final = "max_rate_per_s"


class _Tried(NamedTuple):
    number: int
    rate_per_s: float
    is_held: bool | None  # None where it was disturbed.


def search_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    """One for each repeat that was a search."""
    for subject in subjects:
        for line in subject.repeats:
            trials = [
                _Tried(number, each["rate_per_s"], None if each.get("is_disturbed") else each["is_held"])
                for number, each in enumerate(_trials(subject, line.repeat), 1)
            ]
            if trials:
                name = f"{subject.name}, repeat {line.repeat + 1}"
                found = line.metrics.get(_FOUND)
                rates = tuple(float(trial.rate_per_s) for trial in trials)
                numbers = tuple(float(trial.number) for trial in trials)
                yield LineChart(
                    key=f"search-{subjects.index(subject)}-{line.repeat}",
                    title=f"Search for the highest rate: {name}",
                    unit="messages/s",
                    x_text="trial",
                    series=(
                        Series(name="tried", xs=numbers, ys=rates, is_reference=True),
                        *_dots(trials, "held", is_held=True),
                        *_dots(trials, "not held", is_held=False),
                    ),
                    y_axis=axis_for(rates),
                    levels=() if found is None else (Level(value=found, text=f"{short_number(found)} found"),),
                )


def _trials(subject: Subject, repeat: int) -> list[Mapping[str, Any]]:
    wanted = cell_key(subject.cell)
    return [
        each
        for each in subject.results.others
        if each.get("kind") == "trial" and each.get("repeat") == repeat and cell_key(each.get("cell", {})) == wanted
    ]


def _dots(trials: Sequence[_Tried], name: str, *, is_held: bool) -> Iterator[Series]:
    points = [(float(number), float(rate_per_s)) for number, rate_per_s, held in trials if held is is_held]
    if points:
        xs, ys = zip(*points, strict=True)
        yield Series(name=name, xs=xs, ys=ys, is_dots=True)
