from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.audit.columns import HEADERS
from headrace.audit.lake_tier import NotAuditable, count_batch, count_lake
from headrace.audit.ledger import Life, LoadedTopic, read_entries
from headrace.audit.seen import Counts
from headrace.audit.stamps import STAMP_HEADER, SpanId, Stamp, encode_stamp
from headrace.audit.tally import Counted

SPAN = SpanId("web", 5, 0)


def rows(offsets: list[int], *, topic: str = "clicks", partition: int = 0) -> pa.Table:
    """Messages whose sequence is their offset."""
    return pa.table(
        {
            "topic": pa.array([topic] * len(offsets)),
            "partition": pa.array([partition] * len(offsets), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "headers": pa.array(
                [[{"key": STAMP_HEADER, "value": encode_stamp(Stamp(SPAN, "h", offset, 7))}] for offset in offsets],
                HEADERS,
            ),
        }
    )


def write(path: Path, table: pa.Table) -> None:
    write_deltalake(str(path), table, mode="append")


def ledger(first: int, end: int, missing: int = 0) -> pa.Table:
    return pa.table(
        {
            "topic": ["clicks"],
            "partition": pa.array([0], pa.int32()),
            "first": [first],
            "end": [end],
            "missing": [missing],
        }
    )


def test_the_live_files_of_a_delta_table_count(tmp_path: Path) -> None:
    write(tmp_path, rows([1, 2, 3]))
    write(tmp_path, rows([3, 4]))
    write(tmp_path, rows([100], topic="views"))
    write(tmp_path, rows([], partition=1))
    counted = count_lake(str(tmp_path), "clicks")
    assert (counted.spans[SPAN].runs, counted.spans[SPAN].again) == (((1, 5),), 1)
    assert counted.extents == {0: (0, 5)}
    DeltaTable(str(tmp_path)).delete("offset = 2")
    assert count_lake(str(tmp_path), "clicks").spans[SPAN].runs == ((1, 2), (3, 5))


def test_dead_letters_have_arrived_and_are_not_counted_twice(tmp_path: Path) -> None:
    write(tmp_path, rows([0, 1]))
    write(tmp_path / "_dead_letters", rows([1, 2]))
    counted = count_lake(str(tmp_path), "clicks")
    assert (counted.spans[SPAN].runs, counted.spans[SPAN].again) == (((0, 3),), 0)


def test_a_dead_letter_that_is_there_twice_arrived_once_and_a_message_at_two_offsets_twice(tmp_path: Path) -> None:
    """The first is what a load leaves that was killed and run again, until it is settled."""
    sent_twice = rows([4, 4]).set_column(2, "offset", pa.array([4, 5], pa.int64()))
    for letters in (rows([1, 2]), rows([2, 3]), rows([2, 3]), sent_twice):
        write(tmp_path / "_dead_letters", of_life(letters, NEW))
    write(tmp_path, of_life(rows([0]), NEW))
    counted = count_lake(str(tmp_path), "clicks", life=NEW)
    assert (counted.spans[SPAN].runs, counted.spans[SPAN].again) == (((0, 5),), 1)
    write(tmp_path / "_dead_letters", of_life(rows([1]), OLD))  # Its offset means another record.
    assert count_lake(str(tmp_path), "clicks", life=NEW).spans[SPAN].again == 2


def test_the_ledger_tells_how_far_loads_have_come(tmp_path: Path) -> None:
    write(tmp_path, rows([50, 51]))
    write(tmp_path / "_ledger", ledger(0, 60, missing=50))
    write(tmp_path / "_ledger", ledger(60, 70))
    assert count_lake(str(tmp_path), "clicks").extents == {0: (50, 70)}


def test_the_ledger_tells_where_the_first_load_began(tmp_path: Path) -> None:
    write(tmp_path, rows([16, 17, 30]))
    write(tmp_path / "_ledger", ledger(30, 31, missing=1))  # Gone between two loads: the lake never had it.
    write(tmp_path / "_ledger", ledger(15, 30))
    assert count_lake(str(tmp_path), "clicks").extents == {0: (15, 31)}


def timed(table: pa.Table, times_ms: list[int | None]) -> pa.Table:
    return table.append_column(
        "timestamp", pa.array(times_ms, pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    )


def test_a_lake_tells_itself_since_when_it_had_messages(tmp_path: Path) -> None:
    """By its first row, and no later than its first load, whatever became of rows; not of what began with 0."""
    committed_at = pa.array([1_000_000], pa.timestamp("us", "UTC"))
    for partition, first in ((0, 15), (1, 40), (2, 0)):
        entry = ledger(first, first + 10).set_column(1, "partition", pa.array([partition], pa.int32()))
        write(tmp_path / "_ledger", entry.append_column("committed_at", committed_at))
    write(tmp_path, timed(rows([17, 15, 16]), [900, 700, 800]))
    write(tmp_path, timed(rows([14, 18]), [None, 1]))
    write(tmp_path, timed(rows([5], partition=2), [5]))
    assert count_lake(str(tmp_path), "clicks").began_ms == {0: 700, 1: 1_000}
    DeltaTable(str(tmp_path)).delete("partition = 0")
    assert count_lake(str(tmp_path), "clicks").began_ms == {0: 1_000, 1: 1_000}


def test_when_the_first_load_was_is_not_told_by_a_replay_of_the_same_range() -> None:
    told = {"partition": 0, "first": 15, "end": 25, "missing": 0, "rows": 10}
    loaded = told | {"version": 2, "kind": "load", "committed_at": datetime.fromtimestamp(1, UTC)}
    replayed = told | {"version": 5, "kind": "replay", "committed_at": datetime.fromtimestamp(9, UTC)}
    for entries in ([loaded, replayed], [replayed, loaded]):
        assert read_entries(entries, None).begun_ms == {0: 1_000}


def of_life(table: pa.Table, life: Life) -> pa.Table:
    for name, own in zip(Life._fields, life, strict=True):
        table = table.append_column(name, pa.repeat(own, table.num_rows))
    return table


OLD, NEW = Life("here", "old"), Life("here", "new")


def test_how_far_the_lake_is_in_the_log_is_told_by_this_life_of_the_topic(tmp_path: Path) -> None:
    write(tmp_path, of_life(rows([0, 1, 2, 90]), OLD))
    write(tmp_path / "_ledger", of_life(ledger(0, 100), OLD))
    # Nothing was loaded of the new one yet; what was sent to the old one has arrived all the same.
    counted = count_lake(str(tmp_path), "clicks", life=NEW)
    assert counted.extents == {}
    assert counted.spans[SPAN].runs == ((0, 3), (90, 91))
    write(tmp_path, of_life(rows([3, 4]), NEW))
    write(tmp_path / "_ledger", of_life(ledger(0, 5), NEW))
    counted = count_lake(str(tmp_path), "clicks", life=NEW)
    assert counted.extents == {0: (0, 5)}
    assert counted.spans[SPAN].runs == ((0, 5), (90, 91))
    assert count_lake(str(tmp_path), "clicks", life=OLD).extents == {0: (0, 100)}
    assert count_lake(str(tmp_path), "clicks", life=Life("there", "new")).extents == {}


def test_a_table_that_does_not_tell_lives_apart_counts_as_it_is(tmp_path: Path) -> None:
    write(tmp_path, rows([0, 1]))
    write(tmp_path / "_ledger", ledger(0, 4))
    assert count_lake(str(tmp_path), "clicks", life=NEW).extents == {0: (0, 4)}


def told(first: int, end: int, count: int, *, version: int, kind: str = "load") -> pa.Table:
    more = {"version": [version], "kind": [kind], "rows": [count]}
    table = ledger(first, end)
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    return of_life(table, NEW)


def test_rows_that_were_loaded_and_are_gone_are_counted(tmp_path: Path) -> None:
    write(tmp_path, of_life(rows([0, 1, 2, 3, 4, 5]), NEW))
    write(tmp_path, of_life(rows([7]), OLD))
    write(tmp_path / "_ledger", told(0, 4, 4, version=1))
    assert count_lake(str(tmp_path), "clicks", life=NEW).gone == 0
    DeltaTable(str(tmp_path)).delete("offset in (1, 2, 5)")  # Of the last one the ledger does not tell yet.
    assert count_lake(str(tmp_path), "clicks", life=NEW).gone == 2
    write(tmp_path / "_ledger", told(4, 6, 2, version=2))
    assert count_lake(str(tmp_path), "clicks", life=NEW).gone == 3


def test_a_load_that_brought_fewer_rows_than_offsets_has_lost_none(tmp_path: Path) -> None:
    write(tmp_path, of_life(rows([0, 3]), NEW))
    write(tmp_path / "_ledger", told(0, 9, 2, version=1))
    assert count_lake(str(tmp_path), "clicks", life=NEW).gone == 0


@pytest.mark.parametrize(("replayed", "gone"), [((0, 8, 5), 3), ((0, 4, 1), 3), ((2, 6, 1), 0)])
def test_what_a_replay_has_replaced_is_not_gone(tmp_path: Path, replayed: tuple[int, int, int], gone: int) -> None:
    """Of a commit that was replaced in part nobody knows how many of its rows are left to be there."""
    write(tmp_path, of_life(rows([0, 1]), NEW))
    write(tmp_path / "_ledger", told(0, 4, 4, version=1))
    write(tmp_path / "_ledger", told(4, 8, 4, version=2))
    write(tmp_path / "_ledger", told(*replayed, version=3, kind="replay"))
    assert count_lake(str(tmp_path), "clicks", life=NEW).gone == gone


def test_a_load_that_goes_on_meanwhile_was_not_yet_where_its_rows_are_not(tmp_path: Path) -> None:
    write(tmp_path, rows([0, 1]))
    write(tmp_path / "_ledger", ledger(0, 2))
    write(tmp_path / "_dead_letters", rows([9]))  # Committed, and the rows before it not yet.

    def count_while_a_load_commits(path: str, topic: str, loaded: LoadedTopic, counted: Counted) -> Counts:
        counts = Counts()
        for batch in rows([0, 1]).to_batches():
            count_batch(batch, loaded, counts, counted)
        write(tmp_path / "_ledger", ledger(2, 10))
        return counts

    counted = count_lake(str(tmp_path), "clicks", count_rows=count_while_a_load_commits)
    assert counted.extents == {0: (0, 2)}
    assert counted.spans[SPAN].runs == ((0, 2), (9, 10))


def test_a_directory_of_parquet_files_counts(tmp_path: Path) -> None:
    for hour, offsets in [(0, [0, 1]), (1, [2])]:
        directory = tmp_path / f"event_hour={hour}"
        directory.mkdir()
        pq.write_table(rows(offsets), directory / "part.parquet")
    assert count_lake(str(tmp_path), "clicks").spans[SPAN].runs == ((0, 3),)


def test_what_cannot_be_counted_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(NotAuditable, match="neither a Delta table nor a directory"):
        count_lake(str(tmp_path / "nothing"), "clicks")
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "other", rows([0]).drop_columns(["headers"]))
    with pytest.raises(NotAuditable, match="has no column 'headers'"):
        count_lake(str(tmp_path / "other"), "clicks")


def test_a_table_that_is_broken_is_told_of_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / "00000000000000000000.json").write_text("no JSON")
    with pytest.raises(NotAuditable, match=r"\A[^\n]*: Kernel error: Json error[^\n]*\Z"):
        count_lake(str(tmp_path), "clicks")
