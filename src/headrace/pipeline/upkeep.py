"""Keeping a table in order: small files made large ones, and files that nobody needs removed.

Neither touches the offsets, which are in the table's log and not in its files, and neither disturbs a load: compaction
replaces files that are in the table already, and vacuum leaves alone what is younger than any load can be.
"""

import re
import time
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from headrace.errors import ConfigError
from headrace.pipeline.delta import FILE_BYTES, Delta, LakeError
from headrace.pipeline.lake_table import DEAD_LETTERS_DIRECTORY
from headrace.pipeline.ledger import DIRECTORY as LEDGER_DIRECTORY
from headrace.pipeline.location import Location

RETENTION: Final = timedelta(days=7)
# A file that a task has written and no commit names yet looks like one that nobody needs.
_ORPHAN_AGE_MIN: Final = timedelta(hours=24)
# A file on its way to its name. Delta's file system shows these to nobody, so that its vacuum cannot remove them.
_UNFINISHED: Final = re.compile(r".+#\d+")


class Compacted(NamedTuple):
    files_before: int
    files_after: int


def compact(lake: Location, *, file_bytes: int = FILE_BYTES) -> Compacted:
    """Of small files of one hour, fewer of about this size. The rows stay the same."""
    before = after = 0
    for table in _tables(lake):
        before += table.file_count
        table.compact(file_bytes=file_bytes)
        after += table.file_count
    return Compacted(before, after)


def vacuum(
    lake: Location, *, older_than: timedelta = RETENTION, with_orphans: bool = False, dry_run: bool = False
) -> list[str]:
    """Remove files that the table has not needed for so long; those that were removed, or would be.

    With orphans: also files that no commit ever named, which killed loads leave. They cannot be told from those of a
    load at work but by their age.
    """
    if with_orphans and older_than < _ORPHAN_AGE_MIN:
        hours = _ORPHAN_AGE_MIN // timedelta(hours=1)
        raise ConfigError(f"orphans younger than {hours} hours may be files of a load at work")
    removed = [
        f"{table.location}/{path}"
        for table in _tables(lake)
        for path in table.vacuum(older_than=older_than, with_orphans=with_orphans, dry_run=dry_run)
    ]
    if with_orphans and lake.path is not None:
        unfinished = _unfinished(lake.path, older_than)
        removed += map(str, unfinished)
        if not dry_run:
            for path in unfinished:
                path.unlink()
    return removed


def _unfinished(directory: Path, older_than: timedelta) -> list[Path]:
    """What was being written when a process was killed."""
    since_s = time.time() - older_than.total_seconds()
    return [
        path
        for path in directory.rglob("*#*")
        if _UNFINISHED.fullmatch(path.name) and path.is_file() and path.stat().st_mtime < since_s
    ]


def _tables(lake: Location) -> list[Delta]:
    """The table, and those inside its directory."""
    table = Delta.open(lake)
    if table is None:
        raise LakeError(f"{lake} is no Delta table")
    inner = [Delta.open(lake.child(name)) for name in (DEAD_LETTERS_DIRECTORY, LEDGER_DIRECTORY)]
    return [table, *(each for each in inner if each is not None)]
