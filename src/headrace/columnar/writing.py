"""`write`: Arrow tables of any origin as records of a topic.

    write("localhost:9092", "clicks", table, key="user", value="payload")

Rows become records of one batch after the other; rows with the same key go to the same partition, the one that the
Java client would choose, in their order. Nothing is reported written that was not acknowledged.
"""

import os
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.columnar.delivering import Delivered, Delivery
from headrace.columnar.encoding import EncodedBatch, encode_batches
from headrace.columnar.partitioning import NO_PARTITION, partition_by_key
from headrace.columnar.reading import Bootstrap
from headrace.columnar.rebatching import rebatch
from headrace.columnar.record_columns import RecordColumns, as_columns
from headrace.errors import ConfigError, HeadraceError
from headrace.protocol.compression import Codec
from headrace.wire.cluster import Cluster
from headrace.wire.errors import UnknownPartition
from headrace.wire.settings import ClientSettings, Config, client_settings

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal[0, 1, "all", -1]
# A column, or None for nothing of the kind. AUTO is the column of the same name, if there is one.
Column = str | None
AUTO: Final = "\0auto"

# Brokers take batches of up to 1,048,588 bytes unless told otherwise.
BATCH_BYTES: Final = 1_000_000
MEMORY_BYTES: Final = 64 << 20
_PIECE_BYTES: Final = 32 << 20
_PIECE_ROWS: Final = 1 << 18
# From the least to the greatest, as Kafka has them.
_LEVELS: Final = {Codec.GZIP: (-1, 9), Codec.LZ4: (0, 17), Codec.ZSTD: (-131_072, 22)}
_ENCODERS_MAX: Final = min(4, os.cpu_count() or 1)
_ACKS: Final = {0: 0, 1: 1, -1: -1, "all": -1, "0": 0, "1": 1, "-1": -1}


class Written(NamedTuple):
    """What was acknowledged: how many records in all, and by partition."""

    records: int
    partitions: dict[int, Delivered]
    unacknowledged: int = 0  # Sent with acks=0, which nobody answers for.


class WriteFailed(HeadraceError):
    """A row could not be written; `written` is what was acknowledged before. The cause is in the text.

    What the caller's own iterator raises while rows are taken from it is not one of these: it stays as it is, and a
    note on it tells how many rows were acknowledged.
    """

    def __init__(self, text: str, written: Written) -> None:
        super().__init__(text)
        self.written = written


def write(
    bootstrap: Bootstrap,
    topic: str,
    data: Any,
    *,
    key: Column = AUTO,
    value: Column = AUTO,
    headers: Column = AUTO,
    timestamp: Column = AUTO,
    partition: str | int | None = None,
    compression: Compression = "none",
    compression_level: int | None = None,
    acks: Acks = "all",
    idempotent: bool = True,
    batch_bytes: int = BATCH_BYTES,
    memory_bytes: int = MEMORY_BYTES,
    config: Config = None,
) -> Written:
    """Write every row of `data`, which is anything with the Arrow C stream interface or an iterable of Arrow batches.

    `key`, `value`, `headers` and `timestamp` name columns: of bytes or text, of lists of key and value, and of moments
    or milliseconds; by default those of these names where there are any. `partition` names a column of numbers, or is
    one; by default the key decides, and rows without a key are spread evenly. A row without a timestamp has the time
    at which it was written.
    """
    with Writer(
        bootstrap,
        topic,
        key=key,
        value=value,
        headers=headers,
        timestamp=timestamp,
        partition=partition,
        compression=compression,
        compression_level=compression_level,
        acks=acks,
        idempotent=idempotent,
        batch_bytes=batch_bytes,
        memory_bytes=memory_bytes,
        config=config,
    ) as writer:
        writer.write_all(batches_of(data))
        return writer.flush()


def batches_of(data: Any) -> Iterator[pa.RecordBatch]:
    """The Arrow batches of whatever has some."""
    if isinstance(data, pa.RecordBatch):
        yield data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from pa.RecordBatchReader.from_stream(data)
    elif hasattr(data, "__arrow_c_array__"):
        yield pa.record_batch(data)
    elif isinstance(data, Iterable) and not isinstance(data, str | bytes):
        for each in data:
            yield from batches_of(each)
    else:
        raise ConfigError(f"{type(data).__name__} has no Arrow data: give a table, a data frame or record batches")


class Writer:
    """Writing that goes on: `write` as often as there is something, `flush` to know that it arrived."""

    def __init__(
        self,
        bootstrap: Bootstrap,
        topic: str,
        *,
        key: Column = AUTO,
        value: Column = AUTO,
        headers: Column = AUTO,
        timestamp: Column = AUTO,
        partition: str | int | None = None,
        compression: Compression = "none",
        compression_level: int | None = None,
        acks: Acks = "all",
        idempotent: bool = True,
        batch_bytes: int = BATCH_BYTES,
        memory_bytes: int = MEMORY_BYTES,
        config: Config = None,
    ) -> None:
        self._columns = {"key": key, "value": value, "headers": headers, "timestamp": timestamp}
        self._partition = partition
        self._codec = _parse_compression(compression)
        self._level = compression_level
        if compression_level is not None:
            _check_level(self._codec, compression_level)
        # Encoding and compressing let other threads run meanwhile. None begins before it has to.
        self._encoders = ThreadPoolExecutor(_ENCODERS_MAX, "headrace-encode")
        self._batch_bytes = batch_bytes
        if acks not in _ACKS:
            raise ConfigError(f"acks={acks!r} is none of 0, 1, all")
        if idempotent and _ACKS[acks] != -1:
            raise ConfigError(f"acks={acks!r} cannot be idempotent: say acks='all', or idempotent=False")
        if batch_bytes < 1024:
            raise ConfigError(f"batch_bytes={batch_bytes}: at least 1024 are needed")
        settings = bootstrap if isinstance(bootstrap, ClientSettings) else client_settings(bootstrap, config)
        self._topic = topic
        self._cluster = Cluster(settings)
        self._is_begun = False  # Some rows were handed over to be sent.
        self._turn = 0  # Where the next rows without a key begin to be spread.
        try:
            self._cluster.partitions(topic)
            self._delivery = Delivery(
                self._cluster, topic, acks=_ACKS[acks], idempotent=idempotent, memory_bytes=memory_bytes
            )
        except BaseException:
            self._cluster.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Encode these rows and send them, waiting only where too much is under way already."""
        self.write_all([batch])

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """The same for many: the rows that follow are encoded while the first are handed over.

        Whole pieces are under way, not parts of them: encoders have one to go on with while the next one's rows are
        given their partitions.
        """
        under_way: deque[list[tuple[int, Future[list[EncodedBatch]]]]] = deque()
        given = iter(batches)
        while (batch := self._next(given)) is not None:
            with self._accounting():
                for piece in rebatch([batch], rows_max=_PIECE_ROWS, bytes_max=_PIECE_BYTES):
                    under_way.append(self._encode(piece))
                    if len(under_way) > _ENCODERS_MAX:
                        self._hand_over(under_way.popleft())
        with self._accounting():
            while under_way:
                self._hand_over(under_way.popleft())

    def _next(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Whatever goes wrong in making the rows is the caller's own, and stays as it is, with a note."""
        try:
            return next(batches, None)
        except Exception as error:
            if self._is_begun:
                error.add_note(f"{_before(self._written())}: writing to topic {self._topic!r} was not finished")
            raise

    def _encode(self, piece: pa.RecordBatch) -> list[tuple[int, Future[list[EncodedBatch]]]]:
        columns = self._record_columns(piece)
        return [
            (
                partition,
                self._encoders.submit(
                    encode_batches,
                    columns,
                    rows,
                    batch_bytes=self._batch_bytes,
                    codec=self._codec,
                    level=self._level,
                    stamped_later=True,
                ),
            )
            for partition, rows in self._partitions(piece, columns)
        ]

    def _hand_over(self, piece: list[tuple[int, Future[list[EncodedBatch]]]]) -> None:
        """All of it at once, so that requests are large and few, and threads have little to tell each other."""
        batches = [(partition, batch) for partition, encoded in piece for batch in encoded.result()]
        self._is_begun = True
        self._delivery.put(batches)

    def flush(self) -> Written:
        """Wait until everything is acknowledged; what was, since the beginning."""
        with self._accounting():
            self._delivery.drain()
        return self._written()

    def close(self) -> None:
        """Send nothing more; what was not flushed may be lost."""
        self._delivery.close()
        self._cluster.close()
        self._encoders.shutdown(wait=False, cancel_futures=True)

    def _written(self) -> Written:
        partitions = self._delivery.delivered()
        return Written(sum(each.records for each in partitions.values()), partitions, self._delivery.unacknowledged)

    @contextmanager
    def _accounting(self) -> Iterator[None]:
        """Whatever fails once rows are under way tells what became of them."""
        try:
            yield
        except (HeadraceError, pa.ArrowException) as error:
            if not self._is_begun and isinstance(error, HeadraceError):
                raise
            written = self._written()
            raise WriteFailed(f"{error}; {_before(written)}", written) from error

    # --- From rows to records ------------------------------------------------------------------------------------

    def _record_columns(self, batch: pa.RecordBatch) -> RecordColumns:
        found = {what: self._column(batch, what, name) for what, name in self._columns.items()}
        if found["value"] is None and self._columns["value"] is not None:
            raise ConfigError(f"the data has no column 'value' but {_names(batch)}: say value=... which one to write")
        return as_columns(
            key=found["key"],
            value=found["value"],
            headers=found["headers"],
            timestamps=_milliseconds(found["timestamp"], batch.num_rows),
        )

    def _column(self, batch: pa.RecordBatch, what: str, name: Column) -> pa.Array | None:
        if name is None or (name == AUTO and what not in batch.schema.names):
            return None
        return _find(batch, what if name == AUTO else name, word=what)

    def _partitions(
        self, batch: pa.RecordBatch, columns: RecordColumns
    ) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
        """The rows of each partition; None for all."""
        count = len(self._cluster.partitions(self._topic))
        if isinstance(self._partition, int):
            self._check_partitions(np.array([self._partition], np.int64), count)
            yield self._partition, None
            return
        chosen: npt.NDArray[Any]
        if isinstance(self._partition, str):
            chosen = _whole_numbers(_find(batch, self._partition, word="partition"))
            self._check_partitions(chosen, count)
        elif count == 1:
            yield 0, None
            return
        elif columns.keys is None:
            for number, run in self._spread(len(columns), count):
                yield number, np.arange(run.start, run.stop)
            return
        else:
            chosen = partition_by_key(columns.keys, count)
            without = np.flatnonzero(chosen == NO_PARTITION)
            for number, run in self._spread(len(without), count):
                chosen[without[run]] = number
        # Numbers of 16 bits are sorted in a time that grows with their count alone.
        order = np.argsort(chosen.astype(np.min_scalar_type(count), copy=False), kind="stable")
        ends = np.cumsum(np.bincount(chosen, minlength=count)).tolist()
        yield from (
            (number, order[begin:end]) for number, (begin, end) in enumerate(pairwise([0, *ends])) if begin < end
        )

    def _spread(self, rows: int, count: int) -> Iterator[tuple[int, slice]]:
        """Neighbours together, for large batches; every partition in turn."""
        runs = min(rows, count)
        for number, (begin, end) in enumerate(pairwise(rows * each // max(1, runs) for each in range(runs + 1))):
            yield (self._turn + number) % count, slice(begin, end)
        self._turn = (self._turn + runs) % count

    def _check_partitions(self, chosen: npt.NDArray[Any], count: int) -> None:
        for wrong in chosen[(chosen < 0) | (chosen >= count)]:
            raise UnknownPartition(self._topic, int(wrong), count=count)


def _before(written: Written) -> str:
    return f"{written.records} rows were acknowledged before"


def _names(batch: pa.RecordBatch) -> str:
    return ", ".join(map(repr, batch.schema.names)) or "none at all"


def _find(batch: pa.RecordBatch, name: str, *, word: str) -> pa.Array:
    if name not in batch.schema.names:
        raise ConfigError(f"{word}={name!r}: the data has no such column but {_names(batch)}")
    return batch.column(name)


def _milliseconds(column: pa.Array | None, rows: int) -> npt.NDArray[np.int64]:
    now_ms = time.time_ns() // 1_000_000
    if column is None:
        return np.full(rows, now_ms, np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False).view(pa.int64())
    elif not pa.types.is_integer(column.type):
        raise ConfigError(f"timestamps are a column of timestamps or of milliseconds, not {column.type}")
    return _numpy(pc.fill_null(column.cast(pa.int64()), now_ms))


def _whole_numbers(column: pa.Array) -> npt.NDArray[np.int64]:
    if not pa.types.is_integer(column.type):
        raise ConfigError(f"partitions are a column of whole numbers, not {column.type}")
    if column.null_count:
        raise ConfigError(f"{column.null_count} rows have no partition")
    return _numpy(column.cast(pa.int64()))


def _numpy(column: pa.Array) -> npt.NDArray[np.int64]:
    array: npt.NDArray[np.int64] = column.to_numpy(zero_copy_only=False)
    return array


def _check_level(codec: Codec, level: int) -> None:
    name = codec.name.lower()
    if codec not in _LEVELS:
        raise ConfigError(f"compression_level={level}: {name} has no levels")
    least, greatest = _LEVELS[codec]
    if not least <= level <= greatest:
        raise ConfigError(f"compression_level={level}: those of {name} go from {least} to {greatest}")


def _parse_compression(name: str | None) -> Codec:
    try:
        return Codec[(name or "none").upper()]
    except KeyError:
        raise ConfigError(f"compression={name!r} is none of {', '.join(each.name.lower() for each in Codec)}") from None
