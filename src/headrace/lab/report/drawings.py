"""Which charts a report has, and what each says. Values are those of the results: nothing is smoothed or left out.

One subject alone has its own values beside each other; several are drawn against each other, at most so many in one
chart that they can be told apart.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from statistics import fmean
from typing import Any, Final, TypeVar

from headrace.lab.intervals import Interval
from headrace.lab.metrics import HISTOGRAMS, metric_text
from headrace.lab.published import Published, published_for
from headrace.lab.rates import MINUTE_S, one_minute_rates
from headrace.lab.report.charts import Axis, Bar, BarChart, Chart, Level, LineChart, Series
from headrace.lab.report.scales import short_number
from headrace.lab.report.subjects import Subject, run_names
from headrace.lab.results import Buckets, SecondLine, merged_buckets

T = TypeVar("T")

TOGETHER_MAX: Final = 6
BARS_MAX: Final = 12
_SWEPT_MIN: Final = 3
# Values that are this many times each other want a logarithmic axis.
_WIDE: Final = 20
_WIDE_LATENCIES: Final = 4
_RATES: Final = "messages/s"
_PLAN_SHARE_MAX: Final = 1.5
TIME: Final = "seconds; before 0 it warms up"
# Of each second's line, what is no reading.
_NO_READINGS: Final = ("second",)
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
# By the end of a name; the longer before what is a part of it.
_READING_UNITS: Final = {
    "_percent": "%",
    "_mb_per_s": "MB/s",
    "_per_s": "a second",
    "_ms": "ms",
    "_bytes": "bytes",
    "_mb": "MB",
}
_CURVE_METRICS: Final = (
    "max_rate_per_s",
    "rate_per_s",
    "mb_per_s",
    "planned_latency_p50_ms",
    "planned_latency_p99_ms",
    "consumed_mb_per_s",
)


def chunks(values: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    left = iter(values)
    while chunk := tuple(islice(left, size)):
        yield chunk


def unit_text(subject: Subject, metric: str) -> str:
    """Without what is explained in brackets."""
    return subject.results.scenario.units.get(metric, "").partition(" (")[0]


# --- Over time -------------------------------------------------------------------------------------------------------


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
        *_one_minute(subject),
    ]
    yield LineChart(
        key="rates", title="Messages a second", unit=_RATES, x_text=TIME,
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
        unit=_RATES,
        x_text=TIME,
        series=(*((longest,) if is_drawn else ()), *series),
    )
    if any(line.consumed for subject in subjects for lines in subject.seconds() for line in lines):
        yield LineChart(
            key=f"consumed-{number}",
            title="Consumed",
            unit=_RATES,
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
    repeats = []
    for lines in subject.seconds():
        began = datetime.fromisoformat(next((line for line in lines if not line.more.get("is_warm_up")), lines[0]).at)
        repeats.append(
            [(round((datetime.fromisoformat(line.at) - began).total_seconds()), value(line)) for line in lines]
        )
    return series_over(name, repeats, is_reference=is_reference)


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


def _one_minute(subject: Subject) -> Iterator[Series]:
    """What published figures show: Kafka's weighted average, of the first repeat that is long enough for it to arrive
    at what it averages."""
    for lines in subject.seconds():
        if len(lines) >= 3 * MINUTE_S:
            rates = one_minute_rates([line.acknowledged for line in lines])
            known = [(float(second), rate) for second, rate in enumerate(rates) if rate is not None]
            yield Series(
                name="one-minute rate, as Kafka shows it",
                xs=tuple(second for second, _ in known),
                ys=tuple(rate for _, rate in known),
            )
            return


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
                title=_capital(_reading_text(some[0])) if len(some) == 1 else "Meanwhile",
                unit=unit,
                x_text=TIME,
                series=tuple(time_series(subject, _reading_text(name), _more(name)) for name in some),
            )


def reading_unit(name: str) -> str:
    return next((unit for ending, unit in _READING_UNITS.items() if name.endswith(ending)), "")


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


# --- Percentiles -----------------------------------------------------------------------------------------------------


def percentile_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    if len(subjects) == 1:
        merged = {text: merged_histogram(subjects[0], name) for name, text in HISTOGRAMS.items()}
        yield from _percentiles("percentiles", "How long messages took", merged)
        return
    for name, text in HISTOGRAMS.items():
        for number, some in enumerate(chunks(subjects, TOGETHER_MAX), 1):
            merged = {subject.name: merged_histogram(subject, name) for subject in some}
            yield from _percentiles(f"percentiles-{name}-{number}", text[0].upper() + text[1:], merged)


def merged_histogram(subject: Subject, name: str) -> Buckets:
    return merged_buckets([line.histograms[name] for line in subject.repeats if name in line.histograms])


def _percentiles(key: str, title: str, histograms: Mapping[str, Buckets]) -> Iterator[Chart]:
    series = [percentile_series(name, buckets) for name, buckets in histograms.items() if any(c for _, c in buckets)]
    if series:
        ys = [y for one in series for y in one.ys if y > 0]
        is_wide = bool(ys) and max(ys) > _WIDE_LATENCIES * min(ys)
        yield LineChart(
            key=key, title=title, unit="ms", x_text="share of messages that took no longer", series=tuple(series),
            x_axis=Axis.PERCENTILE, y_axis=Axis.LOG if is_wide else Axis.LINEAR,
        )  # fmt: skip


def percentile_series(name: str, buckets: Buckets) -> Series:
    """At each bucket the share at or below its upper bound; the last, 100%, has no place on this axis."""
    total = sum(count for _, count in buckets)
    xs, ys, below = [0.0], [], 0.0
    for upper_us, count in buckets:
        if not count:
            continue
        ys.append(upper_us / 1000)
        below += count
        xs.append(below / total)
    # As far as the count can tell: of a thousand messages the 99.9th percentile is the longest.
    return Series(name=name, xs=(*xs[:-1], 1 - 1 / max(total, 2)), ys=(ys[0], *ys))


# --- Metrics against each other --------------------------------------------------------------------------------------


def bar_charts(subjects: Sequence[Subject], levels: Mapping[str, Sequence[Level]] | None = None) -> Iterator[Chart]:
    if len(subjects) < 2:
        return
    several_runs = len({subject.run for subject in subjects}) > 1
    for metric in _BAR_METRICS:
        measured = [(subject, found) for subject in subjects if (found := subject.interval(metric)) is not None]
        for number, some in enumerate(chunks(measured, BARS_MAX), 1):
            yield BarChart(
                key=f"bars-{metric}" + (f"-{number}" if number > 1 else ""),
                title=_capital(metric_text(metric)),
                unit=unit_text(some[0][0], metric),
                bars=tuple(
                    bar(subject, found, metric, group=subject.run if several_runs else 0) for subject, found in some
                ),
                levels=tuple((levels or {}).get(metric, ())),
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
        yield BarChart(
            key=f"published-{metric}",
            title=f"{_capital(metric_text(metric))}, measured here and published",
            unit=unit_text(subjects[0], metric) if subjects else "",
            bars=tuple(bars),
            levels=tuple(Level(value=each.value, text=each.text) for each in here if each.is_level),
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
            title=f"{_capital(metric_text(metric))} by {parameter.replace('_', ' ')}",
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


def axis_for(values: Sequence[float], *, otherwise: Axis = Axis.LINEAR) -> Axis:
    positive = [value for value in values if value > 0]
    is_wide = len(positive) == len(values) and len(positive) > 1 and max(positive) > _WIDE * min(positive)
    return Axis.LOG if is_wide and math.isfinite(max(positive)) else otherwise


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
