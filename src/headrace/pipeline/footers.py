"""Files are looked at before they are committed: Delta believes whatever it is told of them.

The driver opens each file that a task says it wrote and compares it with what it has to be: there, of this size, with
these columns and so many rows. What Delta keeps of a file's contents, so that readers can pass it over, is taken from
the file's own footer.
"""

import json
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from headrace.errors import HeadraceError
from headrace.pipeline.files import WrittenFile

# Columns whose least and greatest value are worth knowing: by these, a range of offsets finds its files.
_KEPT: Final = ("topic", "partition", "offset", "timestamp")


class BadFile(HeadraceError):
    """A file that is not what its writer said. Nothing of the load was committed."""


def check_files(files: pyarrow.fs.FileSystem, written: Iterable[WrittenFile], schema: pa.Schema) -> list[AddAction]:
    """What to tell Delta of files with these columns; `BadFile` where one is not as it was told."""
    return [check_file(files, one, schema) for one in written]


def check_file(files: pyarrow.fs.FileSystem, written: WrittenFile, schema: pa.Schema) -> AddAction:
    (info,) = files.get_file_info([written.path])
    if info.type != pyarrow.fs.FileType.File:
        raise BadFile(f"{written.path} is not there")
    if info.size != written.size_bytes:
        raise BadFile(f"{written.path} has {info.size} bytes, not {written.size_bytes}")
    try:
        with files.open_input_file(written.path) as source:
            parquet = pq.ParquetFile(source)
            footer, found = parquet.metadata, parquet.schema_arrow
    except (pa.ArrowException, OSError) as error:
        raise BadFile(f"{written.path} is no Parquet file: {error}") from error
    if not found.equals(schema):
        raise BadFile(f"{written.path} has other columns: {_difference(found, schema)}")
    if footer.num_rows != written.rows:
        raise BadFile(f"{written.path} has {footer.num_rows} rows, not {written.rows}")
    return AddAction(
        path=written.path,
        size=written.size_bytes,
        partition_values=dict(written.partition_values),
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=json.dumps(statistics(footer)),
    )


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """In Delta's words: how many rows, and for some columns the least, the greatest and how many are null."""
    least: dict[str, Any] = {}
    greatest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(index) for index in range(footer.num_row_groups)]
    for index in range(footer.num_columns):
        name = footer.schema.column(index).path
        if name not in _KEPT:
            continue
        found = [group.column(index).statistics for group in groups]
        if not all(one is not None and one.has_null_count for one in found):
            continue
        nulls[name] = sum(one.null_count for one in found)
        bounds = [one for one in found if one.has_min_max]
        # A group without values has no bounds, and needs none.
        if bounds and all(one.has_min_max or not one.num_values for one in found):
            least[name] = _plain(min(one.min for one in bounds))
            greatest[name] = _plain(max(one.max for one in bounds))
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        # Records are stamped in milliseconds, which is all that Delta's statistics keep.
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return value


def _difference(found: pa.Schema, expected: pa.Schema) -> str:
    for wanted in expected:
        index = found.get_field_index(wanted.name)
        if index < 0:
            return f"{wanted.name} is missing"
        if not found.field(index).equals(wanted):
            return f"{wanted.name} is {found.field(index).type}, not {wanted.type}"
    added = [name for name in found.names if expected.get_field_index(name) < 0]
    return f"there is {', '.join(added)}" if added else f"their order is {', '.join(found.names)}"
