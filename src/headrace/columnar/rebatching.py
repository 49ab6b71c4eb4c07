"""Arrow batches of the size somebody asked for, out of batches of whatever size they came in.

Large ones are sliced, which copies nothing; small ones are joined. Rows keep their order.
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa


def rebatch(
    batches: Iterable[pa.RecordBatch], *, rows_max: int | None, bytes_max: int | None
) -> Iterator[pa.RecordBatch]:
    """Batches of at most so many rows and, as far as whole rows allow, bytes. Without either, as they come."""
    if rows_max is None and bytes_max is None:
        yield from batches
        return
    pending: list[pa.RecordBatch] = []
    pending_rows = pending_bytes = 0
    for batch in batches:
        for piece in _pieces(batch, rows_max, bytes_max):
            is_full = rows_max is not None and pending_rows + piece.num_rows > rows_max
            is_full |= bytes_max is not None and pending_bytes + _size(piece) > bytes_max
            if is_full and pending:
                if rows_max is not None and pending_rows < rows_max and bytes_max is None:
                    # Rows alone are asked for: every batch but the last has exactly so many.
                    head = rows_max - pending_rows
                    pending.append(piece.slice(0, head))
                    piece = piece.slice(head)
                yield _join(pending)
                pending, pending_rows, pending_bytes = [], 0, 0
            pending.append(piece)
            pending_rows += piece.num_rows
            pending_bytes += _size(piece)
    if pending:
        yield _join(pending)


def _pieces(batch: pa.RecordBatch, rows_max: int | None, bytes_max: int | None) -> Iterator[pa.RecordBatch]:
    """Slices none of which is too large by itself."""
    rows = batch.num_rows if rows_max is None else rows_max
    if bytes_max is not None and batch.num_rows:
        rows = min(rows, max(1, bytes_max * batch.num_rows // max(1, _size(batch))))
    for start in range(0, batch.num_rows, max(1, rows)):
        yield batch.slice(start, rows)


def _size(batch: pa.RecordBatch) -> int:
    """Of what a slice shows, not of the buffers behind it."""
    return int(batch.get_total_buffer_size() if batch.num_columns == 0 else batch.nbytes)


def _join(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
