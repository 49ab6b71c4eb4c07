"""Commits: who may, what is tried again, and which answer belongs to which."""

import time
from typing import Any, cast

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.client.committing import UNANSWERED_MAX, Commit, Committer
from headrace.client.errors import CommitFailed, NotOwner
from headrace.client.exchange import Exchange
from headrace.client.lanes import Lanes, Limits
from headrace.client.message import Claim, Partition
from tests.unit.client.fakes import FakeConsumer, FakeTopicPartition

A, B = Partition("t", 0), Partition("t", 1)


class Desk:
    """A committer of a consumer that owns A and B, and what librdkafka would tell it."""

    def __init__(self) -> None:
        self.lanes = Lanes({"t": 1}, Limits(10, 1_000))
        self.lanes.gain([A, B])
        self.raw = FakeConsumer()
        self.committer = Committer(Exchange(self.lanes))
        self.committer.consumer = cast(Any, self.raw)

    def send(self, offsets: dict[Partition, int], *, patience_s: float = 60.0, **claims: Claim) -> Commit:
        commit = Commit(offsets, {Partition("t", int(name[1:])): claim for name, claim in claims.items()}, 0.0)
        commit.deadline_s = time.monotonic() + patience_s
        self.committer.send(commit)
        return commit

    def answer(self, offsets: dict[Partition, int], code: int | None = None, *, each: bool = False) -> None:
        error = None if code is None else KafkaError(code)
        of_each = error if each else None
        told = [FakeTopicPartition(*partition, offset, of_each) for partition, offset in offsets.items()]
        self.committer.on_commit(None if each else error, cast(Any, told))


def test_an_acknowledged_commit_is_done() -> None:
    desk = Desk()
    commit = desk.send({A: 5, B: 7})
    assert desk.raw.commits == [{("t", 0): 5, ("t", 1): 7}]
    assert not commit.answer.done()
    desk.answer({A: 5, B: 7})
    assert commit.answer.result(0) is None
    assert desk.committer.is_idle


def test_answers_find_their_commits_in_any_order() -> None:
    desk = Desk()
    first, second, third = desk.send({A: 1}), desk.send({A: 2}), desk.send({A: 1})
    desk.answer({A: 2}, KafkaError.OFFSET_METADATA_TOO_LARGE)
    assert not first.answer.done()
    assert isinstance(second.answer.exception(0), CommitFailed)
    desk.answer({A: 1})
    assert first.answer.done()
    assert not third.answer.done()


def test_a_former_owner_is_refused_before_anything_is_sent() -> None:
    desk = Desk()
    desk.lanes.lose([A])
    refused = desk.send({A: 5, B: 1}).answer.exception(0)
    assert isinstance(refused, NotOwner)
    assert refused.partitions == (A,)
    assert str(refused) == "not committed: t-0: this consumer does not own it any more"
    assert desk.raw.commits == []


def test_a_message_of_an_earlier_ownership_is_refused_though_the_partition_is_back() -> None:
    desk = Desk()
    desk.lanes.lose([A])
    desk.lanes.gain([A])
    assert isinstance(desk.send({A: 5}, p0=Claim(1, 0)).answer.exception(0), NotOwner)
    assert not desk.send({A: 5}, p0=Claim(3, 0)).answer.done()


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    "code", [KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_ID_NOT_FOUND]
)
def test_a_former_owner_is_refused_by_the_broker(code: int, each: bool) -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, code, each=each)
    refused = commit.answer.exception(0)
    assert isinstance(refused, NotOwner)
    assert "the group went on without this consumer" in str(refused)


def test_a_commit_into_a_rebalance_is_sent_again() -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS, each=True)
    assert not commit.answer.done()
    assert not desk.committer.is_idle
    desk.committer.send_waiting()
    assert len(desk.raw.commits) == 1  # Not at once.
    commit.due_s = 0.0
    desk.committer.send_waiting()
    assert len(desk.raw.commits) == 2
    desk.answer({A: 5})
    assert commit.answer.result(0) is None


def test_a_commit_that_waited_is_refused_if_the_partition_went_meanwhile() -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS)
    desk.lanes.lose([A])
    commit.due_s = 0.0
    desk.committer.send_waiting()
    assert isinstance(commit.answer.exception(0), NotOwner)


def test_patience_ends() -> None:
    desk = Desk()
    commit = desk.send({A: 5}, patience_s=0.0)
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS)
    with pytest.raises(CommitFailed, match=r"t-0 at 5.*REBALANCE_IN_PROGRESS"):
        commit.answer.result(0)


def test_other_errors_are_final() -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.GROUP_AUTHORIZATION_FAILED)
    failure = commit.answer.exception(0)
    assert isinstance(failure, CommitFailed)
    assert not isinstance(failure, NotOwner)


def test_what_the_library_will_not_send_fails() -> None:
    desk = Desk()
    desk.raw.refuse_with = KafkaException(KafkaError(KafkaError._STATE))
    assert isinstance(desk.send({A: 5}).answer.exception(0), CommitFailed)
    assert desk.committer.is_idle


def test_nothing_to_commit_is_done_at_once() -> None:
    desk = Desk()
    assert desk.send({}).answer.result(0) is None
    assert desk.raw.commits == []


def test_unanswered_commits_are_bounded() -> None:
    desk = Desk()
    for offset in range(UNANSWERED_MAX):
        assert not desk.send({A: offset}).answer.done()
    assert isinstance(desk.send({A: UNANSWERED_MAX}).answer.exception(0), CommitFailed)


def test_nobody_waits_for_an_answer_that_cannot_come() -> None:
    desk = Desk()
    sent, waiting = desk.send({A: 5}), desk.send({B: 6})
    desk.answer({B: 6}, KafkaError.REBALANCE_IN_PROGRESS)
    desk.committer.give_up()
    for commit in (sent, waiting):
        assert isinstance(commit.answer.exception(0), CommitFailed)


def test_within_a_poll_the_answer_is_waited_for() -> None:
    desk = Desk()
    commit = Commit({A: 5}, {}, 0.0)
    desk.committer.send_and_wait(commit)
    assert commit.answer.result(0) is None
    desk.raw.refuse_with = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    refused = Commit({A: 6}, {}, 0.0)
    desk.committer.send_and_wait(refused)
    assert isinstance(refused.answer.exception(0), NotOwner)
