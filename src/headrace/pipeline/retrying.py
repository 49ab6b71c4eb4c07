"""Dead letters tried once more, from what the table keeps of them: also of records that the topic has no longer.

A dead letter is its record as it was, with the reason beside it. So it is decoded as what is read from the topic is.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq

from headrace.columnar.schema import COLUMNS, schema_of
from headrace.pipeline.columns import DEAD_LETTERS
from headrace.pipeline.delta import Delta
from headrace.pipeline.origins import Origin
from headrace.pipeline.replacing import files_with, inside, of_life, read_file
from headrace.pipeline.splitting import OffsetRange

_BATCH_ROWS: Final = 20_000


def letter_ranges(dead: Delta, origin: Origin, ends: dict[int, int]) -> list[OffsetRange]:
    """Of each partition, from its first dead letter to its last, before these ends."""
    wholes = [OffsetRange(origin.place(number), 0, end) for number, end in sorted(ends.items()) if end]
    found: dict[int, OffsetRange] = {}
    # File by file: there may be more dead letters than there is memory here.
    for live in files_with(dead, wholes):
        letters = read_file(dead, live, ["cluster_id", "topic", "topic_id", "partition", "offset"])
        letters = letters.filter(pa.array(of_life(letters, origin)))
        numbers, rows = np.unique(np.asarray(letters["partition"]), return_inverse=True)
        limits = np.array([ends.get(number, 0) for number in numbers.tolist()], np.int64)
        letters = letters.filter(pa.array(np.asarray(letters["offset"]) < limits[rows]))
        bounds = letters.group_by("partition").aggregate([("offset", "min"), ("offset", "max")])
        for one in bounds.to_pylist():
            number, first, end = one["partition"], one["offset_min"], one["offset_max"] + 1
            known = found.get(number, OffsetRange(origin.place(number), first, end))
            found[number] = OffsetRange(known.place, min(known.first, first), max(known.end, end))
    return [found[number] for number in sorted(found)]


def stored_records(
    files: pyarrow.fs.FileSystem, path: str, origin: Origin, range_: OffsetRange
) -> Iterator[pa.RecordBatch]:
    """The records of one range in a file of dead letters, as they are read from a topic."""
    with files.open_input_file(path) as source:
        for batch in pq.ParquetFile(source).iter_batches(_BATCH_ROWS, columns=DEAD_LETTERS.names):
            # Whoever compacted them may have written text and bytes in another of Arrow's ways.
            letters = pa.Table.from_batches([batch]).select(DEAD_LETTERS.names).cast(DEAD_LETTERS)
            mine = letters.filter(pa.array(inside(letters, origin, range_)))
            times = pc.cast(mine["timestamp_ms"], COLUMNS["timestamp"])
            records = mine.append_column("timestamp", times).select(list(COLUMNS)).cast(schema_of(list(COLUMNS)))
            yield from records.combine_chunks().to_batches()
