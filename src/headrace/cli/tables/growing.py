"""A file of rows that is written group by group, and can be taken up again after any of them.

Where each group ends is all that has to be remembered: what comes after the last one that somebody remembers is cut
off, and the next group goes there. Whole is the file only at the end, when it gets what its format wants there.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Final

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from headrace.cli.output import CommandError
from headrace.cli.tables.footers import join_footers, read_footer
from headrace.cli.tables.kinds import Kind
from headrace.cli.tables.record_texts import csv_head, csv_lines, json_lines

# Payloads differ from row to row: to look for repetitions, and to note the least and the greatest, is work for nothing.
_PAYLOADS: Final = frozenset({"value", "headers"})
_END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class GrowingFile:
    """`file` is open for reading and writing, and is nobody else's. `ends` are the groups that it has, and grow."""

    def __init__(
        self, file: IO[bytes], path: Path, kind: Kind, schema: pa.Schema, *, compression: str, ends: Sequence[int] = ()
    ) -> None:
        self.ends = list(ends)
        self._file = file
        self._path = path
        self._kind = kind
        self._schema = schema
        self._compression = compression
        self._append = {
            Kind.PARQUET: self._append_parquet,
            Kind.CSV: self._append_csv,
            Kind.JSONL: self._append_json_lines,
            Kind.ARROW: self._append_stream,
            Kind.ARROWS: self._append_stream,
        }[kind]
        size = os.fstat(file.fileno()).st_size
        if size < self.size_bytes:
            raise CommandError(f"{path} has {size} bytes of the {self.size_bytes} that were written: say --restart")
        self._cut()

    @property
    def size_bytes(self) -> int:
        return self.ends[-1] if self.ends else 0

    def append(self, batches: Sequence[pa.RecordBatch]) -> None:
        """One more group, which has reached the disk when this returns."""
        self._cut()
        self._append(batches)
        self._sync()
        self.ends.append(self._file.tell())

    def complete(self) -> Path:
        """Make it a file that others read, and say where that is: here or, where it had to be copied, beside."""
        if not self.ends:
            self.append([])
        self._cut()
        make_whole: Callable[[], Path] = {
            Kind.PARQUET: self._join_groups,
            Kind.ARROW: self._copy_as_arrow,
            Kind.ARROWS: self._end_stream,
        }.get(self._kind, lambda: self._path)
        return make_whole()

    def _cut(self) -> None:
        self._file.truncate(self.size_bytes)
        self._file.seek(self.size_bytes)

    def _sync(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())

    # --- Parquet: each group is a file in itself -----------------------------------------------------------------

    def _append_parquet(self, batches: Sequence[pa.RecordBatch]) -> None:
        plain = [name for name in self._schema.names if name not in _PAYLOADS]
        with pq.ParquetWriter(
            self._file,
            self._schema,
            compression=self._compression,
            use_dictionary=plain,
            write_statistics=plain,
        ) as writer:
            table = pa.Table.from_batches(batches, self._schema)
            writer.write_table(table, row_group_size=max(1, table.num_rows))

    def _join_groups(self) -> Path:
        footers = [read_footer(self._file, end=end) for end in self.ends]
        end = join_footers(footers, [0, *self.ends[:-1]])
        self._cut()
        self._file.write(end)
        self._sync()
        return self._path

    # --- Text ----------------------------------------------------------------------------------------------------

    def _append_csv(self, batches: Sequence[pa.RecordBatch]) -> None:
        if not self.ends:
            self._file.write(csv_head(self._schema.names))
        for batch in batches:
            self._file.write(csv_lines(batch))

    def _append_json_lines(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._file.write(json_lines(batch))

    # --- Arrow ---------------------------------------------------------------------------------------------------

    def _append_stream(self, batches: Sequence[pa.RecordBatch]) -> None:
        if not self.ends:
            self._file.write(self._schema.serialize())
        for batch in batches:
            self._file.write(batch.serialize())

    def _end_stream(self) -> Path:
        self._file.write(_END_OF_STREAM)
        self._sync()
        return self._path

    def _copy_as_arrow(self) -> Path:
        """A stream becomes a file by a table of contents that nobody but Arrow can write, and Arrow only in one go."""
        whole = self._path.with_name(f"{self._path.name}.whole")
        self._end_stream()
        compression = None if self._compression == "none" else self._compression
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.memory_map(str(self._path)) as source, whole.open("wb") as file:
            with pa.ipc.open_stream(source) as stream, pa.ipc.new_file(file, self._schema, options=options) as out:
                for batch in stream:
                    out.write_batch(batch)
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(self._path, whole)
        return whole
