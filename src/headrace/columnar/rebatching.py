"""Arrow batches of the size somebody asked for, out of batches of whatever size they came in.

Large ones are sliced, which copies nothing; small ones are joined. Rows keep their order.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa


def rebatch(
    batches: Iterable[pa.RecordBatch], *, rows_max: int | None, bytes_max: int | None
) -> Iterator[pa.RecordBatch]:
    """Batches of so many rows or bytes, whichever is reached first; less in the last. Without either, as they come.

    Bytes are those of the average row of the batch that a row came in.
    """
    if rows_max is None and bytes_max is None:
        yield from batches
        return
    pending: list[pa.RecordBatch] = []
    pending_rows = pending_bytes = 0
    for batch in batches:
        row_bytes = max(1, -(-batch.nbytes // max(1, batch.num_rows)))
        while batch.num_rows:
            room = batch.num_rows if rows_max is None else rows_max - pending_rows
            if bytes_max is not None:
                room = min(room, max((bytes_max - pending_bytes) // row_bytes, 0 if pending else 1))
            if room:
                pending.append(batch.slice(0, room))
                pending_rows += pending[-1].num_rows
                pending_bytes += pending[-1].num_rows * row_bytes
                batch = batch.slice(room)
            if batch.num_rows or pending_rows == rows_max:  # It is full.
                yield _join(pending)
                pending, pending_rows, pending_bytes = [], 0, 0
    if pending:
        yield _join(pending)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
