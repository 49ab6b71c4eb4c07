"""The table that a load writes: what it lets in, and that of two loads of one topic only one gets through."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.transaction import AddAction

from headrace.ids import TopicName
from headrace.pipeline.columns import RAW, table_schema
from headrace.pipeline.files import by_hour, write_file
from headrace.pipeline.footers import check_files
from headrace.pipeline.lake_table import LakeTable, LostRace, NotALake, OtherLoader, SchemaRefused
from headrace.pipeline.ledger import Entry, read_ledger, rows_of
from headrace.pipeline.location import Location, parse_location
from headrace.pipeline.origins import Origin
from headrace.pipeline.plan import Found, Held, HeldTopic, TopicPlan, plan_topic

CLICKS = Origin("cluster", TopicName("clicks"), "id-1")
VIEWS = Origin("cluster", TopicName("views"), "id-2")


@pytest.fixture
def lake(tmp_path: Path) -> Location:
    return parse_location(tmp_path / "lake")


def create(lake: Location) -> LakeTable:
    return LakeTable.create(lake, loader="me", kind="raw", rows=RAW)


def reopen(lake: Location, *, loader: str = "me", kind: str = "raw") -> LakeTable | None:
    return LakeTable.open(lake, loader=loader, kind=kind, rows=RAW)


def plan(table: LakeTable, end: int, origin: Origin = CLICKS) -> TopicPlan:
    held = table.held(origin)
    epoch_end = end if held.partitions else None
    return plan_topic(origin, held, {0: Found(0, end, 1, epoch_end)})


def commit(table: LakeTable, planned: TopicPlan) -> None:
    (one,) = planned.partitions
    count = one.end - one.begin
    rows = pa.table(
        {
            **{field.name: pa.nulls(count, field.type) for field in RAW},
            "topic": pa.repeat(str(planned.origin.topic), count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(one.begin, one.end), pa.int64()),
        },
        schema=RAW,
    )
    table.commit([planned], actions(table, rows), [entry(planned, rows=count)])


def actions(table: LakeTable, rows: pa.Table) -> list[AddAction]:
    files = table.location.files()
    return check_files(files, [write_file(files, part, dict(values)) for values, part in by_hour(rows)], RAW)


def entry(planned: TopicPlan, *, rows: int) -> Entry:
    origin, (one,) = planned.origin, planned.partitions
    return Entry(
        cluster_id=origin.cluster_id,
        topic=origin.topic,
        topic_id=origin.topic_id,
        partition=0,
        first=one.first,
        end=one.end,
        rows=rows,
    )


def offsets(lake: Location) -> list[int]:
    found: list[int] = DeltaTable(lake.uri).to_pyarrow_table()["offset"].to_pylist()
    return sorted(found)


def test_what_was_committed_is_held_also_by_whoever_opens_the_table_next(lake: Location) -> None:
    table = create(lake)
    assert table.held(CLICKS) == HeldTopic()
    commit(table, plan(table, 10))
    again = reopen(lake)
    assert again is not None
    for one in (table, again):
        assert one.held(CLICKS) == HeldTopic(loads=1, partitions={0: Held(10, 1)})
    assert offsets(lake) == list(range(10))


def wide_plan(table: LakeTable, end: int, partitions: int) -> TopicPlan:
    found = {number: Found(0, end + number, 1 + number % 3, end + number) for number in range(partitions)}
    return plan_topic(CLICKS, table.held(CLICKS), found)


def test_after_a_commit_of_its_own_a_load_looks_nothing_up_again(
    lake: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, other = create(lake), reopen(lake)
    assert other is not None
    looked_up: list[str] = []
    look_up = table.table.transaction

    def noted(name: str, otherwise: int) -> int:
        looked_up.append(name)
        return look_up(name, otherwise)

    monkeypatch.setattr(table.table, "transaction", noted)
    for end, partitions in ((10, 40), (20, 40), (20, 50), (30, 50)):  # Partitions are added, too.
        looked_up.clear()
        table.refresh()
        planned = wide_plan(table, end, partitions)
        table.commit([planned], [], [])
        other.refresh()
        assert table.held(CLICKS) == other.held(CLICKS)
        # How many loads there were, each time that it is asked; the first time also how many partitions.
        assert set(looked_up) <= {"me:clicks", "me:clicks:cluster:id-1"}

    # Somebody else's commit shows, and is looked up.
    planned = wide_plan(other, 40, 50)
    other.commit([planned], [], [])
    table.refresh()
    looked_up.clear()
    assert table.held(CLICKS) == other.held(CLICKS)
    assert len(looked_up) == 2 + 2 * 50


def test_offsets_survive_checkpoints_and_the_cleaning_of_the_log(lake: Location) -> None:
    table = create(lake)
    commit(table, plan(table, 10))
    delta = DeltaTable(lake.uri)
    delta.create_checkpoint()
    (Path(lake.uri) / "_delta_log" / f"{0:020}.json").unlink()
    (Path(lake.uri) / "_delta_log" / f"{1:020}.json").unlink()
    again = reopen(lake)
    assert again is not None
    assert again.held(CLICKS) == HeldTopic(loads=1, partitions={0: Held(10, 1)})


def test_a_commit_without_files_keeps_the_offsets(lake: Location) -> None:
    table = create(lake)
    planned = plan(table, 10)
    table.commit([planned], [], [entry(planned, rows=0)])
    assert table.held(CLICKS).partitions == {0: Held(10, 1)}


def test_of_two_loads_planned_on_the_same_state_the_second_is_refused_and_adds_nothing(lake: Location) -> None:
    table, other = create(lake), reopen(lake)
    assert other is not None
    first, second = plan(table, 10), plan(other, 12)
    commit(table, first)
    with pytest.raises(LostRace, match=r"another load of topic 'clicks' was first \(clicks-0 up to offset 10\)"):
        commit(other, second)
    assert offsets(lake) == list(range(10))


def test_a_plan_that_is_older_than_the_handle_is_refused(lake: Location) -> None:
    table, other = create(lake), reopen(lake)
    assert other is not None
    stale = plan(other, 12)
    commit(table, plan(table, 10))
    other.refresh()
    with pytest.raises(LostRace, match="another load of topic 'clicks' was first"):
        commit(other, stale)
    assert offsets(lake) == list(range(10))


def test_loads_of_two_topics_do_not_disturb_each_other(lake: Location) -> None:
    table, other = create(lake), reopen(lake)
    assert other is not None
    clicks, views = plan(table, 3), plan(other, 5, VIEWS)
    commit(table, clicks)
    commit(other, views)
    assert offsets(lake) == sorted([*range(3), *range(5)])


def test_a_column_that_was_added_meanwhile_does_not_lose_the_files(lake: Location) -> None:
    table = create(lake)
    planned = plan(table, 10)
    added = pa.table({"offset": pa.array([], pa.int64()), "note": pa.array([], pa.string())})
    write_deltalake(lake.uri, added, mode="append", schema_mode="merge")
    commit(table, planned)
    assert offsets(lake) == list(range(10))


def test_a_table_grows_once_there_is_something_to_load(lake: Location) -> None:
    create(lake)
    wider = RAW.append(pa.field("note", pa.string()))
    table, other = (LakeTable.open(lake, loader="me", kind="raw", rows=wider) for _ in range(2))
    assert table is not None
    assert other is not None
    table.refresh()
    assert (table.table.version, "note" in table.table.schema.names) == (0, False)
    table.grow()
    table.grow()
    assert (table.table.version, "note" in table.table.schema.names) == (1, True)
    other.refresh()
    other.grow()  # Somebody else did it.
    assert other.table.version == 1


def test_a_plan_made_before_a_table_grew_on_top_of_another_load_is_refused(lake: Location) -> None:
    table = create(lake)
    other = LakeTable.open(lake, loader="me", kind="raw", rows=RAW.append(pa.field("note", pa.string())))
    assert other is not None
    stale = plan(other, 12)
    commit(table, plan(table, 10))
    other.grow()
    with pytest.raises(LostRace, match="another load of topic 'clicks' was first"):
        commit(other, stale)
    assert offsets(lake) == list(range(10))


def test_a_column_that_became_something_else_meanwhile_is_refused(lake: Location) -> None:
    table = create(lake)
    planned = plan(table, 10)
    fields = [pa.field("offset", pa.string()) if one.name == "offset" else one for one in table_schema(RAW)]
    write_deltalake(lake.uri, pa.schema(fields).empty_table(), mode="overwrite", schema_mode="overwrite")
    with pytest.raises(SchemaRefused, match="column offset is string, and would be int64"):
        commit(table, planned)


def test_a_column_that_must_not_be_null_is_not_added_to_rows_that_have_none(lake: Location) -> None:
    create(lake)
    with pytest.raises(SchemaRefused, match="column size would be new and must not be null, as in older rows"):
        LakeTable.open(lake, loader="me", kind="raw", rows=RAW.append(pa.field("size", pa.int64(), nullable=False)))


def test_a_column_that_must_not_be_null_stays_one(lake: Location) -> None:
    strict = RAW.append(pa.field("size", pa.int64(), nullable=False))
    LakeTable.create(lake, loader="me", kind="raw", rows=strict)
    assert LakeTable.open(lake, loader="me", kind="raw", rows=strict) is not None
    with pytest.raises(SchemaRefused, match="column size must not be null, and would be one that may be"):
        LakeTable.open(lake, loader="me", kind="raw", rows=RAW.append(pa.field("size", pa.int64())))


def test_a_table_belongs_to_one_loader(lake: Location) -> None:
    create(lake)
    with pytest.raises(OtherLoader, match="belongs to the loader 'me': 'you' would load everything a second time"):
        reopen(lake, loader="you")


def test_a_table_has_one_format(lake: Location) -> None:
    create(lake)
    with pytest.raises(SchemaRefused, match="was made with --format raw, not json"):
        reopen(lake, kind="json")


def test_a_delta_table_of_somebody_else_is_left_alone(lake: Location) -> None:
    write_deltalake(lake.uri, pa.table({"x": [1]}))
    with pytest.raises(NotALake, match="was not made by a load"):
        reopen(lake)


def test_a_directory_with_other_files_is_left_alone(lake: Location) -> None:
    assert reopen(lake) is None
    Path(lake.uri).mkdir()
    assert reopen(lake) is None
    (Path(lake.uri) / "_delta_log").mkdir()  # Of a load that was killed while it made the table.
    assert reopen(lake) is None
    (Path(lake.uri) / "holiday.jpg").write_bytes(b"")
    with pytest.raises(NotALake, match=r"is no Delta table, and there are other files in it \(holiday.jpg\)"):
        reopen(lake)
    assert sorted(path.name for path in Path(lake.uri).iterdir()) == ["_delta_log", "holiday.jpg"]


def test_a_file_is_no_lake(lake: Location) -> None:
    Path(lake.uri).write_bytes(b"")
    with pytest.raises(NotALake, match="is a file"):
        reopen(lake)


def test_the_ledger_tells_of_every_commit_once(lake: Location) -> None:
    table = create(lake)
    for end in (3, 5, 9):
        commit(table, plan(table, end))
    told = read_ledger(lake)
    assert told.select(["version", "kind", "topic", "first", "end", "rows"]).to_pylist() == [
        {"version": 1, "kind": "load", "topic": "clicks", "first": 0, "end": 3, "rows": 3},
        {"version": 2, "kind": "load", "topic": "clicks", "first": 3, "end": 5, "rows": 2},
        {"version": 3, "kind": "load", "topic": "clicks", "first": 5, "end": 9, "rows": 4},
    ]
    copied = DeltaTable(lake.child("_ledger").uri).to_pyarrow_table()
    assert sorted(copied["end"].to_pylist()) == [3, 5, 9]


def test_a_commit_whose_ledger_was_not_copied_is_told_of_and_copied_by_the_next(
    lake: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = create(lake)
    with monkeypatch.context() as killed:
        killed.setattr(LakeTable, "_copy_ledger", lambda self: None)
        commit(table, plan(table, 3))
    assert read_ledger(lake)["end"].to_pylist() == [3]
    assert DeltaTable(lake.child("_ledger").uri).to_pyarrow_table().num_rows == 0
    commit(table, plan(table, 5))
    assert sorted(DeltaTable(lake.child("_ledger").uri).to_pyarrow_table()["end"].to_pylist()) == [3, 5]
    assert sorted(read_ledger(lake)["end"].to_pylist()) == [3, 5]


def test_the_ledger_is_exact_for_whoever_reads_it_beside_a_commit(lake: Location) -> None:
    table, other = create(lake), reopen(lake)
    assert other is not None
    commit(table, plan(table, 3))
    other.refresh()
    commit(table, plan(table, 5))  # Which the other does not know of yet.
    assert [(each.version, rows[0]["end"]) for each in other.table.commits_after(-1) if (rows := rows_of(each))] == [
        (1, 3)
    ]


def test_users_may_delete_rows_and_the_ledger_stays(lake: Location) -> None:
    table = create(lake)
    commit(table, plan(table, 10))
    DeltaTable(lake.uri).delete("offset < 5")
    table.refresh()
    commit(table, plan(table, 12))
    assert offsets(lake) == [*range(5, 12)]
    assert sum(read_ledger(lake)["rows"].to_pylist()) == 12
