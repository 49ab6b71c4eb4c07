"""Rates over the last minute: as Kafka shows them, which is what published figures show, and true ones beside them.

Kafka's one-minute rate is smooth whatever happens, lags, and climbs for minutes after the start. Only next to the true
rate of the last 60 s, on the same axes, can it be seen what of it is the system's.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from headrace.lab.rates import MINUTE_S, one_minute_rates, window_rates
from headrace.lab.report.charts import TOGETHER_MAX, Chart, LineChart, Series, chunks
from headrace.lab.report.courses import RATES, TIME, numbered, series_over
from headrace.lab.report.subjects import Subject
from headrace.lab.results import SecondLine

# After so long Kafka's rate is 95% of the way to what it averages. Of less it would show its own climb alone.
LONG_S: Final = 3 * MINUTE_S
_KAFKAS: Final = "one-minute rate, as Kafka shows it"
_TRUE: Final = "true rate of the last 60 s"

Rates = Callable[[Sequence[float]], Iterable[float | None]]


def minute_charts(subjects: Sequence[Subject]) -> Iterator[Chart]:
    """Of those with repeats that are long enough."""
    timed = [subject for subject in subjects if _long_repeats(subject)]
    if len(timed) == 1:
        series = (_series(timed[0], _KAFKAS, one_minute_rates), _series(timed[0], _TRUE, window_rates))
        yield LineChart(key="minute", title="Acknowledged over the last minute", unit=RATES, x_text=TIME, series=series)
    else:
        for number, some in enumerate(chunks(timed, TOGETHER_MAX), 1):
            yield from _together(some, number)


def _together(subjects: Sequence[Subject], number: int) -> Iterator[Chart]:
    kafkas, trues = (
        tuple(_series(subject, subject.name, rates) for subject in subjects)
        for rates in (one_minute_rates, window_rates)
    )
    for key, text, series, beside in (("kafka", _KAFKAS, kafkas, trues), ("true", _TRUE, trues, kafkas)):
        yield LineChart(
            key=f"minute-{key}-{number}",
            title=f"Acknowledged: {text}",
            unit=RATES,
            x_text=TIME,
            series=series,
            beside=beside,
        )


def _series(subject: Subject, name: str, rates: Rates) -> Series:
    """Counted from the first second on, as a broker's meter does, and drawn where all else of a second is."""
    repeats = [
        [*zip(numbered(lines), rates([line.acknowledged for line in lines]), strict=True)]
        for lines in _long_repeats(subject)
    ]
    return series_over(name, repeats)


def _long_repeats(subject: Subject) -> list[list[SecondLine]]:
    return [lines for lines in subject.seconds() if len(lines) >= LONG_S]
