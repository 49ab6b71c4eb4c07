"""Files of rows, as batches of what records are made of: `key`, `value`, `headers`, `timestamp` and `partition`.

Two kinds of tables are told apart by their columns. One that an export made, or that has the same columns and no
others, has records already, and they are taken as they are. Any other becomes one JSON object for each row, or is told
which column is the value and which the key.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.ipc
import pyarrow.parquet as pq

from headrace.cli.message_text import MESSAGE_FIELDS, parse_object
from headrace.cli.output import CommandError
from headrace.cli.tables.kinds import Kind
from headrace.cli.tables.record_texts import parse_headers, parse_json_lines
from headrace.cli.tables.row_json import as_bytes, field_bytes, json_objects
from headrace.columnar.schema import COLUMNS
from headrace.errors import ConfigError

_BATCH_ROWS: Final = 1 << 16
_LINES: Final = 5_000
_CSV_BLOCK_BYTES: Final = 16 << 20  # No row may be longer.
_ARROW_MAGIC: Final = b"ARROW1"
_CSV: Final = pa_csv.ParseOptions(newlines_in_values=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which columns make records."""

    value: str | None = None
    key: str | None = None
    keep_partitions: bool = False
    is_text: bool = False  # Columns of CSV are what they look like, unless they are all to be text.

    @property
    def says_columns(self) -> bool:
        return self.value is not None or self.key is not None


class TableFile:
    """Iterate over it for all rows in their order. What is wrong with a file is told in one line."""

    def __init__(self, path: Path, kind: Kind, wanted: Wanted) -> None:
        self.share = 0.0  # How much of it was read.
        self._path = path
        self._kind = kind
        self._wanted = wanted

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            if self._kind is Kind.JSONL:
                yield from self._json_lines()
                return
            rows = {Kind.PARQUET: self._parquet, Kind.CSV: self._csv, Kind.ARROW: self._arrow, Kind.ARROWS: self._arrow}
            for batch in rows[self._kind]():
                for start in range(0, batch.num_rows, _BATCH_ROWS):
                    yield records_of(batch.slice(start, _BATCH_ROWS), self._wanted)
        except ConfigError as error:
            raise CommandError(f"{self._path}: {error}") from None
        except pa.ArrowException as error:
            raise CommandError(f"{self._path} cannot be read as {self._kind}: {str(error).splitlines()[0]}") from None

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(self._path) as file:
            total, rows = file.metadata.num_rows, 0
            for batch in file.iter_batches(_BATCH_ROWS):
                yield batch
                rows += batch.num_rows
                self.share = rows / total

    def _arrow(self) -> Iterator[pa.RecordBatch]:
        """A file or a stream, whichever it is."""
        with pa.memory_map(str(self._path)) as source:
            size = max(1, source.size())
            is_file = source.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
            source.seek(0)
            if is_file:
                with pa.ipc.open_file(source) as file:
                    for number in range(file.num_record_batches):
                        yield file.get_batch(number)
                        self.share = (number + 1) / file.num_record_batches
            else:
                with pa.ipc.open_stream(source) as stream:
                    for batch in stream:
                        yield batch
                        self.share = source.tell() / size

    def _csv(self) -> Iterator[pa.RecordBatch]:
        names = _csv_names(self._path)
        is_of_records = "value" in names and set(names) <= COLUMNS.keys() and not self._wanted.says_columns
        if is_of_records:
            convert = pa_csv.ConvertOptions(
                column_types={**COLUMNS, "headers": pa.binary()},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            )
        else:
            texts = dict.fromkeys(names, pa.string()) if self._wanted.is_text else None
            convert = pa_csv.ConvertOptions(column_types=texts)
        size = max(1, self._path.stat().st_size)
        read = pa_csv.ReadOptions(block_size=_CSV_BLOCK_BYTES)
        with self._path.open("rb") as file, pa_csv.open_csv(file, read, _CSV, convert) as reader:
            for batch in reader:
                if is_of_records and "headers" in names:
                    index = names.index("headers")
                    batch = batch.set_column(index, "headers", parse_headers(batch.column(index)))
                yield batch
                self.share = file.tell() / size

    def _json_lines(self) -> Iterator[pa.RecordBatch]:
        size = max(1, self._path.stat().st_size)
        number, make = 0, _values_of_lines
        with self._path.open("rb") as file:
            while lines := [line.rstrip(b"\r\n") for line in islice(file, _LINES)]:
                if number == 0 and not self._wanted.says_columns and _is_record(lines[0]):
                    make = _records_of_lines
                try:
                    yield make(lines, self._wanted)
                except ConfigError as error:
                    raise _blame(lines, number, make, self._wanted) or error from None
                number += len(lines)
                self.share = file.tell() / size


def records_of(batch: pa.RecordBatch, wanted: Wanted) -> pa.RecordBatch:
    """The columns that records are made of."""
    names = batch.schema.names
    for word, name in (("--value", wanted.value), ("--key", wanted.key)):
        if name is not None and name not in names:
            raise ConfigError(f"{word} {name}: there is no such column but {', '.join(names) or 'none at all'}")
    made: dict[str, pa.Array] = {}
    if is_of_records(batch.schema) and not wanted.says_columns:
        made = {name: batch.column(name) for name in ("key", "value", "headers", "timestamp") if name in names}
        made = {name: column for name, column in made.items() if not pa.types.is_null(column.type)}
    else:
        if wanted.key is not None:
            made["key"] = as_bytes(batch.column(wanted.key))
        made["value"] = json_objects(batch) if wanted.value is None else as_bytes(batch.column(wanted.value))
    if wanted.keep_partitions:
        if "partition" not in names:
            raise ConfigError(f"--keep-partitions: there is no column 'partition' but {', '.join(names)}")
        made["partition"] = batch.column("partition")
    if "value" not in made:  # A column of nulls.
        made["value"] = pa.nulls(batch.num_rows, pa.binary())
    return pa.RecordBatch.from_pydict(made)


def is_of_records(schema: pa.Schema) -> bool:
    if "value" not in schema.names or not set(schema.names) <= COLUMNS.keys():
        return False
    kind = schema.field("value").type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return any(
        is_this(kind)
        for is_this in (
            *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
            *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_null),
        )
    )


def _csv_names(path: Path) -> list[str]:
    with path.open("rb") as file, pa_csv.open_csv(file, parse_options=_CSV) as reader:
        names: list[str] = reader.schema.names
    return names


# --- Lines of JSON -------------------------------------------------------------------------------------------------


def _is_record(line: bytes) -> bool:
    fields = parse_object(line).keys()
    return "value" in fields and fields <= MESSAGE_FIELDS


def _blame(
    lines: Sequence[bytes], before: int, make: Callable[[Sequence[bytes], Wanted], pa.RecordBatch], wanted: Wanted
) -> ConfigError | None:
    """The first line that is wrong by itself."""
    for number, line in enumerate(lines, before + 1):
        try:
            make([line], wanted)
        except ConfigError as error:
            return ConfigError(f"line {number}: {error}")
    return None


def _records_of_lines(lines: Sequence[bytes], wanted: Wanted) -> pa.RecordBatch:
    batch = parse_json_lines(lines)
    return batch if wanted.keep_partitions else batch.drop_columns(["partition"])


def _values_of_lines(lines: Sequence[bytes], wanted: Wanted) -> pa.RecordBatch:
    """The lines as they are, or of each the fields that were asked for."""
    objects = [parse_object(line) for line in lines]

    def column(name: str) -> pa.Array:
        for fields in objects:
            if name not in fields:
                raise ConfigError(f"there is no field {name!r}")
        return pa.array([field_bytes(fields[name]) for fields in objects], pa.binary())

    made = {"value": pa.array(lines, pa.binary()) if wanted.value is None else column(wanted.value)}
    if wanted.key is not None:
        made["key"] = column(wanted.key)
    if wanted.keep_partitions:
        made["partition"] = _partitions([fields.get("partition") for fields in objects])
    return pa.RecordBatch.from_pydict(made)


def _partitions(numbers: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(numbers, COLUMNS["partition"])
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise ConfigError(str(error)) from None
