"""What a member prints and commits, and when; against a consumer made of lists."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as ClientPartition

from headrace.cli.group_member import GroupMember
from headrace.cli.message_text import Message
from headrace.cli.stopping import StopRequest


class FakeMessage:
    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def error(self) -> KafkaError | None:
        return self._error

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d/%d" % (self._partition, self._offset)

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5


def end_of(partition: int) -> FakeMessage:
    return FakeMessage(partition, 0, KafkaError(KafkaError._PARTITION_EOF))


Step = list[FakeMessage] | Callable[["FakeConsumer"], None]


class FakeConsumer:
    """Plays steps: messages that a poll brings, or something that the group does meanwhile."""

    def __init__(self, settings: Mapping[str, Any], steps: Iterable[Step]) -> None:
        self.on_commit = settings["on_commit"]
        self.steps = list(steps)
        self.committed: list[tuple[dict[int, int], bool]] = []
        self.commit_error: KafkaError | None = None
        self.is_closed = False

    def subscribe(self, topics: list[str], **callbacks: Callable[..., None]) -> None:
        assert topics == ["t"]
        self.callbacks = callbacks

    def consume(self, _count: int, _timeout_s: float) -> list[FakeMessage]:
        step = self.steps.pop(0)
        if callable(step):
            step(self)
            return []
        return step

    def group_does(self, what: str, *partitions: int) -> None:
        self.callbacks[what](self, [ClientPartition("t", partition) for partition in partitions])

    def commit(self, offsets: Sequence[ClientPartition], asynchronous: bool) -> list[ClientPartition] | None:
        self.committed.append(({one.partition: one.offset for one in offsets}, asynchronous))
        if asynchronous:
            self.on_commit(self.commit_error, list(offsets))
            return None
        if self.commit_error is not None:
            raise KafkaException(self.commit_error)
        return list(offsets)

    def close(self) -> None:
        self.is_closed = True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def given(*partitions: int) -> Step:
    return lambda consumer: consumer.group_does("on_assign", *partitions)


def taken(*partitions: int) -> Step:
    return lambda consumer: consumer.group_does("on_revoke", *partitions)


class Reading:
    """A member over steps, printing what comes."""

    def __init__(self, *steps: Step, follow: bool = False) -> None:
        self.clock = Clock()
        self.consumers: list[FakeConsumer] = []
        self.printed: list[bytes | None] = []

        def make(settings: Mapping[str, Any]) -> Any:
            self.consumers.append(FakeConsumer(settings, steps))
            return self.consumers[0]

        self.member = GroupMember(make, follow=follow, patience_s=10.0, now_s=self.clock)
        self.member.subscribe(["t"])

    @property
    def consumer(self) -> FakeConsumer:
        return self.consumers[0]

    def read(self, *, polls: int | None = None, step_s: float = 0.05) -> None:
        for messages in self.member.polls(StopRequest()):
            self._print(messages)
            self.clock.now_s += step_s
            if polls is not None and (polls := polls - 1) == 0:
                return

    def _print(self, messages: Sequence[Message]) -> None:
        # Nothing of what is being printed may have been committed before.
        for message in messages:
            for offsets, _ in self.consumer.committed:
                assert message.partition is not None
                assert message.offset is not None
                assert offsets.get(message.partition, 0) <= message.offset
        self.printed += [message.value for message in messages]
        self.member.printed(messages)


def test_it_stops_when_all_that_it_owns_was_read_and_commits_that() -> None:
    reading = Reading(given(0, 1), [FakeMessage(0, 5), FakeMessage(1, 7), end_of(0)], [FakeMessage(1, 8)], [end_of(1)])
    reading.read()
    reading.member.leave()
    assert reading.printed == [b"0/5", b"1/7", b"1/8"]
    assert reading.consumer.committed == [({0: 6, 1: 9}, False)]
    assert reading.consumer.is_closed


def test_only_what_was_printed_is_committed() -> None:
    reading = Reading(given(0), [FakeMessage(0, 0), FakeMessage(0, 1), FakeMessage(0, 2)])
    brought = reading.member.polls(StopRequest())
    next(brought)
    messages = next(brought)
    reading.member.printed(messages[:2])
    reading.member.leave()
    assert reading.consumer.committed == [({0: 2}, False)]


def test_what_was_printed_is_committed_every_second_and_not_twice() -> None:
    reading = Reading(given(0), [FakeMessage(0, 0)], [FakeMessage(0, 1)], [], [], [end_of(0)])
    reading.read(step_s=0.6)
    reading.member.leave()
    assert reading.consumer.committed == [({0: 1}, True), ({0: 2}, True)]


def test_a_commit_that_failed_on_the_way_is_made_good_at_the_end() -> None:
    reading = Reading(given(0), [FakeMessage(0, 0)], [], [], [end_of(0)])
    reading.consumer.commit_error = KafkaError(KafkaError.REBALANCE_IN_PROGRESS)
    reading.read(step_s=1.0)
    reading.consumer.commit_error = None
    reading.member.leave()
    assert reading.consumer.committed[-1] == ({0: 1}, False)


def test_a_partition_that_is_taken_away_is_committed_first_and_not_afterwards() -> None:
    reading = Reading(given(0, 1), [FakeMessage(0, 0), FakeMessage(1, 0)], taken(0), [FakeMessage(1, 1)], [end_of(1)])
    reading.read()
    reading.member.leave()
    assert reading.consumer.committed == [({0: 1}, False), ({1: 2}, False)]


def test_what_comes_of_a_partition_that_is_another_s_by_now_is_not_committed() -> None:
    reading = Reading(given(0, 1), taken(0), [FakeMessage(0, 9), FakeMessage(1, 3)], [end_of(1)])
    reading.read()
    reading.member.leave()
    assert reading.consumer.committed == [({1: 4}, False)]


def test_partitions_that_were_lost_are_not_committed() -> None:
    lost: Step = lambda consumer: consumer.group_does("on_lost", 0)  # noqa: E731
    reading = Reading(given(0), [FakeMessage(0, 0)], lost, given(1), [end_of(1)])
    reading.read()
    reading.member.leave()
    assert reading.consumer.committed == []


def test_a_partition_that_comes_back_has_its_end_before_it_again() -> None:
    reading = Reading(given(0), [end_of(0), FakeMessage(0, 0)], follow=False)
    reading.read(polls=2)
    for step in (taken(0), given(0)):
        assert callable(step)
        step(reading.consumer)
    reading.consumer.steps = [[FakeMessage(0, 1)], [end_of(0)]]
    reading.read()
    assert reading.printed == [b"0/0", b"0/1"]


def test_a_member_without_a_partition_waits_for_one_but_not_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading(given(), [], given(0), [FakeMessage(0, 0), end_of(0)])
    reading.read(step_s=4.0)
    assert reading.printed == [b"0/0"]
    idle = Reading(given(), [], [], [])
    idle.read(step_s=4.0)
    assert "no partition for this member" in capsys.readouterr().err


def test_a_group_that_takes_its_time_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading([], [], [], [], given(0), [end_of(0)])
    reading.read(step_s=6.0)
    assert capsys.readouterr().err.count("still waiting") == 1


def test_a_follower_goes_on_beyond_the_end_until_told_to_stop() -> None:
    reading = Reading(given(0), [FakeMessage(0, 0), end_of(0)], [], [FakeMessage(0, 1)], follow=True)
    reading.read(polls=4)
    assert reading.printed == [b"0/0", b"0/1"]
    stop = StopRequest()
    stop._remember(15, None)
    assert list(reading.member.polls(stop)) == []


def test_a_group_that_has_moved_on_is_no_failure(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Reading(given(0), [FakeMessage(0, 0)], [end_of(0)])
    reading.read()
    reading.consumer.commit_error = KafkaError(KafkaError.ILLEGAL_GENERATION)
    reading.member.leave()
    assert "will come again" in capsys.readouterr().err
    assert reading.consumer.is_closed


def test_any_other_failure_to_commit_is_one_and_it_leaves_all_the_same() -> None:
    reading = Reading(given(0), [FakeMessage(0, 0)], [end_of(0)])
    reading.read()
    reading.consumer.commit_error = KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        reading.member.leave()
    assert reading.consumer.is_closed


def test_an_error_ends_it_but_a_long_silence_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    late = FakeMessage(0, 0, KafkaError(KafkaError._MAX_POLL_EXCEEDED))
    refused = FakeMessage(0, 0, KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    reading = Reading(given(0), [late], [refused])
    with pytest.raises(KafkaException):
        reading.read()
    assert "joining again" in capsys.readouterr().err
