"""Metrics as Prometheus reads them: the text exposition format, version 0.0.4.

A `Metric` is one name with its help, its type and its samples; rendering refuses names that Prometheus would, so
that a mistake shows in a test and not on a dashboard. Knows nothing of what is measured.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})

Labels = Mapping[str, str]
_NO_LABELS: Final[Labels] = {}


class Sample(NamedTuple):
    value: float
    labels: Labels = _NO_LABELS
    suffix: str = ""  # Of a histogram: _bucket, _sum, _count.


class Metric(NamedTuple):
    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Sequence[Sample]


def gauge(name: str, text: str, value: float) -> Metric:
    return Metric(name, "gauge", text, [Sample(value)])


def counter(name: str, text: str, value: float) -> Metric:
    return Metric(name, "counter", text, [Sample(value)])


def histogram_samples(
    labels: Labels, *, below: Iterable[tuple[float, int]], total: float, recorded: int
) -> list[Sample]:
    """One histogram's samples: `below` are upper bounds, each with how many values lie under it."""
    buckets = [Sample(count, {**labels, "le": _number(bound)}, "_bucket") for bound, count in below]
    return [
        *buckets,
        Sample(recorded, {**labels, "le": "+Inf"}, "_bucket"),
        Sample(total, labels, "_sum"),
        Sample(recorded, labels, "_count"),
    ]


def render(metrics: Iterable[Metric]) -> str:
    return "".join(render_each(metrics))


def render_each(metrics: Iterable[Metric]) -> Iterator[str]:
    """One metric's text at a time, for those who have other things to do in between."""
    seen: set[str] = set()
    for metric in metrics:
        assert _NAME.fullmatch(metric.name), metric.name
        assert metric.name not in seen, f"{metric.name} is told twice"
        assert metric.kind != "counter" or metric.name.endswith("_total"), metric.name
        seen.add(metric.name)
        yield "".join(
            (
                f"# HELP {metric.name} {metric.help.translate(_HELP_ESCAPES)}\n# TYPE {metric.name} {metric.kind}\n",
                *(f"{metric.name}{one.suffix}{_labels(one.labels)} {_number(one.value)}\n" for one in metric.samples),
            )
        )


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    for name in labels:
        assert _LABEL.fullmatch(name), name
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _number(value: float) -> str:
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return repr(value)
