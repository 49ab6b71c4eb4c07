"""Loads from a real broker into a real table: whole, once, and refused where they could not be."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.load import Load, TaskTrouble
from headrace.pipeline.location import parse_location
from headrace.pipeline.plan import LogDiverged, OffsetsExpired, TopicRecreated
from headrace.pipeline.tasks import Task, TaskFailed, TaskOutcome
from headrace.testing import Broker, BrokerPool
from headrace.wire.errors import Unavailable, UnknownTopic
from tests.pipeline.loading import (
    STRANGE_MS,
    check_ledger,
    create_clicks,
    load,
    records_of,
    request,
    rows_of,
    run_here,
    write_clicks,
)
from tests.pipeline.topics import cut, delete, grow


def test_the_table_is_the_topic(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 5_000)
    loaded = load(broker, lake)
    assert (loaded.rows, loaded.offsets, loaded.commits) == (5_000, 5_000, 1)
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_a_second_load_brings_what_is_new_and_a_third_nothing(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 500)
    load(broker, lake)
    write_clicks(broker, 300)
    assert load(broker, lake).rows == 300
    assert load(broker, lake).commits == 0
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_several_topics_are_one_commit(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    write_clicks(broker, 50, topic="views", partitions=1)
    assert load(broker, lake, "clicks", "views").commits == 1
    assert rows_of(lake) == records_of(broker, "clicks", "views")


def test_a_backlog_is_committed_in_steps_that_stay(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 1_000)
    tried = 0

    def run_thrice(tasks: Any, tell: Any) -> list[TaskOutcome]:
        nonlocal tried
        tried += 1
        if tried > 3:
            raise RuntimeError("killed")
        return run_here(tasks, tell)

    with pytest.raises(RuntimeError, match="killed"):
        load(broker, lake, run=run_thrice, offsets_per_commit=100)
    assert 250 < sum(rows_of(lake).values()) <= 300
    assert load(broker, lake, offsets_per_commit=400).commits == 2
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_a_broker_that_restarts_while_tasks_run_is_waited_for(lake: Path) -> None:
    failed = 0
    with Broker() as broker:
        write_clicks(broker, 300)

        def with_a_restart(tasks: Any, tell: Any) -> list[TaskOutcome]:
            nonlocal failed
            if failed:
                return run_here(tasks, tell)
            broker.kill()
            outcomes = run_here(tasks, tell)
            broker.start()
            failed = sum(isinstance(outcome, TaskFailed) for outcome in outcomes)
            return outcomes

        assert load(broker, lake, run=with_a_restart).rows == 300
        assert failed == 3
        assert rows_of(lake) == records_of(broker)
        check_ledger(lake)


def test_a_broker_that_only_the_driver_can_reach_is_no_matter_of_time(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 10)
    tried = 0

    def fail(tasks: Any, tell: Any) -> list[TaskOutcome]:
        nonlocal tried
        tried += 1
        return [TaskFailed(task.range, "cannot reach it", True) for task in tasks]

    with pytest.raises(Unavailable, match=r"clicks-0 from offset 0 to .*: cannot reach it"):
        load(broker, lake, run=fail)
    assert tried == 3
    assert not rows_of(lake)


def test_an_empty_topic_is_remembered_with_all_its_partitions(broker: Broker, lake: Path) -> None:
    broker.create_topic("clicks", 2)
    loaded = load(broker, lake)
    assert (loaded.commits, loaded.rows) == (1, 0)
    write_clicks(broker, 20)
    assert load(broker, lake).rows == 20


def test_files_are_by_event_date_and_hour_and_say_what_is_in_them(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 1_000)
    load(broker, lake)
    table = DeltaTable(lake)
    hours = {(one["event_date"], one["event_hour"]) for one in table.partitions()}
    assert hours == {("2025-11-15", "12"), ("2025-11-15", "13")}
    rows = table.to_pyarrow_table(
        columns=["timestamp", "event_date", "event_hour", "cluster_id", "topic_id"]
    ).to_pylist()
    assert all(row["timestamp"].date() == row["event_date"] for row in rows)
    assert all(row["timestamp"].hour == row["event_hour"] for row in rows)
    assert len({(row["cluster_id"], row["topic_id"]) for row in rows}) == 1
    assert table.file_uris(file_pruning_predicate="offset > 100000") == []


def test_where_a_load_goes_on_is_no_matter_of_rows(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    load(broker, lake)
    DeltaTable(lake).delete("true")  # A user cleans up.
    write_clicks(broker, 10)
    assert load(broker, lake).rows == 10


def test_an_open_end_is_not_read(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)

    def write_more(tasks: Any, tell: Any) -> list[TaskOutcome]:
        write_clicks(broker, 50)
        return run_here(tasks, tell)

    assert load(broker, lake, run=write_more).rows == 100
    assert load(broker, lake).rows == 50
    assert rows_of(lake) == records_of(broker)


# --- Dead letters -----------------------------------------------------------------------------------------------


def dead_letters(lake: Path) -> Counter[tuple[int, str]]:
    rows = DeltaTable(lake / "_dead_letters").to_pyarrow_table().to_pylist()
    return Counter((row["offset"], row["reason"]) for row in rows)


def test_a_record_that_no_row_can_hold_is_a_dead_letter_and_the_load_goes_on(broker: Broker, lake: Path) -> None:
    create_clicks(broker)
    for time_ms in (1_763_208_000_000, STRANGE_MS, 1_763_208_000_001):
        broker.produce("clicks", "v", timestamp_ms=time_ms)
    loaded = load(broker, lake)
    assert (loaded.rows, loaded.dead_letters, loaded.offsets) == (2, 1, 3)
    assert dead_letters(lake) == {(1, f"timestamp {STRANGE_MS} ms is not in the years 1 to 9999"): 1}
    assert read_ledger(parse_location(lake))["dead_letters"].to_pylist() == [1]


# --- What is refused --------------------------------------------------------------------------------------------


def test_a_topic_made_anew_is_refused_and_then_taken_in_on_demand(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    load(broker, lake)
    old = rows_of(lake)
    delete(broker.bootstrap, "clicks")
    write_clicks(broker, 150)
    with pytest.raises(TopicRecreated, match="deleted and made anew"):
        load(broker, lake)
    assert rows_of(lake) == old
    assert load(broker, lake, accepts_new_topic=True).rows == 150
    assert rows_of(lake) == old + records_of(broker)
    write_clicks(broker, 10)
    assert load(broker, lake).rows == 10


def test_another_cluster_with_a_topic_of_that_name_is_refused(
    broker: Broker, lake: Path, headrace_pool: BrokerPool
) -> None:
    write_clicks(broker, 10)
    load(broker, lake)
    with headrace_pool.broker() as other:
        write_clicks(other, 50)
        with pytest.raises(TopicRecreated, match="or is on another cluster"):
            load(other, lake)


def test_a_topic_made_anew_while_it_is_loaded_is_not_committed(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)

    def run(tasks: Any, tell: Any) -> list[TaskOutcome]:
        outcomes = run_here(tasks, tell)
        delete(broker.bootstrap, "clicks")
        write_clicks(broker, 100)
        return outcomes

    with pytest.raises(TopicRecreated, match="while it was loaded"):
        load(broker, lake, run=run)
    assert not rows_of(lake)


def test_a_partition_that_was_added_is_loaded_from_its_beginning(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100, partitions=1)
    load(broker, lake)
    grow(broker.bootstrap, "clicks", 3)
    for partition in range(3):
        broker.produce("clicks", f"new {partition}", partition=partition, timestamp_ms=1_763_208_000_000)
    assert load(broker, lake).rows == 3
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_records_deleted_before_they_were_loaded_are_an_error_or_told_of(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100, partitions=1)
    load(broker, lake)
    write_clicks(broker, 40, partitions=1)
    cut(broker.bootstrap, "clicks", 125)
    with pytest.raises(OffsetsExpired, match="clicks-0 begins at offset 125, and the table ends at 100: 25 offsets"):
        load(broker, lake)
    assert sum(rows_of(lake).values()) == 100
    loaded = load(broker, lake, skips_missing=True)
    assert (loaded.rows, loaded.missing, loaded.offsets) == (15, 25, 40)
    assert read_ledger(parse_location(lake))["missing"].to_pylist() == [0, 25]


def test_a_log_that_lost_records_and_has_others_in_their_place_is_refused(broker: Broker, lake: Path) -> None:
    """As after a power cut: the log is shorter, its leader epoch higher, and the same offsets are given out again."""
    write_clicks(broker, 50, partitions=1)
    with broker.snapshot() as before:
        write_clicks(broker, 50, partitions=1)
        load(broker, lake)
        broker.restore(before)
    for _ in range(200):
        broker.produce("clicks", "another", timestamp_ms=1_763_208_000_000)
    assert broker.log("clicks").leader_epoch > 0
    with pytest.raises(LogDiverged, match="the cluster lost those records from offset 50 on"):
        load(broker, lake)
    assert sum(rows_of(lake).values()) == 100


def test_a_topic_that_is_not_there_makes_no_table(broker: Broker, lake: Path) -> None:
    with pytest.raises(UnknownTopic, match="no topic 'clicks'"):
        load(broker, lake)
    assert not lake.exists()


def test_what_a_task_could_not_read_is_told_in_one_sentence_and_nothing_is_committed(
    broker: Broker, lake: Path
) -> None:
    write_clicks(broker, 100, partitions=1)

    def run(tasks: Any, tell: Any) -> list[TaskOutcome]:
        cut(broker.bootstrap, "clicks", 50)
        return run_here(tasks, tell)

    with pytest.raises(TaskTrouble, match=r"offset 0 to 100: .* begins at offset 50: 0 and what follows was deleted$"):
        load(broker, lake, run=run)
    assert not rows_of(lake)


def test_what_expires_while_tasks_run_is_passed_over_where_that_is_wanted(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 20, partitions=1)
    load(broker, lake)
    write_clicks(broker, 80, partitions=1)
    cuts = [50, 70]

    def run(tasks: Any, tell: Any) -> list[TaskOutcome]:
        if cuts:
            cut(broker.bootstrap, "clicks", cuts.pop(0))
        return run_here(tasks, tell)

    loaded = load(broker, lake, run=run, skips_missing=True)
    assert (loaded.rows, loaded.missing, loaded.offsets) == (30, 50, 80)
    assert read_ledger(parse_location(lake))["missing"].to_pylist() == [0, 50]
    assert load(broker, lake).commits == 0


@pytest.mark.parametrize("told", [[], [0, 0], [0, 1, 1]])
def test_tasks_that_are_not_told_of_each_once_are_not_committed(broker: Broker, lake: Path, told: list[int]) -> None:
    write_clicks(broker, 100, partitions=2)

    def run(tasks: Any, tell: Any) -> list[TaskOutcome]:
        outcomes = run_here(tasks, tell)
        return [outcomes[index] for index in told]

    with pytest.raises(TaskTrouble, match="2 tasks were to be done, and these are told of: "):
        load(broker, lake, run=run)
    assert not rows_of(lake)


# --- Two at once ------------------------------------------------------------------------------------------------


def test_of_two_loaders_at_once_one_loads_and_the_other_says_why_not(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    load(broker, lake)
    write_clicks(broker, 100)
    with Load(request(broker.bootstrap, lake), run=run_here) as rival:

        def overtaken(tasks: Any, tell: Any) -> list[TaskOutcome]:
            assert rival.once().rows == 100
            return run_here(tasks, tell)

        with pytest.raises(Exception, match="another load of topic 'clicks' was first"):
            load(broker, lake, run=overtaken)
    assert rows_of(lake) == records_of(broker)
    check_ledger(lake)


def test_of_two_loaders_that_both_make_the_table_one_loads(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 100)
    with Load(request(broker.bootstrap, lake), run=run_here) as rival:

        def overtaken(tasks: Any, tell: Any) -> list[TaskOutcome]:
            rival.once()
            return run_here(tasks, tell)

        with pytest.raises(Exception, match="was first"):
            load(broker, lake, run=overtaken)
    assert rows_of(lake) == records_of(broker)


def test_tasks_that_run_twice_leave_files_that_nobody_sees(broker: Broker, lake: Path) -> None:
    write_clicks(broker, 1_000)

    def run(tasks: list[Task], tell: Any) -> list[TaskOutcome]:
        run_here(tasks, tell)
        return run_here(tasks, tell)

    load(broker, lake, run=run)
    assert rows_of(lake) == records_of(broker)
    assert len(list(lake.glob("event_date=*/**/*.parquet"))) == 2 * len(DeltaTable(lake).file_uris())
