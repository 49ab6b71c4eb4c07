"""Windows, joins and deduplication over frames of events: thin functions that take frames and give frames.

    pages = streams.counted(clicks, streams.Tumbling("1 minute"), by=["page"], late="10 seconds")
    landing.to_table(pages, "lake/top_pages", name="top-pages", checkpoint="state/top-pages")

They work on what is streamed and on what is read once; the same program serves both. `late` is how long after the
newest event seen so far one may still come: what is later is left out of windows, and what is older is forgotten by
joins and deduplication. A stream has one such bound: of several functions in a row the first says it. Where results
go: `headrace.pipeline.landing`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from headrace.errors import ConfigError
from headrace.pipeline.stamping import STAMP_HEADER

LATE: Final = "1 minute"
# Where Spark notes it of a column.
_WATERMARK: Final = "spark.watermarkDelayMs"
_STARTS, _ENDS = "window_start", "window_end"


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Windows of one width, side by side: each event is in one."""

    width: str

    def over(self, time: str) -> Column:
        return sf.window(time, self.width)


@dataclass(frozen=True, slots=True)
class Hopping:
    """A window of `width` begins `every` so often: an event is in several where they overlap."""

    width: str
    every: str

    def over(self, time: str) -> Column:
        return sf.window(time, self.width, self.every)


@dataclass(frozen=True, slots=True)
class Session:
    """A window lasts as long as no two neighbouring events of a key are `gap` apart."""

    gap: str

    def over(self, time: str) -> Column:
        return sf.session_window(time, self.gap)


Window = Tumbling | Hopping | Session


def counted(
    events: DataFrame,
    window: Window,
    *,
    by: Sequence[str] = (),
    sums: Sequence[str] = (),
    time: str = "timestamp",
    late: str = LATE,
) -> DataFrame:
    """How many events fall into each window, and the sums of columns over them.

    Columns: window_start, window_end, those of `by`, count, and `sum_NAME` for each of `sums`.
    """
    _need(events, time, *by, *sums)
    totals = [sf.count(sf.lit(1)).alias("count"), *(sf.sum(name).alias(f"sum_{name}") for name in sums)]
    groups = [window.over(time).alias("window"), *map(sf.col, by)]
    if isinstance(window, Session) and not by:
        # A stream has no sessions without a key. One for all, which is not to look like a constant: those are dropped.
        groups.append((sf.unix_micros(sf.col(time)) * 0).alias("_all"))
    grouped = _bounded(events, time, late).groupBy(*groups).agg(*totals)
    edges = (sf.col("window.start").alias(_STARTS), sf.col("window.end").alias(_ENDS))
    return grouped.select(*edges, *by, "count", *(f"sum_{name}" for name in sums))


def with_table(
    events: DataFrame, table: DataFrame, *, on: str | Sequence[str], keep_unmatched: bool = True
) -> DataFrame:
    """Each event with what a table knows of its keys; one that the table does not know has nulls there, or is left out.

    A table that changes slowly is joined anew with every batch: give `landing.to_table` the join as its `transform`,
    and read the table in it.
    """
    keys = [on] if isinstance(on, str) else list(on)
    _need(events, *keys)
    _need(table, *keys)
    return events.join(sf.broadcast(table), keys, "left" if keep_unmatched else "inner")


def followed_by(
    first: DataFrame,
    then: DataFrame,
    *,
    on: str | Sequence[str],
    within: str,
    times: tuple[str, str] = ("timestamp", "timestamp"),
    late: str = LATE,
    keep_unmatched: bool = False,
) -> DataFrame:
    """Pairs of an event and one of another stream with the same keys, at the same moment or up to `within` later.

    The columns of `then` are prefixed with `then_`. With `keep_unmatched`, an event that nothing followed comes out
    with nulls, once nothing can follow it any more.
    """
    keys = [on] if isinstance(on, str) else list(on)
    first_time, then_time = times
    _need(first, first_time, *keys)
    _need(then, then_time, *keys)
    renamed = then.select(*(sf.col(name).alias(f"then_{name}") for name in then.columns))
    left = _bounded(first, first_time, late)
    right = _bounded(renamed, f"then_{then_time}", late)
    begun, ended = sf.col(first_time), sf.col(f"then_{then_time}")
    same = sf.lit(True)
    for key in keys:
        same = same & (left[key] == right[f"then_{key}"])
    in_time = (ended >= begun) & (ended <= begun + sf.expr(f"INTERVAL {within}"))
    how: Literal["leftOuter", "inner"] = "leftOuter" if keep_unmatched else "inner"
    return left.join(right, same & in_time, how)


def without_repeats(
    events: DataFrame, *, by: str | Sequence[str], time: str = "timestamp", late: str = LATE
) -> DataFrame:
    """The first event of each key; those of the same key that come within `late` of it are left out."""
    keys = [by] if isinstance(by, str) else list(by)
    _need(events, time, *keys)
    if events.isStreaming:
        return _bounded(events, time, late).dropDuplicatesWithinWatermark(keys)
    return events.dropDuplicates(keys)


def header(name: str) -> Column:
    """A record's first header of a name as text, of frames read with `includeHeaders`: null where there is none."""
    return sf.get(_headers(name), sf.lit(0))["value"].cast("string")


def _last_header(name: str) -> Column:
    """That of whoever wrote the record last: what it was made of may have brought its own."""
    named = _headers(name)
    return sf.get(named, sf.size(named) - 1)["value"].cast("string")


def _headers(name: str) -> Column:
    return sf.filter(sf.col("headers"), lambda one: one["key"] == sf.lit(name))


def without_resends(
    records: DataFrame, *, stamp: str = STAMP_HEADER, time: str = "timestamp", late: str = LATE
) -> DataFrame:
    """Records whose sender put a stamp of its own into a header, each once; those without it are all kept.

    For topics that are written at least once: a stamp that names the message makes reading it exactly once. By
    default it is that of `landing.to_topic`. Of a stream that was down, repeats come as much later: `late` is to be
    longer than that.
    """
    _need(records, time, "headers", "topic", "partition", "offset")
    place = sf.concat_ws("/", "topic", "partition", "offset")
    stamped = records.withColumn("_stamp", sf.coalesce(_last_header(stamp), place))
    return without_repeats(stamped, by="_stamp", time=time, late=late).drop("_stamp")


def _bounded(events: DataFrame, time: str, late: str) -> DataFrame:
    """Spark lets nobody say it twice."""
    is_bounded = _WATERMARK in events.schema[time].metadata
    return events if is_bounded else events.withWatermark(time, late)


def _need(frame: DataFrame, *columns: str) -> None:
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise ConfigError(f"no column {', '.join(missing)}; there are {', '.join(frame.columns)}")
