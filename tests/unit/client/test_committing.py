"""Commits: who may, what is tried again, and which answer belongs to which."""

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
        by_partition = {Partition("t", int(name[1:])): claim for name, claim in claims.items()}
        commit = Commit(offsets, by_partition, timeout_s=patience_s)
        self.committer.send(commit)
        return commit

    def lose(self, *partitions: Partition) -> None:
        self.lanes.lose(partitions)
        self.committer.drop(partitions)

    def later(self) -> None:
        """What waits has waited long enough."""
        for entry in self.committer._waiting.values():
            entry.due_s = 0.0
        self.committer.send_waiting()

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
    desk.lose(A)
    refused = desk.send({A: 5, B: 1}).answer.exception(0)
    assert isinstance(refused, NotOwner)
    assert refused.partitions == (A,)
    assert str(refused) == "not committed: t-0: this consumer does not own it any more"
    assert desk.raw.commits == []


def test_a_message_of_an_earlier_ownership_is_refused_though_the_partition_is_back() -> None:
    desk = Desk()
    desk.lose(A)
    desk.lanes.gain([A])
    assert isinstance(desk.send({A: 5}, p0=Claim(1, 0)).answer.exception(0), NotOwner)
    assert not desk.send({A: 5}, p0=Claim(3, 0)).answer.done()


@pytest.mark.parametrize("each", [False, True])
def test_who_was_replaced_is_refused_by_the_broker(each: bool) -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.FENCED_INSTANCE_ID, each=each)
    refused = commit.answer.exception(0)
    assert isinstance(refused, NotOwner)
    assert str(refused) == "not committed: t-0: the group went on without this consumer (FENCED_INSTANCE_ID)"


OUTDATED = [KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.GROUP_ID_NOT_FOUND]


@pytest.mark.parametrize("code", OUTDATED)
def test_what_met_a_later_generation_is_made_in_it_by_who_owns_still(code: int) -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, code, each=True)
    desk.later()
    desk.answer({A: 5})
    assert commit.answer.result(0) is None


@pytest.mark.parametrize("comes_back", [False, True])
@pytest.mark.parametrize("code", OUTDATED)
def test_what_met_a_later_generation_is_refused_to_who_lost_the_partition(code: int, comes_back: bool) -> None:
    desk = Desk()
    commit = desk.send({A: 5, B: 6})  # Offsets alone, by no message's claim.
    desk.answer({A: 5, B: 6}, code)
    desk.lose(A)
    if comes_back:
        desk.lanes.gain([A])
    desk.later()
    assert desk.raw.commits == [{A: 5, B: 6}, {B: 6}]
    desk.answer({B: 6})
    refused = commit.answer.exception(0)
    assert isinstance(refused, NotOwner)
    assert refused.partitions == (A,)
    assert KafkaError(code).name() in str(refused)


def test_what_the_broker_refuses_to_the_end_is_refused() -> None:
    desk = Desk()
    commit = desk.send({A: 5}, patience_s=0.0)
    desk.answer({A: 5}, KafkaError.ILLEGAL_GENERATION)
    assert isinstance(commit.answer.exception(0), NotOwner)


def test_a_commit_into_a_rebalance_is_sent_again() -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS, each=True)
    assert not commit.answer.done()
    assert not desk.committer.is_idle
    desk.committer.send_waiting()
    assert len(desk.raw.commits) == 1  # Not at once.
    desk.later()
    assert len(desk.raw.commits) == 2
    desk.answer({A: 5})
    assert commit.answer.result(0) is None


def test_a_commit_that_waited_is_refused_if_the_partition_went_meanwhile() -> None:
    desk = Desk()
    commit = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS)
    desk.lose(A)
    desk.later()
    assert isinstance(commit.answer.exception(0), NotOwner)


def test_what_an_earlier_owner_sent_is_not_made_good_by_a_later_one() -> None:
    """Though both are the same consumer."""
    desk = Desk()
    earlier = desk.send({A: 5})
    desk.lose(A)
    desk.lanes.gain([A])
    later = desk.send({A: 9})
    desk.answer({A: 5}, KafkaError.ILLEGAL_GENERATION)
    assert isinstance(earlier.answer.exception(0), NotOwner)
    desk.committer.send_and_wait([A])
    assert desk.raw.commits == [{A: 5}, {A: 9}, {A: 9}]
    assert later.answer.result(0) is None


def test_a_second_try_does_not_overtake_a_newer_commit() -> None:
    """It would take the group back to where it was."""
    desk = Desk()
    older, newer = desk.send({A: 5, B: 1}), desk.send({A: 9})
    desk.answer({A: 5, B: 1}, KafkaError.ILLEGAL_GENERATION)
    desk.later()
    assert desk.raw.commits == [{A: 5, B: 1}, {A: 9}, {B: 1}]
    desk.answer({B: 1})
    assert not older.answer.done()  # The newer one speaks for it.
    desk.answer({A: 9})
    assert older.answer.result(0) is None
    assert newer.answer.result(0) is None


def test_nor_one_that_was_answered_already() -> None:
    desk = Desk()
    older, newer = desk.send({A: 5}), desk.send({A: 9})
    desk.answer({A: 9})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS)
    assert newer.answer.result(0) is None
    assert older.answer.result(0) is None
    assert desk.committer.is_idle


def test_a_newer_commit_takes_over_from_one_that_waits() -> None:
    desk = Desk()
    older = desk.send({A: 5})
    desk.answer({A: 5}, KafkaError.REBALANCE_IN_PROGRESS)
    newer = desk.send({A: 3})
    desk.later()
    assert desk.raw.commits == [{A: 5}, {A: 3}]
    desk.answer({A: 3}, KafkaError.GROUP_AUTHORIZATION_FAILED)
    for commit in (older, newer):
        assert isinstance(commit.answer.exception(0), CommitFailed)


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
    commit = Commit({A: 5}, timeout_s=1.0)
    desk.committer.hold(commit)
    assert desk.raw.commits == []
    desk.committer.send_and_wait([A])
    assert desk.raw.commits == [{A: 5}]
    assert commit.answer.result(0) is None
    desk.raw.refuse_with = KafkaException(KafkaError(KafkaError.ILLEGAL_GENERATION))
    refused = Commit({A: 6}, timeout_s=1.0)
    desk.committer.hold(refused)
    desk.committer.send_and_wait([A])
    assert isinstance(refused.answer.exception(0), NotOwner)


def test_what_is_not_answered_is_made_sure_of_before_partitions_go() -> None:
    desk = Desk()
    sent, waiting, other = desk.send({A: 5}), desk.send({A: 7}), desk.send({B: 1})
    desk.answer({A: 7}, KafkaError.ILLEGAL_GENERATION)
    desk.committer.send_and_wait([A])
    assert desk.raw.commits[3:] == [{A: 7}]  # The newest, for all of them.
    assert waiting.answer.result(0) is None
    assert not other.answer.done()
    desk.answer({A: 5}, KafkaError.ILLEGAL_GENERATION)  # It was on its way.
    assert sent.answer.result(0) is None
    desk.committer.send_and_wait([A])
    assert len(desk.raw.commits) == 4
