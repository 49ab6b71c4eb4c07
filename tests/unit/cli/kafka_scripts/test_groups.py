"""Tables as Kafka prints them, and times, lengths of time and CSV as it reads them."""

from typing import Any

import pytest

from headrace.cli.kafka_scripts.flags import Misused
from headrace.cli.kafka_scripts.groups import (
    csv_text,
    member_lines,
    offset_lines,
    parse_csv,
    parse_datetime,
    parse_duration,
    state_lines,
)
from headrace.cli.output import CommandError
from headrace.ids import TopicName, TopicPartition


def partition(number: int, member: str | None, **more: Any) -> dict[str, Any]:
    owner = {"member_id": member, "client_id": member and f"{member}-client", "host": member and "/127.0.0.1"}
    return {"topic": "t", "partition": number, "committed": 5, "leader_epoch": 3, "end": 7, "lag": 2, **owner, **more}


def member(name: str, *numbers: int, instance_id: str | None = None) -> dict[str, Any]:
    assignment = [{"topic": "t", "partitions": list(numbers)}] if numbers else []
    who = {"member_id": name, "client_id": f"{name}-client", "host": "/127.0.0.1", "instance_id": instance_id}
    return {**who, "assignment": assignment}


GROUP = {
    "name": "g",
    "state": "Stable",
    "assignor": "range",
    "coordinator": {"id": 1, "host": "h", "port": 9092},
    "members": [member("a", 1), member("b", 0, 2), member("c")],
    "partitions": [
        partition(0, "b"),
        partition(1, "a"),
        partition(2, "b", committed=None, lag=None),
        partition(3, None, end=None, lag=None),
    ],
}


def test_offsets_of_the_busiest_member_first_and_those_of_nobody_last() -> None:
    empty, header, *rows = offset_lines(GROUP, is_verbose=False)
    assert empty == ""
    assert header.split() == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID")
    ]
    assert [row.split() for row in rows] == [
        ["g", "t", "0", "5", "7", "2", "b", "/127.0.0.1", "b-client"],
        ["g", "t", "2", "-", "7", "-", "b", "/127.0.0.1", "b-client"],
        ["g", "t", "1", "5", "7", "2", "a", "/127.0.0.1", "a-client"],
        ["g", "t", "3", "5", "-", "-", "-", "-", "-"],
    ]
    assert {row.index("/127") for row in rows[:3]} == {header.index("HOST")}
    _, header, first, *_ = offset_lines(GROUP, is_verbose=True)
    assert (header.split()[3], first.split()[3]) == ("LEADER-EPOCH", "3")
    assert offset_lines({**GROUP, "partitions": []}, is_verbose=True) == []


def test_members() -> None:
    _, header, *rows = member_lines(GROUP, is_verbose=True)
    assert header.split()[:5] == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    assert header.split()[5:] == ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
    assert [row.split()[4:] for row in rows] == [
        ["1", "-", "t:1", "-", "-"],
        ["2", "-", "t:0,2", "-", "-"],
        ["0", "-", "-", "-", "-"],
    ]
    _, header = member_lines({**GROUP, "members": []}, is_verbose=False)
    assert header.split() == ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]


def test_static_members_have_a_column_more() -> None:
    group = {**GROUP, "members": [member("a", 1, instance_id="one"), member("b", 0)]}
    _, header, first, second = member_lines(group, is_verbose=False)
    assert header.split()[2] == "GROUP-INSTANCE-ID"
    assert first[header.index("GROUP-INSTANCE-ID") :].startswith("one ")
    assert second[header.index("GROUP-INSTANCE-ID")] == " "


def test_the_state() -> None:
    _, header, row = state_lines(GROUP, is_verbose=False)
    assert header.split() == ["GROUP", "COORDINATOR", "(ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    assert row.split() == ["g", "h:9092", "(1)", "range", "Stable", "3"]
    _, header, row = state_lines({**GROUP, "assignor": None}, is_verbose=True)
    assert header.split()[-3:] == ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"]
    assert row.split()[3:] == ["-", "Stable", "-", "-", "3"]


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-14T22:13:20.125", 1_700_000_000_125),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, timestamp_ms: int) -> None:
    assert parse_datetime(text) == timestamp_ms


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("PT1S", 1_000), ("PT0.5S", 500), ("P1D", 86_400_000), ("P1DT2H3M4S", 93_784_000), ("PT90M", 5_400_000)],
)
def test_lengths_of_time(text: str, duration_ms: int) -> None:
    assert parse_duration(text) == duration_ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1D", "P1H", "P1DT"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(Misused):
        parse_duration(text)


def at(topic: str, number: int) -> TopicPartition:
    return TopicPartition(TopicName(topic), number)


def test_csv_with_and_without_a_group() -> None:
    assert csv_text([("t", 0, 5), ("t", 1, 6)]) == "t,0,5\nt,1,6\n"
    assert parse_csv("t,0,5\nt,1,6\n", group="g") == {"g": {at("t", 0): 5, at("t", 1): 6}}
    both = 'g,t,0,5\n"h",u,1,6\n'
    assert parse_csv(both, group=None) == {"g": {at("t", 0): 5}, "h": {at("u", 1): 6}}
    assert parse_csv(both, group="g") == {"g": {at("t", 0): 5}, "h": {at("u", 1): 6}}


@pytest.mark.parametrize("text", ["t,0\n", "t,x,5\n", "g,t,0,x\n"])
def test_bad_csv_names_its_line(text: str) -> None:
    with pytest.raises(CommandError, match="line 2"):
        parse_csv("t,0,5\n" + text, group="g")
