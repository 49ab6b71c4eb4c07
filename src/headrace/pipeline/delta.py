"""A Delta table as a load needs it: numbers by name, files, and commits of both at once.

A handle sees the table as it was when it was last refreshed, and commits on top of that: where somebody else has
committed one of the same names since, Delta refuses. That is what loads rely on, so a handle is never refreshed between
planning and committing. Nothing here casts or guesses: files are given, checked by the caller.
"""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, WriterProperties
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from headrace.errors import HeadraceError
from headrace.pipeline.location import Location

FILE_BYTES: Final = 128 << 20
_TRIES_MAX: Final = 5


class LakeError(HeadraceError):
    """The table could not be read or written; the text says which and why."""


def trouble(location: Location, error: Exception) -> LakeError:
    """What the library says of a table, in one line: it has several, and often a stack of Rust's behind them."""
    words = re.split(r"\n\s*0: ", str(error))[0].split()
    return LakeError(f"{location}: {' '.join(words)}")


class LiveFile(NamedTuple):
    """A file of the table, as the log tells of it."""

    path: str
    size_bytes: int
    partition_values: Mapping[str, str | None]
    bounds: Mapping[str, tuple[Any, Any]]  # The least and the greatest value of a column, where that is known.
    modified_ms: int = 0


class Commit(NamedTuple):
    version: int
    info: Mapping[str, Any]


class Delta:
    def __init__(self, location: Location, table: DeltaTable) -> None:
        self.location = location
        self._table = table

    @classmethod
    def open(cls, location: Location) -> "Delta | None":
        """The table as it is now; None where there is none."""
        if location.path is not None and not (location.path / "_delta_log").is_dir():
            return None  # Delta would make the directory.
        try:
            return cls(location, DeltaTable(location.uri, storage_options=dict(location.options)))
        except TableNotFoundError:
            return None
        except (DeltaError, OSError, ValueError) as error:
            raise trouble(location, error) from error

    @classmethod
    def create(
        cls,
        location: Location,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
    ) -> "Delta":
        """A new table, or the one that somebody else made at the same moment."""
        try:
            DeltaTable.create(
                location.uri,
                schema,
                mode="ignore",
                partition_by=list(partition_by),
                configuration=dict(properties or {}),
                storage_options=dict(location.options),
                raise_if_key_not_exists=False,
            )
        except CommitFailedError:
            pass  # Theirs was first.
        except (DeltaError, OSError, ValueError) as error:
            raise trouble(location, error) from error
        made = cls.open(location)
        if made is None:
            raise LakeError(f"{location}: the table that was just made is not there")
        return made

    # --- How it stands -------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        return self._table.version()

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self._table.schema().to_arrow())

    @property
    def partition_by(self) -> list[str]:
        return self._table.metadata().partition_columns

    @property
    def properties(self) -> Mapping[str, str]:
        return self._table.metadata().configuration

    @property
    def file_count(self) -> int:
        return len(self._table.file_uris())

    def transaction(self, name: str, otherwise: int) -> int:
        """The number under a name."""
        found = self._table.transaction_version(name)
        return otherwise if found is None else found

    def commits_after(self, version: int) -> list[Commit]:
        """What each commit behind a version tells of itself, the oldest first; those that Delta has forgotten left out.

        Read from the log by number. The library's `history` counts backwards from the version of its handle, but begins
        with whatever was committed last: beside another writer it gives commits the wrong numbers.
        """
        files = self.location.files()
        found = []
        for number in range(version + 1, self.version + 1):
            path = f"_delta_log/{number:020}.json"
            (info,) = files.get_file_info([path])
            if info.type != pyarrow.fs.FileType.File:
                continue
            with files.open_input_file(path) as source:
                actions = map(json.loads, source.read().splitlines())
            found += [Commit(number, action["commitInfo"]) for action in actions if "commitInfo" in action]
        return found

    def live_files(self) -> list[LiveFile]:
        found = []
        for file in pa.table(self._table.get_add_actions(flatten=True)).to_pylist():
            values = {name: file.get(f"partition.{name}") for name in self.partition_by}
            columns = [name.removeprefix("min.") for name in file if name.startswith("min.")]
            bounds = {name: (file[f"min.{name}"], file.get(f"max.{name}")) for name in columns}
            texts = {name: None if value is None else str(value) for name, value in values.items()}
            found.append(LiveFile(file["path"], file["size_bytes"], texts, bounds, file["modification_time"]))
        return found

    def read(self) -> pa.Table:
        return self._table.to_pyarrow_table()

    def refresh(self) -> None:
        """See what was committed since."""
        try:
            self._table.update_incremental()
        except (DeltaError, OSError) as error:
            raise trouble(self.location, error) from error

    # --- Changing it ---------------------------------------------------------------------------------------------

    def try_commit(
        self,
        actions: Sequence[AddAction | RemoveAction],
        *,
        transactions: Mapping[str, int],
        metadata: Mapping[str, Any] | None = None,
    ) -> bool:
        """Files and numbers, all or nothing; false where somebody else's commit since the last refresh forbids it.

        What the handle shows afterwards is the table with the commit and whatever else was committed by then, or the
        table as it was before.
        """
        removes = any(isinstance(action, RemoveAction) for action in actions)
        properties = CommitProperties(
            custom_metadata=dict(metadata or {}),
            # Delta does not mind that files which are to be removed were compacted meanwhile, and their rows would be
            # there twice. So such a commit is the very next one, or none.
            max_commit_retries=0 if removes else None,
            app_transactions=[Transaction(name, number) for name, number in transactions.items()],
        )
        try:
            # With the table's own schema: a commit of files changes none.
            self._table.create_write_transaction(
                list(actions), "append", self._table.schema(), self.partition_by, commit_properties=properties
            )
        except CommitFailedError:
            return False
        except (DeltaError, OSError) as error:
            raise trouble(self.location, error) from error
        self.refresh()  # The library leaves the handle as it was.
        return True

    def add_columns(self, columns: Sequence[pa.Field]) -> None:
        """Columns that are null in all rows that are there."""
        try:
            self._table.alter.add_columns(Schema.from_arrow(pa.schema(columns)).fields)
        except CommitFailedError as error:
            raise LakeError(f"{self.location}: somebody else changed the table meanwhile; run it again") from error
        except (DeltaError, OSError) as error:
            raise trouble(self.location, error) from error
        self.refresh()

    def compact(self, *, file_bytes: int = FILE_BYTES) -> None:
        """Fewer files of the same rows, of about this size."""
        for _ in range(_TRIES_MAX):
            try:
                writing = WriterProperties(compression="ZSTD")
                self._table.optimize.compact(target_size=file_bytes, writer_properties=writing)
                return
            except CommitFailedError:
                self.refresh()  # Somebody deleted or replaced rows meanwhile: look again.
            except (DeltaError, OSError) as error:
                raise trouble(self.location, error) from error
        raise LakeError(f"{self.location}: others change the table too often to compact it")

    def vacuum(self, *, older_than: timedelta, with_orphans: bool, dry_run: bool) -> list[str]:
        """Remove files that were taken out of the table so long ago, and those that never were in it if asked to."""
        try:
            return self._table.vacuum(
                retention_hours=-(-older_than // timedelta(hours=1)),
                enforce_retention_duration=False,
                full=with_orphans,
                dry_run=dry_run,
            )
        except (DeltaError, OSError) as error:
            raise trouble(self.location, error) from error
