"""The ledger: what each commit brought of each partition, whatever becomes of the rows later.

Users delete and correct rows, so that rows cannot prove that a load was whole. The ledger can: for every commit and
partition the range of offsets, how many rows came of it, how many dead letters, and how many offsets were gone before
they could be read. Entries are part of the commit that they tell of (its metadata), hence exact. Delta forgets the
metadata of old commits, so after each load they are also copied into a table of their own, `_ledger` inside the
table's directory. Its transaction says up to which version of the table it goes, so that the copy neither misses nor
repeats one: whoever loads next copies what a killed load had no time for.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from headrace.pipeline.columns import LEDGER
from headrace.pipeline.delta import Commit, Delta
from headrace.pipeline.files import write_file
from headrace.pipeline.footers import check_files
from headrace.pipeline.location import Location

DIRECTORY: Final = "_ledger"
METADATA_KEY: Final = "headrace"

_COPIED: Final = "ledger"  # The name of the transaction that says how far.
_FILES_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one commit brought of one partition: the offsets from the first up to, not with, the end."""

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    rows: int
    dead_letters: int = 0
    missing: int = 0


def commit_metadata(entries: Iterable[Entry], *, load_id: str, kind: str) -> dict[str, Any]:
    """What a commit carries."""
    return {METADATA_KEY: {"load_id": load_id, "kind": kind, "ledger": [asdict(entry) for entry in entries]}}


def carried(commit: Commit) -> Mapping[str, Any]:
    """What `commit_metadata` gave to a commit; nothing where it is not of a load."""
    found = commit.info.get(METADATA_KEY)
    return found if isinstance(found, Mapping) else {}


def rows_of(commit: Commit) -> list[dict[str, Any]]:
    """The ledger's rows of one commit of the table."""
    if not (told := carried(commit)):
        return []
    shared = {
        "version": commit.version,
        "load_id": told["load_id"],
        "kind": told["kind"],
        "committed_at": datetime.fromtimestamp(commit.info["timestamp"] / 1000, UTC),
    }
    return [shared | entry for entry in told["ledger"]]


def read_ledger(lake: Location) -> pa.Table:
    """All of it, the oldest first: the copied entries, and those of commits that were not copied yet."""
    table, copy = Delta.open(lake), Delta.open(lake.child(DIRECTORY))
    copied = -1 if copy is None else copy.transaction(_COPIED, -1)
    rows = [] if table is None else _rows_after(table, copied)
    tables = [pa.Table.from_pylist(rows, LEDGER)]
    if copy is not None:
        tables.insert(0, copy.read().cast(LEDGER))
    return pa.concat_tables(tables).sort_by([(name, "ascending") for name in ("version", "topic", "partition")])


def copy_ledger(table: Delta, copy: Delta) -> None:
    """Bring the copy up to date. Two at once do no harm: one of them fails, and has nothing left to do."""
    version = table.version
    if (copied := copy.transaction(_COPIED, -1)) >= version:
        return
    rows = pa.Table.from_pylist(_rows_after(table, copied), LEDGER)
    files = copy.location.files()
    written = [write_file(files, rows, {})] if rows.num_rows else []
    actions = check_files(files, written, LEDGER)
    if copy.try_commit(actions, transactions={_COPIED: version}) and copy.file_count > _FILES_MAX:
        copy.compact()


def _rows_after(table: Delta, copied: int) -> list[dict[str, Any]]:
    return [row for commit in table.commits_after(copied) for row in rows_of(commit)]
