"""Which ranges may be loaded once more, and which files they concern."""

import pytest

from headrace.errors import ConfigError
from headrace.ids import TopicName
from headrace.pipeline.delta import LiveFile
from headrace.pipeline.origins import Origin
from headrace.pipeline.plan import Found, Held, HeldTopic
from headrace.pipeline.replacing import NotLoaded, may_hold, parse_replay, plan_replay
from headrace.pipeline.splitting import OffsetRange

CLICKS = Origin("cluster", TopicName("clicks"), "id-1")
HELD = HeldTopic(loads=4, partitions={0: Held(100, 2), 1: Held(50, 2)})


def range_of(first: int, end: int, partition: int = 0) -> OffsetRange:
    return OffsetRange(CLICKS.place(partition), first, end)


def test_a_range_is_told_with_its_topic_or_without_where_there_is_one() -> None:
    assert parse_replay("clicks/0:5-10", ["views", "clicks"]) == range_of(5, 10)
    assert parse_replay("1:5-10", ["clicks"]) == range_of(5, 10, 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0:5", "is not TOPIC/PARTITION:FIRST-END"),
        ("clicks/0:9-9", "the end is not behind the first offset"),
        ("0:1-2", "of which topic"),
        ("orders/0:1-2", "of which topic"),
    ],
)
def test_what_is_no_range_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_replay(text, ["clicks", "views"])


def test_a_replay_changes_no_offset_and_no_load_of_the_topic_gets_past_it() -> None:
    plan = plan_replay(CLICKS, HELD, {0: Found(0, 500, 2, 500)}, [range_of(10, 20)])
    assert plan.transactions("me") == {"me:clicks": 5, "me:clicks:cluster:id-1": 2}


def test_what_was_not_loaded_cannot_be_replaced() -> None:
    with pytest.raises(NotLoaded, match="holds what is before offset 100 of clicks-0: 90-101 cannot be replaced"):
        plan_replay(CLICKS, HELD, {0: Found(0, 500, 2, 500)}, [range_of(90, 101)])
    with pytest.raises(NotLoaded, match="holds nothing of clicks-7"):
        plan_replay(CLICKS, HELD, {7: Found(0, 500, 2)}, [range_of(0, 1, 7)])


def test_a_partition_is_replaced_by_one_range_at_a_time() -> None:
    with pytest.raises(ConfigError, match="names partition 0 of clicks twice"):
        plan_replay(CLICKS, HELD, {0: Found(0, 500, 2, 500)}, [range_of(0, 5), range_of(7, 9)])


@pytest.mark.parametrize(
    ("replayed", "is_mended"), [((80, 100), True), ((0, 100), True), ((81, 100), False), ((80, 99), False)]
)
def test_a_log_that_diverged_is_mended_once_all_that_it_lost_is_replaced(
    replayed: tuple[int, int], is_mended: bool
) -> None:
    plan = plan_replay(CLICKS, HELD, {0: Found(0, 500, 3, 80)}, [range_of(*replayed)])
    assert dict(plan.epochs) == ({0: 3} if is_mended else {})
    assert ("me:clicks:cluster:id-1:0:epoch" in plan.transactions("me")) == is_mended


@pytest.mark.parametrize(
    ("bounds", "concerned"),
    [
        ({"topic": ("clicks", "clicks"), "partition": (0, 0), "offset": (0, 10)}, True),
        ({"topic": ("clicks", "clicks"), "partition": (0, 0), "offset": (20, 30)}, False),
        ({"topic": ("clicks", "clicks"), "partition": (0, 0), "offset": (0, 9)}, False),
        ({"topic": ("a", "z"), "partition": (0, 5), "offset": (0, 100)}, True),
        ({"topic": ("orders", "orders"), "partition": (0, 0), "offset": (0, 100)}, False),
        ({"topic": ("clicks", "clicks"), "partition": (1, 3), "offset": (0, 100)}, False),
        ({"topic": ("clicks", "clicks"), "offset": (None, None)}, True),
        ({}, True),
    ],
)
def test_only_files_that_may_hold_rows_of_a_range_are_opened(
    bounds: dict[str, tuple[int, int]], concerned: bool
) -> None:
    assert may_hold(LiveFile("x", 1, {}, bounds), range_of(10, 20)) == concerned
