"""Charts of metrics: cells and runs side by side, along a sweep over numbers, and beside what a paper states."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.lab.intervals import Interval
from headrace.lab.metrics import metric_title
from headrace.lab.published import Published, published_for
from headrace.lab.report.charts import (
    TOGETHER_MAX,
    Axis,
    Bar,
    BarChart,
    Chart,
    Level,
    LineChart,
    Series,
    axis_for,
    chunks,
)
from headrace.lab.report.subjects import Subject, run_names, unit_text

BARS_MAX: Final = 12
_SWEPT_MIN: Final = 3
_BAR_METRICS: Final = (
    "max_rate_per_s",
    "rate_per_s",
    "mb_per_s",
    "planned_latency_p50_ms",
    "planned_latency_p99_ms",
    "send_latency_p99_ms",
    "end_to_end_p99_ms",
    "consumed_per_s",
    "consumed_mb_per_s",
    "broker_cpu_percent",
    "client_cpu_percent",
)
_CURVE_METRICS: Final = (
    "max_rate_per_s",
    "rate_per_s",
    "mb_per_s",
    "planned_latency_p50_ms",
    "planned_latency_p99_ms",
    "consumed_mb_per_s",
)


def bar_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    if len(subjects) < 2:
        return
    several_runs = len({subject.run for subject in subjects}) > 1
    for metric in _BAR_METRICS:
        measured = [(subject, found) for subject in subjects if (found := subject.interval(metric)) is not None]
        for number, some in enumerate(chunks(measured, BARS_MAX), 1):
            yield BarChart(
                key=f"bars-{metric}" + (f"-{number}" if number > 1 else ""),
                title=metric_title(metric),
                unit=unit_text(some[0][0], metric),
                bars=tuple(
                    bar(subject, found, metric, group=subject.run if several_runs else 0) for subject, found in some
                ),
            )


def bar(subject: Subject, found: Interval, metric: str, *, group: int) -> Bar:
    return Bar(
        name=subject.name,
        value=found.value,
        low=found.low if found.is_known else None,
        high=found.high if found.is_known else None,
        group=group,
        note="not measurable here" if subject.doubt(metric) else None,
    )


def published_charts(preset: str, subjects: Sequence[Subject]) -> Iterator[Chart]:
    """Ours with what the paper states on the same axis: bars for configurations, lines for what prose tells."""
    stated = published_for(preset)
    for metric in dict.fromkeys(each.metric for each in stated):
        here = [each for each in stated if each.metric == metric]
        bars: list[Bar] = []
        drawn: set[int] = set()
        for subject in subjects:
            if (found := subject.interval(metric)) is not None:
                bars.append(bar(subject, found, metric, group=0))
            for number, each in enumerate(here):
                if number not in drawn and each.cell is not None and _is_of(each.cell, subject.cell):
                    drawn.add(number)
                    bars.append(_published_bar(each))
        bars += [_published_bar(each) for n, each in enumerate(here) if n not in drawn and not each.is_level]
        if not bars:
            continue  # Levels alone, of what was not measured here: the list of sources has them.
        yield BarChart(
            key=f"published-{metric}",
            title=f"{metric_title(metric)}, measured here and published",
            unit=unit_text(subjects[0], metric) if subjects else "",
            bars=tuple(bars),
            levels=tuple(Level(value=each.value, text=each.text) for each in here if each.is_level),
            remarks=tuple(f"Our remark: {text}." for text in dict.fromkeys(each.remark for each in here) if text),
        )


def _is_of(wanted: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    return all(str(cell.get(name)) == str(value) for name, value in wanted.items())


def _published_bar(each: Published) -> Bar:
    return Bar(name=f"published: {each.text}", value=each.value, group=1)


def curve_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    """Of a sweep over numbers: the metric by the number, a line for each combination of what else was swept."""
    parameter = swept_number(subjects)
    if parameter is None:
        return
    for metric in _CURVE_METRICS:
        lines: dict[tuple[int, str], list[tuple[float, Interval]]] = {}
        for subject in subjects:
            if (found := subject.interval(metric)) is not None and parameter in subject.cell:
                others = {name: value for name, value in subject.cell.items() if name != parameter}
                text = ", ".join(f"{name}={value}" for name, value in others.items())
                lines.setdefault((subject.run, text), []).append((float(subject.cell[parameter]), found))
        if not lines or max(len(points) for points in lines.values()) < _SWEPT_MIN:
            continue
        series = tuple(_curve(_curve_name(subjects, run, text), points) for (run, text), points in lines.items())
        xs = [x for one in series for x in one.xs]
        yield LineChart(
            key=f"curve-{metric}",
            title=f"{metric_title(metric)} by {parameter.replace('_', ' ')}",
            unit=unit_text(subjects[0], metric),
            x_text=parameter.replace("_", " "),
            series=series[:TOGETHER_MAX],
            x_axis=axis_for(xs, otherwise=Axis.TIME),
            y_axis=axis_for([y for one in series for y in one.ys]),
        )


def swept_number(subjects: Sequence[Subject]) -> str | None:
    """The parameter of the most different numbers, if there are enough of them for a curve."""
    values: dict[str, set[Any]] = {}
    for subject in subjects:
        for name, value in subject.cell.items():
            values.setdefault(name, set()).add(value)
    numeric = {
        name: len(found)
        for name, found in values.items()
        if len(found) >= _SWEPT_MIN and all(isinstance(value, int | float) for value in found)
    }
    return max(numeric, key=lambda name: numeric[name], default=None)


def _curve(name: str, points: list[tuple[float, Interval]]) -> Series:
    ordered = sorted(points, key=lambda point: point[0])
    is_known = all(found.is_known for _, found in ordered)
    return Series(
        name=name,
        xs=tuple(x for x, _ in ordered),
        ys=tuple(found.value for _, found in ordered),
        lows=tuple(found.low for _, found in ordered) if is_known else (),
        highs=tuple(found.high for _, found in ordered) if is_known else (),
        has_points=True,
    )


def _curve_name(subjects: Sequence[Subject], run: int, text: str) -> str:
    runs = {subject.run: subject.results for subject in subjects}
    if len(runs) == 1:
        return text or "measured"
    name = dict(zip(runs, run_names([*runs.values()]), strict=True))[run]
    return f"{name}, {text}" if text else name
