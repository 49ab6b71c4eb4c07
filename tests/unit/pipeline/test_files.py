"""Rows into files by the hour, and the look that is taken at them before a commit."""

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from headrace.pipeline.files import RowFiles, WrittenFile, by_hour, write_file
from headrace.pipeline.footers import BadFile, check_file
from headrace.pipeline.location import parse_location

SCHEMA = pa.schema(
    [pa.field("offset", pa.int64()), pa.field("timestamp", pa.timestamp("us", "UTC")), pa.field("value", pa.binary())]
)
NOON = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


def rows(*times: datetime | None, first: int = 0, value: bytes = b"v") -> pa.Table:
    offsets = range(first, first + len(times))
    return pa.table([list(offsets), list(times), [value] * len(times)], schema=SCHEMA)


def hours(table: pa.Table) -> dict[tuple[str | None, ...], list[int]]:
    return {tuple(value for _, value in values): part["offset"].to_pylist() for values, part in by_hour(table)}


@pytest.fixture
def files(tmp_path: Path) -> pyarrow.fs.FileSystem:
    return parse_location(tmp_path).files()


def test_rows_of_an_hour_are_together_in_their_order() -> None:
    times = [NOON, NOON + timedelta(hours=1), NOON + timedelta(minutes=59), None, NOON + timedelta(hours=1)]
    assert hours(rows(*times)) == {
        ("2026-11-15", "12"): [0, 2],
        ("2026-11-15", "13"): [1, 4],
        (None, None): [3],
    }


def test_hours_before_1970_and_at_both_ends_of_time() -> None:
    times = [
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
    ]
    assert hours(rows(*times)) == {("1969-12-31", "23"): [0], ("0001-01-01", "0"): [1], ("9999-12-31", "23"): [2]}


def test_one_hour_is_not_taken_apart() -> None:
    table = rows(NOON, NOON)
    ((_, part),) = by_hour(table)
    assert part is table


def test_files_are_where_their_hour_is_and_hold_their_rows(files: pyarrow.fs.FileSystem, tmp_path: Path) -> None:
    writing = RowFiles(files, SCHEMA, groups=by_hour)
    writing.add(rows(NOON, NOON + timedelta(hours=1)))
    writing.add(rows(NOON, None, first=2))
    written = writing.finish()
    found = {Path(one.path).parent.as_posix(): pq.ParquetFile(tmp_path / one.path) for one in written}
    assert {where: file.read()["offset"].to_pylist() for where, file in found.items()} == {
        "event_date=2026-11-15/event_hour=12": [0, 2],
        "event_date=2026-11-15/event_hour=13": [1],
        "event_date=__HIVE_DEFAULT_PARTITION__/event_hour=__HIVE_DEFAULT_PARTITION__": [3],
    }
    assert {file.metadata.row_group(0).column(2).compression for file in found.values()} == {"ZSTD"}
    assert writing.rows == 4


def test_no_more_rows_wait_than_there_is_room_for(files: pyarrow.fs.FileSystem, tmp_path: Path) -> None:
    writing = RowFiles(files, SCHEMA, groups=by_hour, waiting_bytes_max=4_000)
    for first in range(0, 100, 2):
        writing.add(rows(NOON, NOON + timedelta(hours=first % 24), first=first, value=bytes(200)))
        assert sum(writing._waiting_bytes.values()) <= 4_000
    written = writing.finish()
    offsets = [offset for one in written for offset in pq.ParquetFile(tmp_path / one.path).read()["offset"].to_pylist()]
    assert sorted(offsets) == list(range(100))
    assert len({one.path for one in written}) == len(written) > 24


def test_what_delta_is_told_of_a_file_is_what_its_footer_says(files: pyarrow.fs.FileSystem) -> None:
    values = {"event_date": str(date(2026, 11, 15)), "event_hour": "12"}
    written = write_file(files, rows(NOON, None, NOON + timedelta(milliseconds=1), first=7), values)
    action = check_file(files, written, SCHEMA)
    assert (action.path, action.size, action.partition_values) == (written.path, written.size_bytes, values)
    assert json.loads(action.stats) == {
        "numRecords": 3,
        "minValues": {"offset": 7, "timestamp": "2026-11-15T12:00:00.000Z"},
        "maxValues": {"offset": 9, "timestamp": "2026-11-15T12:00:00.001Z"},
        "nullCount": {"offset": 0, "timestamp": 1},
    }


def test_a_file_that_is_not_there_is_not_committed(files: pyarrow.fs.FileSystem) -> None:
    with pytest.raises(BadFile, match="is not there"):
        check_file(files, WrittenFile("nowhere.parquet", 1, 100, {}), SCHEMA)


def test_a_file_that_was_cut_is_not_committed(files: pyarrow.fs.FileSystem, tmp_path: Path) -> None:
    written = write_file(files, rows(NOON), {})
    whole = (tmp_path / written.path).read_bytes()
    (tmp_path / written.path).write_bytes(whole[:-1])
    with pytest.raises(BadFile, match=f"has {len(whole) - 1} bytes, not {len(whole)}"):
        check_file(files, written, SCHEMA)
    (tmp_path / written.path).write_bytes(whole[:-4] + b"oops")
    with pytest.raises(BadFile, match="is no Parquet file"):
        check_file(files, written, SCHEMA)


def test_a_file_with_other_rows_than_its_writer_says_is_not_committed(files: pyarrow.fs.FileSystem) -> None:
    written = write_file(files, rows(NOON, NOON), {})
    with pytest.raises(BadFile, match="has 2 rows, not 3"):
        check_file(files, written._replace(rows=3), SCHEMA)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda schema: schema.set(0, pa.field("offset", pa.int32())), "offset is int64, not int32"),
        (lambda schema: schema.append(pa.field("key", pa.binary())), "key is missing"),
        (lambda schema: schema.remove(2), "there is value"),
        (lambda schema: pa.schema(reversed(list(schema))), "their order is offset, timestamp, value"),
    ],
)
def test_a_file_with_other_columns_is_not_committed(files: pyarrow.fs.FileSystem, change: object, said: str) -> None:
    written = write_file(files, rows(NOON), {})
    assert callable(change)
    with pytest.raises(BadFile, match=said):
        check_file(files, written, change(SCHEMA))
