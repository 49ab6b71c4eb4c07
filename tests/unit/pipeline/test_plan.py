"""Where a load begins and ends, and what it refuses, without a cluster or a table."""

import pytest

from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.origins import Origin
from headrace.pipeline.plan import (
    Found,
    Held,
    HeldTopic,
    LogDiverged,
    OffsetsExpired,
    TopicPlan,
    TopicRecreated,
    limit_plans,
    plan_topic,
)
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.metadata import NO_EPOCH

CLICKS = Origin("cluster", TopicName("clicks"), "id-1")


def ranges(held: HeldTopic, found: dict[int, Found], **how: bool) -> list[tuple[int, int, int]]:
    """Of each partition where the table ends, where reading begins, and where it ends."""
    return [(one.first, one.begin, one.end) for one in plan_topic(CLICKS, held, found, **how).partitions]


def test_a_topic_that_the_table_does_not_know_is_read_from_where_its_log_begins() -> None:
    assert ranges(HeldTopic(), {0: Found(0, 10, 0), 1: Found(40, 50, 0)}) == [(0, 0, 10), (40, 40, 50)]


def test_a_load_begins_where_the_table_ends() -> None:
    held = HeldTopic(loads=3, partitions={0: Held(7, 2), 1: Held(50, 2)})
    found = {0: Found(0, 10, 2, 10), 1: Found(0, 50, 2, 50)}
    plan = plan_topic(CLICKS, held, found)
    assert [one.range for one in plan.changes] == [OffsetRange(TopicPartition(CLICKS.topic, 0), 7, 10)]


def test_the_table_is_told_the_end_of_the_range_whatever_rows_there_are() -> None:
    plan = plan_topic(CLICKS, HeldTopic(loads=1, partitions={0: Held(7, 2)}), {0: Found(0, 10, 4, 8)})
    assert plan.transactions("me") == {
        "me:clicks": 2,
        "me:clicks:cluster:id-1": 1,
        "me:clicks:cluster:id-1:0": 10,
        "me:clicks:cluster:id-1:0:epoch": 4,
    }


def test_the_first_load_records_where_every_partition_is_also_the_empty_ones() -> None:
    plan = plan_topic(CLICKS, HeldTopic(), {0: Found(0, 0, 0), 1: Found(5, 5, -1)})
    assert plan.transactions("me") == {
        "me:clicks": 1,
        "me:clicks:cluster:id-1": 2,
        "me:clicks:cluster:id-1:0": 0,
        "me:clicks:cluster:id-1:0:epoch": 0,
        "me:clicks:cluster:id-1:1": 5,
    }


def test_nothing_new_is_no_change() -> None:
    plan = plan_topic(CLICKS, HeldTopic(loads=1, partitions={0: Held(10, 0)}), {0: Found(0, 10, 0, 10)})
    assert plan.changes == ()


def test_a_partition_that_was_added_is_read_from_its_very_beginning() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10, 0)})
    assert ranges(held, {0: Found(5, 10, 0, 10), 1: Found(0, 3, 0)}) == [(10, 10, 10), (0, 0, 3)]


def test_what_an_added_partition_lost_before_it_was_seen_is_missing() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10, 0)})
    with pytest.raises(OffsetsExpired, match="clicks-1 begins at offset 2, and the table ends at 0"):
        plan_topic(CLICKS, held, {0: Found(0, 10, 0, 10), 1: Found(2, 3, 0)})


def test_a_broker_that_lags_and_tells_of_fewer_partitions_does_not_make_the_table_forget_any() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10, 0), 1: Held(10, 0)})
    plan = plan_topic(CLICKS, held, {0: Found(0, 12, 0, 12)})
    assert plan.transactions("me")["me:clicks:cluster:id-1"] == 2


def test_a_topic_made_anew_is_refused_even_when_its_log_is_longer_than_the_old_one() -> None:
    with pytest.raises(TopicRecreated, match=r"another topic 'clicks': this one has the id id-1 .* --accept-new-topic"):
        plan_topic(CLICKS, HeldTopic(loads=4), {0: Found(0, 1_000, 0)})


def test_a_topic_made_anew_is_read_from_its_beginning_where_that_is_wanted() -> None:
    assert ranges(HeldTopic(loads=4), {0: Found(0, 9, 0)}, accepts_new_topic=True) == [(0, 0, 9)]


def test_records_that_were_deleted_before_they_were_loaded_are_not_passed_over_in_silence() -> None:
    held, found = HeldTopic(loads=1, partitions={0: Held(10, 0)}), {0: Found(25, 30, 0, 30)}
    with pytest.raises(OffsetsExpired, match=r"begins at offset 25, and the table ends at 10: 15 offsets were deleted"):
        plan_topic(CLICKS, held, found)
    assert ranges(held, found, skips_missing=True) == [(10, 25, 30)]


def test_everything_may_have_been_deleted() -> None:
    held, found = HeldTopic(loads=1, partitions={0: Held(10, 0)}), {0: Found(30, 30, 0, 30)}
    plan = plan_topic(CLICKS, held, found, skips_missing=True)
    assert plan.transactions("me")["me:clicks:cluster:id-1:0"] == 30


@pytest.mark.parametrize(("epoch_end", "where"), [(8, "from offset 8 on"), (-1, "from an offset that it cannot tell")])
def test_a_log_that_was_cut_behind_what_was_loaded_is_refused(epoch_end: int, where: str) -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10, 3)})
    with pytest.raises(LogDiverged, match=where):
        plan_topic(CLICKS, held, {0: Found(0, 500, 4, epoch_end)})


def test_a_log_that_ends_before_the_table_is_refused_where_epochs_are_not_known() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10)})
    with pytest.raises(LogDiverged, match="clicks-0 ends at offset 9, but the table holds all before 10"):
        plan_topic(CLICKS, held, {0: Found(0, 9, -1)})


def test_a_new_leader_that_does_not_know_yet_how_far_it_may_show_has_nothing_new() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(10, 3)})
    assert ranges(held, {0: Found(0, 9, 4, 10)}) == [(10, 10, 10)]


def test_a_log_may_expire_between_two_questions_about_it() -> None:
    assert ranges(HeldTopic(), {0: Found(12, 10, 0)}) == [(12, 12, 12)]


def test_a_backlog_is_cut_and_every_partition_gets_on() -> None:
    held = HeldTopic(loads=1, partitions={0: Held(0, 0), 1: Held(0, 0), 2: Held(4, 0)})
    plan = plan_topic(CLICKS, held, {0: Found(0, 900, 0, 900), 1: Found(0, 100, 0, 100), 2: Found(0, 4, 0, 4)})
    (cut,) = limit_plans([plan], 100)
    assert [one.end for one in cut.partitions] == [90, 10, 4]
    assert limit_plans([plan], None) == [plan]


def test_what_is_held_after_a_load_is_what_it_tells_the_table() -> None:
    held = HeldTopic(loads=3, partitions={0: Held(10, 2), 1: Held(10, 2)})
    plan = plan_topic(CLICKS, held, {0: Found(0, 12, 4, 12), 1: Found(0, 10, 4, 10), 2: Found(0, 0, NO_EPOCH)})
    assert plan.held_after(held) == HeldTopic(
        loads=4, partitions={0: Held(12, 4), 1: Held(10, 2), 2: Held(0, NO_EPOCH)}
    )
    # The epoch that is known stays where a broker tells of none; a replay may bring another, and no offset.
    blind = plan_topic(CLICKS, held, {0: Found(0, 12, NO_EPOCH, 12)})
    assert blind.held_after(held).partitions[0] == Held(12, 2)
    replayed = TopicPlan(origin=CLICKS, loads=3, partitions=(), partition_count=2, epochs={1: 7})
    assert replayed.held_after(held) == HeldTopic(loads=4, partitions={0: Held(10, 2), 1: Held(10, 7)})
