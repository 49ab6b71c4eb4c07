"""`AuditedWriter`: `headrace.columnar.Writer` whose every row is stamped and accounted for, a column at a time.

    with AuditedWriter("localhost:9092", "clicks", producer_id="loader-1", value="body") as writer:
        writer.write(batch)
        writer.flush()

The column of timestamps, or now, is the event time. Rows count as acknowledged when a `flush` has returned; when
writing fails, all rows since the last one are in doubt, since nobody says which of them were written. Rows of one
window stay in their order; those of different windows are written window by window.
"""

import os
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.audit.accountant import PUBLISH_EVERY_S, Accountant
from headrace.audit.audit_topic import PUBLISH_TIMEOUT_S
from headrace.audit.columns import add_stamps
from headrace.audit.messages import AUDIT_TOPIC
from headrace.audit.spans import Span, State
from headrace.audit.windows import WINDOW_MS, Window
from headrace.columnar.writing import WriteFailed, Writer, Written
from headrace.errors import ConfigError
from headrace.wire.settings import Config, librdkafka_config

Int64s = npt.NDArray[np.int64]

# Names that no column of data has.
_HEADERS = "headers of the audit"
_TIMES = "times of the audit"


class AuditedWriter:
    """For one thread. Connects when it is made, and belongs to whoever closes it."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        producer_id: str,
        headers: str | None = "headers",
        timestamp: str | None = "timestamp",
        journal: str | os.PathLike[str] | None = None,
        window_ms: int = WINDOW_MS,
        audit_topic: str = AUDIT_TOPIC,
        publish_every_s: float = PUBLISH_EVERY_S,
        publish_timeout_s: float = PUBLISH_TIMEOUT_S,
        host: str | None = None,
        config: Config = None,
        **columns_and_more: Any,
    ) -> None:
        """`headers` and `timestamp` name columns, used where the data has them. The rest is `columnar.Writer`'s."""
        if columns_and_more.get("acks", "all") in (0, "0"):
            raise ConfigError("acks=0: nothing would ever be acknowledged, and nothing could be counted")
        self._topic = topic
        self._names = {"headers": headers, "timestamp": timestamp}
        self._under_way: list[tuple[Span, int, int]] = []  # Span, first sequence and count since the last flush.
        self._writer = Writer(bootstrap, topic, headers=_HEADERS, timestamp=_TIMES, config=config, **columns_and_more)
        try:
            self._audit = Accountant(
                librdkafka_config(bootstrap, config),
                producer_id=producer_id,
                journal=journal,
                window_ms=window_ms,
                audit_topic=audit_topic,
                publish_every_s=publish_every_s,
                publish_timeout_s=publish_timeout_s,
                host=host,
            )
        except BaseException:
            self._writer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and not self._audit.is_closed:
                self.flush()
        finally:
            self.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Stamp these rows and send them, waiting where too much is under way, and for the audit topic now and then."""
        if self._audit.is_closed:
            raise ConfigError("this writer is closed")
        times_ms = self._times(batch)
        for window, rows in windows_of(times_ms, length_ms=self._audit.window_ms):
            part = batch if rows is None else batch.take(pa.array(rows))
            self._write(part, times_ms if rows is None else times_ms[rows], window)

    def flush(self) -> Written:
        """Wait until everything is acknowledged; what was, since the beginning."""
        try:
            written = self._writer.flush()
        except BaseException:
            self._settle(State.IN_DOUBT)
            raise
        self._settle(State.ACKNOWLEDGED)
        return written

    def publish(self) -> None:
        """Tell the audit topic now what has been acknowledged so far, which happens by itself every few seconds."""
        self._audit.publish()

    def close(self) -> None:
        """Send nothing more, and tell the audit for the last time. What was not flushed is in doubt."""
        try:
            self._writer.close()
        finally:
            self._audit.close()

    def _write(self, part: pa.RecordBatch, times_ms: Int64s, window: Window) -> None:
        span, first = self._audit.sender.take(self._topic, window, len(times_ms))
        self._under_way.append((span, first, len(times_ms)))
        name = self._names["headers"]
        given = part.column(name) if name is not None and name in part.schema.names else None
        stamped = add_stamps(given, prefix=span.prefix, first_sequence=first, times_ms=times_ms)
        part = part.append_column(_HEADERS, stamped).append_column(_TIMES, pa.array(times_ms))
        try:
            self._writer.write(part)
        except WriteFailed:
            self._settle(State.IN_DOUBT)
            raise
        except BaseException:
            self._audit.sender.settle(*self._under_way.pop()[:2], State.IN_DOUBT, count=len(times_ms))
            raise

    def _settle(self, state: State) -> None:
        under_way, self._under_way = self._under_way, []
        for span, first, count in under_way:
            self._audit.sender.settle(span, first, state, count=count)

    def _times(self, batch: pa.RecordBatch) -> Int64s:
        name = self._names["timestamp"]
        now_ms = time.time_ns() // 1_000_000
        if name is None or name not in batch.schema.names:
            return np.full(batch.num_rows, now_ms, np.int64)
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
        elif not pa.types.is_integer(column.type):
            raise ConfigError(f"timestamps are a column of timestamps or of milliseconds, not {column.type}")
        times_ms: Int64s = pc.fill_null(column.cast(pa.int64()), now_ms).to_numpy(zero_copy_only=False)
        if len(times_ms) and times_ms.min() < 0:
            raise ConfigError(f"a timestamp of {times_ms.min()} ms is before 1970")
        return times_ms


def windows_of(times_ms: Int64s, *, length_ms: int) -> Iterator[tuple[Window, Int64s | None]]:
    """The windows that occur, in their order, and the rows of each in theirs; None for all."""
    if not len(times_ms):
        return
    starts = times_ms - times_ms % length_ms
    if starts.min() == starts.max():
        yield Window(int(starts[0]), length_ms), None
        return
    order = np.argsort(starts, kind="stable")
    found, firsts = np.unique(starts[order], return_index=True)
    for start_ms, rows in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
        yield Window(start_ms, length_ms), rows
