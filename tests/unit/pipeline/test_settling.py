"""Which dead letters are none, by what the rows say."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.ids import TopicName
from headrace.pipeline import settling
from headrace.pipeline.columns import DEAD_LETTERS, PARTITION_BY, RAW, table_schema
from headrace.pipeline.delta import Delta, LiveFile
from headrace.pipeline.files import by_hour, write_file
from headrace.pipeline.footers import check_files
from headrace.pipeline.location import parse_location
from headrace.pipeline.origins import Origin
from headrace.pipeline.settling import settle
from headrace.pipeline.splitting import OffsetRange

CLICKS = Origin("cluster", TopicName("clicks"), "id-1")
ANEW = CLICKS._replace(topic_id="id-2")


class Tables:
    def __init__(self, directory: Path) -> None:
        self.table = Delta.create(
            parse_location(directory / "lake"), table_schema(RAW), partition_by=PARTITION_BY, properties={}
        )
        self.dead = Delta.create(parse_location(directory / "dead"), DEAD_LETTERS)

    def add_rows(self, *offsets: int) -> None:
        rows = records(RAW, offsets)
        files = self.table.location.files()
        written = [write_file(files, part, dict(values)) for values, part in by_hour(rows)]
        assert self.table.try_commit(check_files(files, written, RAW), transactions={})

    def add_dead(self, reason: str, *offsets: int, origin: Origin = CLICKS) -> str:
        letters = records(DEAD_LETTERS, offsets, origin=origin, reason=reason)
        files = self.dead.location.files()
        (action,) = check_files(files, [write_file(files, letters, {})], DEAD_LETTERS)
        assert self.dead.try_commit([action], transactions={})
        return action.path

    def settle(self, first: int, end: int, **more: list[str] | list[OffsetRange]) -> list[tuple[int, str]]:
        """What is left; and that there is nothing to be done a second time."""
        ranges, ends = [range_of(first, end)], {CLICKS.place(0): 10}
        for _ in range(2):
            actions = settle(self.dead, self.table, {CLICKS.topic: CLICKS}, ranges, ends, **more)  # type: ignore[arg-type]
            assert self.dead.try_commit(actions, transactions={})
            more = {}
        assert not actions
        rows = self.dead.read().select(["offset", "reason"]).to_pylist()
        return sorted((row["offset"], row["reason"]) for row in rows)


def range_of(first: int, end: int) -> OffsetRange:
    return OffsetRange(CLICKS.place(0), first, end)


def records(schema: pa.Schema, offsets: tuple[int, ...], *, origin: Origin = CLICKS, reason: str = "") -> pa.Table:
    row = {
        "topic": origin.topic,
        "partition": 0,
        "cluster_id": origin.cluster_id,
        "topic_id": origin.topic_id,
        "reason": reason,
    }
    return pa.Table.from_pylist([row | {"offset": offset} for offset in offsets], schema)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_what_is_a_row_is_no_dead_letter(tables: Tables) -> None:
    tables.add_rows(1, 2, 3)
    tables.add_dead("a", 2, 4)
    tables.add_dead("b", 3)
    assert tables.settle(0, 10) == [(4, "a")]


def test_what_the_table_has_not_come_to_is_none_either(tables: Tables) -> None:
    tables.add_dead("a", 8, 9, 10, 11)
    assert tables.settle(0, 20) == [(8, "a"), (9, "a")]


def test_of_several_of_one_record_the_newest_is_meant(tables: Tables) -> None:
    tables.add_dead("a", 1, 2)
    tables.add_dead("b", 2, 3, 3)
    assert tables.settle(0, 10) == [(1, "a"), (2, "b"), (3, "b")]


def test_what_is_not_of_the_range_or_of_another_life_of_the_topic_stays(tables: Tables) -> None:
    tables.add_rows(1, 2, 3, 4)
    tables.add_dead("a", 1, 2, 3, 4)
    tables.add_dead("b", 2, 3, origin=ANEW)
    assert tables.settle(2, 4) == [(1, "a"), (2, "b"), (3, "b"), (4, "a")]


def test_of_a_range_that_was_replaced_only_what_was_written_stays(tables: Tables) -> None:
    """Although no row says so: at these offsets is nothing any more."""
    tables.add_dead("a", 1, 2, 3, 4)
    path = tables.add_dead("b", 3)
    assert tables.settle(0, 10, replaced=[range_of(2, 4)], written=[path]) == [(1, "a"), (3, "b"), (4, "a")]


def test_each_file_of_rows_is_read_once_for_all_ranges(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a compaction there are files with rows of all partitions."""
    tables.add_rows(1, 4, 7, 8)
    tables.add_dead("a", 1, 2, 4, 7)
    read, read_file = [], settling.read_file

    def counted(table: Delta, live: LiveFile, names: Sequence[str] | None = None) -> pa.Table:
        read.append(table)
        return read_file(table, live, names)

    monkeypatch.setattr(settling, "read_file", counted)
    ranges = [range_of(0, 2), range_of(2, 4), range_of(4, 6), range_of(6, 10)]
    actions = settle(tables.dead, tables.table, {CLICKS.topic: CLICKS}, ranges, {CLICKS.place(0): 10})
    assert tables.dead.try_commit(actions, transactions={})
    assert tables.dead.read()["offset"].to_pylist() == [2]
    assert read.count(tables.table) == 1


def test_without_dead_letters_nothing_is_read(tables: Tables) -> None:
    tables.add_rows(1, 2, 3)
    for path in Path(tables.table.location.uri).rglob("*.parquet"):
        path.unlink()
    assert tables.settle(0, 10) == []
