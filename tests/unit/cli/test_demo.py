"""The demo's verdict: ledgers agree only when the same messages stand at the same offsets."""

from dataclasses import dataclass
from typing import Any

import pytest
from confluent_kafka import KafkaError

from headrace.cli.demo import Ledger, _Watch
from headrace.cli.demo_group import PARTITIONS, Outcome
from headrace.cli.output import CommandError


@dataclass
class Delivered:
    at: tuple[int, int]
    content: tuple[bytes, bytes]

    def partition(self) -> int:
        return self.at[0]

    def offset(self) -> int:
        return self.at[1]

    def key(self) -> bytes:
        return self.content[0]

    def value(self) -> bytes:
        return self.content[1]


WRITTEN = [Delivered((0, 0), (b"k", b"a")), Delivered((1, 0), (b"q", b"b")), Delivered((0, 1), (b"k", b"c"))]


def ledger(messages: list[Delivered]) -> Ledger:
    made = Ledger(2)
    for message in messages:
        made.add(message)
    return made


def test_the_same_messages_agree_in_whatever_order_partitions_come() -> None:
    assert ledger(WRITTEN).agrees_with(ledger([WRITTEN[1], WRITTEN[0], WRITTEN[2]]))


@pytest.mark.parametrize(
    "read",
    [
        WRITTEN[:-1],
        [*WRITTEN, Delivered((0, 2), (b"k", b"c"))],
        [WRITTEN[2], WRITTEN[1], WRITTEN[0]],
        [WRITTEN[0], WRITTEN[1], Delivered((0, 2), (b"k", b"c"))],
        [WRITTEN[0], WRITTEN[1], Delivered((0, 1), (b"k", b"x"))],
        [WRITTEN[0], WRITTEN[1], Delivered((0, 1), (b"kc", b""))],
        [WRITTEN[0], WRITTEN[1], Delivered((1, 1), (b"k", b"c"))],
    ],
    ids=["lost", "twice", "reordered", "moved", "changed", "cut elsewhere", "other partition"],
)
def test_any_difference_is_a_difference(read: list[Delivered]) -> None:
    assert not ledger(WRITTEN).agrees_with(ledger(read))


def test_only_what_was_acknowledged_counts_and_the_rest_is_remembered() -> None:
    acknowledged = Ledger(2)
    acknowledged.on_delivery(None, WRITTEN[0])
    acknowledged.on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), WRITTEN[1])
    assert acknowledged.agrees_with(ledger(WRITTEN[:1]))
    assert len(acknowledged.failures) == 1


def test_standing_still_for_a_minute_ends_the_demo() -> None:
    times_s = iter([0.0, 1.0, 50.0, 59.0, 118.0, 119.5])
    watch = _Watch("read", now=lambda: next(times_s))
    for count in (5, 5, 6, 6):
        watch.saw(count)
    with pytest.raises(CommandError, match="stuck for 60 s with 6 events read"):
        watch.saw(6)


def outcome(**changes: Any) -> Outcome:
    """A scene that went well, but for the changes."""
    good: dict[str, Any] = {
        "acknowledged": {(0, 0): "a", (1, 0): "b"},
        "read": {(0, 0): "a", (1, 0): "b"},
        "owned": {"ben": [0, 2, 4], "cem": [1, 3, 5]},
    }
    return Outcome(**(good | changes))


def test_a_group_that_read_everything_and_shares_all_partitions_is_good() -> None:
    assert outcome().is_good
    assert outcome(read_again=500).is_good  # At least once is the promise.


@pytest.mark.parametrize(
    "changes",
    [
        {"read": {(0, 0): "a"}},
        {"read": {(0, 0): "a", (1, 0): "x"}},
        {"read": {(0, 0): "a", (1, 0): "b", (1, 1): "c"}},
        {"failures": ["timed out"]},
        {"owned": {"ben": [0, 2, 4], "cem": [1, 3]}},
        {"owned": {"ben": [0, 1, 2, 4], "cem": [1, 3, 5]}},
        {"owned": {"ada": [0], "ben": [2, 4], "cem": [1, 3, 5]}},
        {"owned": {}},
    ],
    ids=["lost", "changed", "made up", "not delivered", "nobody's", "two owners", "of the dead", "not shared"],
)
def test_a_group_that_is_not(changes: dict[str, Any]) -> None:
    assert PARTITIONS == 6
    assert not outcome(**changes).is_good
