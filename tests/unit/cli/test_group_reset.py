"""Where offsets go."""

import pytest
import typer

from headrace.cli.group_facts import LogBounds
from headrace.cli.group_reset import (
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
    TopicScope,
    ToTime,
    new_offset,
    parse_scope,
)
from headrace.cli.groups import parse_states, parse_time
from headrace.cli.output import CommandError
from headrace.ids import TopicName, TopicPartition

PLACE = TopicPartition(TopicName("t"), 3)
LOG = LogBounds(earliest=10, end=50)


@pytest.mark.parametrize(
    ("target", "new"),
    [
        (ToOffset(20), 20),
        (ToOffset(9), 10),
        (ToOffset(10), 10),
        (ToOffset(50), 50),
        (ToOffset(51), 50),
        (ToEarliest(), 10),
        (ToLatest(), 50),
        (ToCurrent(), 30),
        (ShiftBy(5), 35),
        (ShiftBy(-25), 10),
        (ShiftBy(25), 50),
        (ToTime(1_000), 40),
    ],
)
def test_an_offset_outside_the_log_moves_to_its_nearest_end(target: Target, new: int) -> None:
    assert new_offset(target, PLACE, committed=30, bounds=LOG, at_time=40) == new


def test_a_time_after_the_last_message_is_the_end() -> None:
    assert new_offset(ToTime(1_000), PLACE, committed=30, bounds=LOG, at_time=None) == 50


def test_what_was_never_committed_is_at_the_end_and_cannot_be_shifted() -> None:
    assert new_offset(ToCurrent(), PLACE, committed=None, bounds=LOG) == 50
    with pytest.raises(CommandError, match="t-3 has no committed offset"):
        new_offset(ShiftBy(1), PLACE, committed=None, bounds=LOG)


@pytest.mark.parametrize(
    ("text", "scope"),
    [("orders", TopicScope(TopicName("orders"), ())), ("orders:0,12", TopicScope(TopicName("orders"), (0, 12)))],
)
def test_topics_and_some_of_their_partitions(text: str, scope: TopicScope) -> None:
    assert parse_scope(text) == scope


@pytest.mark.parametrize("text", ["", ":1", "a:", "a:x", "a:1,", "a:1:2", "a:-1"])
def test_what_is_no_topic_with_partitions(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        parse_scope(text)


def test_states_in_any_case_one_by_one_or_with_commas() -> None:
    assert parse_states(["stable,EMPTY", " preparingrebalance "]) == ["Stable", "Empty", "PreparingRebalance"]
    assert parse_states([]) == []
    with pytest.raises(typer.BadParameter, match="'asleep' is no state"):
        parse_states(["asleep"])


def test_times() -> None:
    assert parse_time("1700000000000") == parse_time("@1700000000000") == 1_700_000_000_000
    assert parse_time("2023-11-14T22:13:20+00:00") == 1_700_000_000_000
    with pytest.raises(typer.BadParameter, match="--to-time"):
        parse_time("yesterday")
