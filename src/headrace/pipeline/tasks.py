"""What one task of a load does: read a range of offsets, write files, and tell which.

A task changes nothing that anybody sees: its files are unknown to the table until the driver commits them. So it may
fail, be tried again, or run twice at once. A failure that trying again would not mend comes back as a value, to be told
in one sentence; anything else is Spark's to try again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from headrace.columnar import OffsetsGone, Scan
from headrace.errors import HeadraceError
from headrace.pipeline.columns import DEAD_LETTERS
from headrace.pipeline.decoding import Decoder
from headrace.pipeline.files import RowFiles, WrittenFile, all_together, by_hour
from headrace.pipeline.location import Location
from headrace.pipeline.origins import Origin
from headrace.pipeline.retrying import stored_records
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.errors import Unavailable
from headrace.wire.settings import ClientSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What a task has to know; it travels to where the task runs."""

    range: OffsetRange
    origin: Origin
    settings: ClientSettings = field(repr=False)
    decoder: Decoder
    lake: Location
    dead_letters: Location
    skips_missing: bool = False
    letters: Sequence[str] | None = None  # Files of dead letters to read, instead of the topic.


class TaskDone(NamedTuple):
    range: OffsetRange
    rows: int
    files: Sequence[WrittenFile]
    dead_files: Sequence[WrittenFile]
    dead_rows: int


class TaskFailed(NamedTuple):
    range: OffsetRange
    reason: str
    may_pass: bool  # Planned again, it may be found: the cluster was away, or offsets are gone that may be.


TaskOutcome = TaskDone | TaskFailed
# Runs tasks somewhere, and tells now and then how many are done.
RunTasks = Callable[[Sequence[Task], Callable[[int], None]], list[TaskOutcome]]


def run_task(task: Task) -> TaskOutcome:
    try:
        return _read(task)
    except HeadraceError as error:
        may_pass = isinstance(error, Unavailable) or (task.skips_missing and isinstance(error, OffsetsGone))
        reason = error.what if isinstance(error, OffsetsGone) else str(error)
        return TaskFailed(task.range, reason, may_pass)


def _read(task: Task) -> TaskDone:
    files = RowFiles(task.lake.files(), task.decoder.schema, groups=by_hour)
    dead_files = RowFiles(task.dead_letters.files(), DEAD_LETTERS, groups=all_together)
    for batch in _records(task):
        rows, dead = task.decoder.decode(batch, task.origin)
        assert rows.num_rows + dead.num_rows == batch.num_rows  # Whatever is in the batch: no decoder drops any.
        files.add(rows)
        dead_files.add(dead)
    return TaskDone(task.range, files.rows, files.finish(), dead_files.finish(), dead_files.rows)


def _records(task: Task) -> Iterator[pa.RecordBatch]:
    place, first, end = task.range
    if task.letters is not None:
        for path in task.letters:
            yield from stored_records(task.dead_letters.files(), path, task.origin, task.range)
        return
    with closing(Scan(task.settings, {place.topic: [place.partition]}, start=first, end=end)) as scan:
        yield from scan
