"""What one task of a load does: read a range of offsets, write files, and tell which.

A task changes nothing that anybody sees: its files are unknown to the table until the driver commits them. So it may
fail, be tried again, or run twice at once. A failure that trying again would not mend comes back as a value, to be told
in one sentence; anything else is Spark's to try again.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.columnar import OffsetsGone, Scan
from headrace.errors import HeadraceError
from headrace.pipeline.columns import DEAD_LETTERS
from headrace.pipeline.decoding import Decoder
from headrace.pipeline.files import RowFiles, WrittenFile, all_together, by_hour
from headrace.pipeline.location import Location
from headrace.pipeline.origins import Origin
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
        return TaskFailed(task.range, str(error), may_pass)


def _read(task: Task) -> TaskDone:
    place, first, end = task.range
    files = RowFiles(task.lake.files(), task.decoder.schema, groups=by_hour)
    dead_files = RowFiles(task.dead_letters.files(), DEAD_LETTERS, groups=all_together)
    with closing(Scan(task.settings, {place.topic: [place.partition]}, start=first, end=end)) as scan:
        for batch in scan:
            rows, dead = task.decoder.decode(batch, task.origin)
            assert rows.num_rows + dead.num_rows == batch.num_rows  # Whatever is in the batch: no decoder drops any.
            files.add(rows)
            dead_files.add(dead)
    return TaskDone(task.range, files.rows, files.finish(), dead_files.finish(), dead_files.rows)
