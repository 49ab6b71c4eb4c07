"""Charts of how long messages took, up to the rarest: of all repeats of a subject together."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.lab.metrics import HISTOGRAMS
from headrace.lab.report.charts import TOGETHER_MAX, Axis, Chart, LineChart, Series, axis_for, chunks
from headrace.lab.report.subjects import Subject
from headrace.lab.results import Buckets, merged_buckets

# Latencies that differ by less than this are better compared by length.
_WIDE: Final = 4


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
        y_axis = axis_for([y for one in series for y in one.ys if y > 0], wide=_WIDE)
        yield LineChart(
            key=key, title=title, unit="ms", x_text="share of messages that took no longer", series=tuple(series),
            x_axis=Axis.PERCENTILE, y_axis=y_axis,
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
