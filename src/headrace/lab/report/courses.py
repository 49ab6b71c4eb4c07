"""Charts over time: planned, acknowledged, consumed, how late the sender was, and whatever else was read each second.

One subject alone has its own counts beside each other; several are drawn against each other, at most so many in one
chart that they can be told apart. Nothing is smoothed.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from statistics import fmean
from typing import Any, Final

from headrace.lab.report.charts import TOGETHER_MAX, Chart, LineChart, Series, axis_for, chunks
from headrace.lab.report.scales import short_number
from headrace.lab.report.subjects import Subject
from headrace.lab.results import SecondLine

TIME: Final = "seconds; before 0 it warms up"
RATES: Final = "messages/s"
_PLAN_SHARE_MAX: Final = 1.5
# Of each second's line, what is no reading.
_NO_READINGS: Final = ("second",)
# By the end of a name; the longer before what is a part of it.
_READING_UNITS: Final = {
    "_percent": "%",
    "_mb_per_s": "MB/s",
    "_per_s": "a second",
    "_ms": "ms",
    "_bytes": "bytes",
    "_mb": "MB",
}


def time_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    timed = [subject for subject in subjects if subject.seconds()]
    if len(timed) == 1:
        yield from _own_times(timed[0])
    elif timed:
        for number, some in enumerate(chunks(timed, TOGETHER_MAX), 1):
            yield from _times_together(some, number)


def _own_times(subject: Subject) -> Iterator[Chart]:
    counts = {
        "acknowledged": lambda line: line.acknowledged,
        "consumed": lambda line: line.consumed,
        "failed": lambda line: line.failed,
    }
    drawn = [time_series(subject, name, value) for name, value in counts.items()]
    series = [
        time_series(subject, "planned", lambda line: line.planned, is_reference=True),
        *(one for one in drawn if one.name == "acknowledged" or any(one.ys)),
    ]
    yield LineChart(
        key="rates", title="Messages a second", unit=RATES, x_text=TIME,
        series=tuple(one for one in series if not one.is_reference or any(one.ys)),
    )  # fmt: skip
    yield from _lateness([subject], "lateness")
    yield from _readings(subject)


def _times_together(subjects: Sequence[Subject], number: int) -> Iterator[Chart]:
    plans = {time_series(subject, "planned", lambda line: line.planned, is_reference=True) for subject in subjects}
    longest = max(plans, key=lambda plan: len(plan.xs))
    is_one_plan = all(plan.ys[:-1] == longest.ys[: len(plan.ys) - 1] for plan in plans) and any(longest.ys)
    series = [time_series(subject, subject.name, lambda line: line.acknowledged) for subject in subjects]
    reached = max((y for one in series for y in (*one.ys, *one.highs)), default=0.0)
    # A plan far above everything would leave no room to tell the others apart, and is told in words.
    is_drawn = is_one_plan and max(longest.ys) <= _PLAN_SHARE_MAX * reached
    yield LineChart(
        key=f"rates-{number}",
        title="Acknowledged" + (f", of {short_number(max(longest.ys))} planned" if is_one_plan else ""),
        unit=RATES,
        x_text=TIME,
        series=(*((longest,) if is_drawn else ()), *series),
    )
    if any(line.consumed for subject in subjects for lines in subject.seconds() for line in lines):
        yield LineChart(
            key=f"consumed-{number}",
            title="Consumed",
            unit=RATES,
            x_text=TIME,
            series=tuple(time_series(subject, subject.name, lambda line: line.consumed) for subject in subjects),
        )
    yield from _lateness(subjects, f"lateness-{number}")


def _lateness(subjects: Sequence[Subject], key: str) -> Iterator[Chart]:
    series = [
        time_series(subject, subject.name if len(subjects) > 1 else "p99 of each second", lambda line: line.lateness_ms)
        for subject in subjects
    ]
    series = [one for one in series if one.xs]
    if series:
        yield LineChart(
            key=key, title="How late the sender was", unit="ms", x_text=TIME, series=tuple(series),
            y_axis=axis_for([y for one in series for y in (*one.ys, *one.highs)]),
        )  # fmt: skip


def time_series(
    subject: Subject, name: str, value: Callable[[SecondLine], float | None], *, is_reference: bool = False
) -> Series:
    """Of what each second's line says."""
    repeats = [
        [(second, value(line)) for second, line in zip(numbered(lines), lines, strict=True)]
        for lines in subject.seconds()
    ]
    return series_over(name, repeats, is_reference=is_reference)


def numbered(lines: Sequence[SecondLine]) -> list[int]:
    """Which second each is of, from the end of the warm-up on."""
    began = datetime.fromisoformat(next((line for line in lines if not line.more.get("is_warm_up")), lines[0]).at)
    return [round((datetime.fromisoformat(line.at) - began).total_seconds()) for line in lines]


def series_over(
    name: str, repeats: Sequence[Sequence[tuple[int, float | None]]], *, is_reference: bool = False
) -> Series:
    """The mean over repeats at each second, and from where to where they reach."""
    by_second: dict[int, list[float]] = {}
    for repeat in repeats:
        for second, found in repeat:
            if found is not None:
                by_second.setdefault(second, []).append(found)
    xs = sorted(by_second)
    has_band = len(repeats) > 1 and not is_reference
    return Series(
        name=name,
        xs=tuple(map(float, xs)),
        ys=tuple(fmean(by_second[x]) for x in xs),
        lows=tuple(min(by_second[x]) for x in xs) if has_band else (),
        highs=tuple(max(by_second[x]) for x in xs) if has_band else (),
        is_reference=is_reference,
    )


def _readings(subject: Subject) -> Iterator[Chart]:
    """Whatever else was read each second, by unit: the last word of its name."""
    names = dict.fromkeys(name for lines in subject.seconds() for line in lines for name in _numbers(line.more))
    by_unit: dict[str, list[str]] = {}
    for name in names:
        by_unit.setdefault(reading_unit(name), []).append(name)
    for unit, of_unit in by_unit.items():
        for number, some in enumerate(chunks(of_unit, TOGETHER_MAX), 1):
            yield LineChart(
                key=f"readings-{unit or 'numbers'}-{number}",
                title=_reading_title(some[0]) if len(some) == 1 else "Meanwhile",
                unit=unit,
                x_text=TIME,
                series=tuple(time_series(subject, _reading_text(name), _more(name)) for name in some),
            )


def reading_unit(name: str) -> str:
    return next((unit for ending, unit in _READING_UNITS.items() if name.endswith(ending)), "")


def _reading_title(name: str) -> str:
    text = _reading_text(name)
    return text[:1].upper() + text[1:]


def _reading_text(name: str) -> str:
    ending = next((ending for ending in _READING_UNITS if name.endswith(ending)), "")
    return name.removesuffix(ending).replace("_", " ").replace("cpu", "CPU")


def _numbers(more: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name, value in more.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and name not in _NO_READINGS
    ]


def _more(name: str) -> Callable[[SecondLine], float | None]:
    return lambda line: line.more.get(name) if name in _numbers(line.more) else None
