"""The stamp that a stream puts on each record that it writes to a topic: one header, of plain text.

    headrace-stream: 1;5f0c9c1e-...;12;0;4711

A version, the stream (the id of its query, which its checkpoint keeps), the batch, the task of the batch, and the
sequence of the record among the task's. A sink of Spark's writes at least once: tasks are tried again, batches repeated
after a crash. The repeat reads the same offsets, so it has the same rows; but in another order, wherever they were
shuffled. So sequences follow the order of the rows' *contents*, and records keep the order in which they came. Rows
that are alike in everything are numbered as they come: it does not matter which is which.

This needs all rows of a task at once, a batch's share of memory. Knows Arrow, and nothing of Spark.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.audit.columns import add_header

STAMP_HEADER: Final = "headrace-stream"
VERSION: Final = "1"
SEPARATOR: Final = ";"
_CONTENTS: Final = ("topic", "partition", "key", "value")


class Task(NamedTuple):
    """One task of one batch of one stream."""

    query: str
    batch: int
    partition: int


def with_stamps(batches: Iterator[pa.RecordBatch], task: Task) -> Iterator[pa.RecordBatch]:
    """All rows, in the order in which they come, each with its stamp behind the headers that it has."""
    held = list(batches)
    if not held:
        return
    rows = pa.Table.from_batches(held)
    prefix = SEPARATOR.join((VERSION, task.query, str(task.batch), str(task.partition), ""))
    stamps = pc.binary_join_element_wise(prefix, pa.array(_sequences(rows)).cast(pa.string()), "")
    index = rows.schema.get_field_index("headers")
    for batch, own in _by_batch(held, stamps):
        if index < 0:
            yield batch.append_column("headers", add_header(None, STAMP_HEADER, own))
        else:
            yield batch.set_column(index, "headers", add_header(batch.column(index), STAMP_HEADER, own))


def _by_batch(held: list[pa.RecordBatch], stamps: pa.Array) -> Iterator[tuple[pa.RecordBatch, pa.Array]]:
    first = 0
    for batch in held:
        yield batch, stamps.slice(first, len(batch))
        first += len(batch)


def _sequences(rows: pa.Table) -> npt.NDArray[np.int64]:
    """The place of each row in the order of their contents. Equal ones keep the order in which they came."""
    contents = {name: rows[name] for name in _CONTENTS if name in rows.column_names}
    if "headers" in rows.column_names:
        # Arrow does not order lists.
        contents["headers"] = pa.array([repr(one) for one in rows["headers"].to_pylist()], pa.string())
    table = pa.table(contents)
    order = pc.sort_indices(table, sort_keys=[(name, "ascending") for name in table.column_names]).to_numpy()
    sequences = np.empty(len(order), np.int64)
    sequences[order] = np.arange(len(order))
    return sequences
