"""Offsets on their way into the group, and what became of them.

A commit is handed to librdkafka by the thread in which partitions come and go, right after its right to them was
checked; the broker checks the group's generation as well. Who is no owner any more, by either, gets `NotOwner`. What
only has to wait (a rebalance under way, a coordinator that moves) is sent again until its time is up.

The library tells of all answers by one callback; they are matched to their commits by what they committed. Everything
here runs in one thread.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.client.errors import ClientError, CommitFailed, NotOwner
from headrace.client.exchange import Exchange
from headrace.client.message import Claim, Partition

UNANSWERED_MAX: Final = 1_000
_AGAIN_S: Final = 0.1

# The group has gone on without us.
_REFUSALS: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._FENCED,
    }
)
_RETRIABLE: Final = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._WAIT_COORD,
    }
)


@dataclass(slots=True, eq=False)
class Commit:
    offsets: Mapping[Partition, int]
    claims: Mapping[Partition, Claim]  # Of those offsets that belong to messages that were delivered.
    deadline_s: float
    due_s: float = 0.0  # Of one that has to wait.
    answer: "Future[None]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.answer.set_running_or_notify_cancel()  # It cannot be taken back.

    def settle(self, failure: ClientError | None) -> None:
        if failure is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(failure)

    def __str__(self) -> str:
        return ", ".join(f"{partition} at {offset}" for partition, offset in self.offsets.items())


class Committer:
    consumer: RawConsumer  # Given later: it has to know `on_commit` when it is made.

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._sent: list[Commit] = []
        self._waiting: list[Commit] = []

    @property
    def is_idle(self) -> bool:
        return not self._sent and not self._waiting

    def send(self, commit: Commit) -> None:
        if len(self._sent) + len(self._waiting) >= UNANSWERED_MAX:
            commit.settle(CommitFailed(f"{UNANSWERED_MAX} commits are not answered yet"))
        elif not commit.offsets:
            commit.settle(None)
        elif (refused := self._refusal(commit)) is not None:
            commit.settle(refused)
        else:
            try:
                self.consumer.commit(offsets=_topic_partitions(commit.offsets), asynchronous=True)
            except KafkaException as error:
                commit.settle(CommitFailed(f"not committed: {commit}: {error.args[0].str()}"))
            else:
                self._sent.append(commit)

    def send_and_wait(self, commit: Commit) -> None:
        """For whoever has no time to poll until it is answered, being called from within a poll."""
        failure: ClientError | None = self._refusal(commit)
        if failure is None and commit.offsets:
            error, partitions = None, list[TopicPartition]()
            try:
                partitions = self.consumer.commit(offsets=_topic_partitions(commit.offsets), asynchronous=False)
            except KafkaException as raised:
                error = raised.args[0]
            failure, _ = _outcome(commit, error, partitions)
        commit.settle(failure)

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """librdkafka's callback."""
        told = {Partition(one.topic, one.partition): one.offset for one in partitions}
        commit = next((one for one in self._sent if one.offsets == told), None)
        if commit is None:
            return  # It was given up, or somebody else waits for the answer.
        self._sent.remove(commit)
        failure, is_retriable = _outcome(commit, error, partitions)
        now_s = time.monotonic()
        if is_retriable and now_s < commit.deadline_s:
            commit.due_s = now_s + _AGAIN_S
            self._waiting.append(commit)
        else:
            commit.settle(failure)

    def send_waiting(self) -> None:
        """Try those again whose time has come, if they still may."""
        now_s = time.monotonic()
        due = [commit for commit in self._waiting if commit.due_s <= now_s]
        self._waiting = [commit for commit in self._waiting if commit.due_s > now_s]
        for commit in due:
            self.send(commit)

    def give_up(self) -> None:
        """Nobody will tell of answers any more."""
        left = self._sent + self._waiting
        self._sent, self._waiting = [], []
        for commit in left:
            commit.settle(CommitFailed(f"closed before a commit of {commit} was answered"))

    def _refusal(self, commit: Commit) -> NotOwner | None:
        with self._exchange.lock:
            lanes = self._exchange.lanes
            lost = [one for one in commit.offsets if not lanes.is_claim_good(one, commit.claims.get(one))]
        return NotOwner(lost, "this consumer does not own it any more") if lost else None


def _topic_partitions(offsets: Mapping[Partition, int]) -> list[TopicPartition]:
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]


def _outcome(
    commit: Commit, error: KafkaError | None, partitions: Iterable[TopicPartition]
) -> tuple[ClientError | None, bool]:
    """The failure, if there is one, and whether trying again may help."""
    if error is not None:
        errors = dict.fromkeys(commit.offsets, error)
    else:
        errors = {Partition(one.topic, one.partition): one.error for one in partitions if one.error is not None}
    if not errors:
        return None, False
    if refused := [partition for partition, one in errors.items() if one.code() in _REFUSALS]:
        name = errors[refused[0]].name()
        return NotOwner(refused, f"the group went on without this consumer ({name})"), False
    partition, first = next(iter(errors.items()))
    failure = CommitFailed(f"not committed: {partition} at {commit.offsets[partition]}: {first.str()} ({first.name()})")
    return failure, all(one.code() in _RETRIABLE for one in errors.values())
