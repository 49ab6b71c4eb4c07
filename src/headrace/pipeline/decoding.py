"""What becomes of the records of a batch: rows of the table, or dead letters that say why not.

Nothing is ever dropped: a record is in exactly one of the two. A table of raw records takes all of them but those whose
timestamp is of no year between 1 and 9999, which no table can hold and any producer may send.
"""

from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from headrace.pipeline.columns import DEAD_LETTERS, RAW
from headrace.pipeline.origins import Origin

_TIME_MS_MIN: Final = -62_135_596_800_000  # 0001-01-01, in UTC like all that follows.
_TIME_MS_MAX: Final = 253_402_300_799_999  # 9999-12-31, to the last millisecond.


class Decoded(NamedTuple):
    rows: pa.Table
    dead: pa.Table


class Decoder(Protocol):
    """Made where a load is planned, used in its tasks."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows, which are those of the files."""

    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded: ...


class RawDecoder:
    schema = RAW

    def decode(self, batch: pa.RecordBatch, origin: Origin) -> Decoded:
        records, dead = set_aside_strange_times(batch, origin)
        return Decoded(source_rows(records, origin).select(RAW.names).cast(RAW), dead)


def set_aside_strange_times(batch: pa.RecordBatch, origin: Origin) -> tuple[pa.Table, pa.Table]:
    """Records whose time can be written down, and the dead letters that the others are."""
    records = pa.Table.from_batches([batch])
    times_ms = records.column("timestamp").cast(pa.int64())
    if not records.num_rows or times_ms.null_count == records.num_rows:
        return records, dead_letters(records.slice(0, 0), [], origin)
    bounds = pc.min_max(times_ms)
    if bounds["min"].as_py() >= _TIME_MS_MIN and bounds["max"].as_py() <= _TIME_MS_MAX:
        return records, dead_letters(records.slice(0, 0), [], origin)
    is_strange = pc.fill_null(pc.or_(pc.less(times_ms, _TIME_MS_MIN), pc.greater(times_ms, _TIME_MS_MAX)), False)
    strange = records.filter(is_strange)
    reasons = [
        f"timestamp {time_ms} ms is not in the years 1 to 9999"
        for time_ms in strange.column("timestamp").cast(pa.int64()).to_pylist()
    ]
    return records.filter(pc.invert(is_strange)), dead_letters(strange, reasons, origin)


def source_rows(records: pa.Table, origin: Origin) -> pa.Table:
    """Records with what a row tells beside them: which life of which topic they are of."""
    count = records.num_rows
    return records.append_column("cluster_id", pa.repeat(origin.cluster_id, count)).append_column(
        "topic_id", pa.repeat(origin.topic_id, count)
    )


def dead_letters(records: pa.Table, reasons: list[str], origin: Origin) -> pa.Table:
    """Records that became no rows, each with its reason."""
    times_ms = records.column("timestamp").cast(pa.int64())
    told = source_rows(records, origin)
    told = told.append_column("timestamp_ms", times_ms).append_column("reason", pa.array(reasons, pa.string()))
    return told.select(DEAD_LETTERS.names).cast(DEAD_LETTERS)
