"""Offsets on their way into the group, and what became of them.

A commit is handed to librdkafka by the thread in which partitions come and go, right after its right to them was
checked; the broker checks the group's generation as well. Who is no owner any more, by either, gets `NotOwner`.

What only has to wait (a rebalance under way, a coordinator that moves) is sent again until its time is up. So is what
the broker refuses while we know of no loss: most often it left in one generation and arrived in the next, in which the
partition is ours still. If it is not, we hear of that soon. Two rules keep a second try from doing harm: it is never
made in a later ownership than the first, and never after a newer commit of the same partition was sent; then the newer
one speaks for both.

The library tells of all answers by one callback; they are matched to what was sent by the offsets. Everything here
runs in one thread.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from headrace.client.errors import CommitFailed, NotOwner
from headrace.client.exchange import Exchange
from headrace.client.message import Claim, Partition

UNANSWERED_MAX: Final = 1_000
_AGAIN_S: Final = 0.1
_GONE: Final = "this consumer does not own it any more"

# Somebody else is who we were.
_FENCED: Final = frozenset({KafkaError.FENCED_INSTANCE_ID, KafkaError._FENCED})
# The group has gone on, with or without us.
_OUTDATED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.GROUP_ID_NOT_FOUND,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError._ASSIGNMENT_LOST,
    }
)
_RETRIABLE: Final = _OUTDATED | frozenset(
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


class Commit:
    """Some offsets that are to be committed together, and the future of whoever asked."""

    def __init__(
        self, offsets: Mapping[Partition, int], claims: Mapping[Partition, Claim] | None = None, *, timeout_s: float
    ) -> None:
        """`claims` are those of messages that were delivered."""
        self.offsets = offsets
        self.claims = claims or {}
        self.deadline_s = time.monotonic() + timeout_s
        self.answer: Future[None] = Future()
        self.answer.set_running_or_notify_cancel()  # It cannot be taken back.
        self._left = len(offsets)
        self._failures: list[CommitFailed] = []
        if not offsets:
            self.answer.set_result(None)

    def note(self, failure: CommitFailed | None) -> None:
        """What became of one more partition."""
        if failure is not None:
            self._failures.append(failure)
        self._left -= 1
        if self._left > 0:
            return
        # Somebody who lost one partition has to know it, whatever happened to another.
        refusals = [failure for failure in self._failures if isinstance(failure, NotOwner)]
        if refusals:
            self.answer.set_exception(NotOwner([one for each in refusals for one in each.partitions], refusals[0].why))
        elif self._failures:
            self.answer.set_exception(self._failures[0])
        else:
            self.answer.set_result(None)


@dataclass(slots=True, eq=False)
class Entry:
    """One partition's part of a commit."""

    partition: Partition
    offset: int
    claim: Claim
    deadline_s: float
    waiters: list[Commit]
    trouble: KafkaError | None = None  # What it met.
    due_s: float = 0.0  # When it is sent again.
    is_settled: bool = False
    failure: CommitFailed | None = None

    def settle(self, failure: CommitFailed | None) -> None:
        self.is_settled, self.failure = True, failure
        for waiter in self.waiters:
            waiter.note(failure)

    def leave_to(self, newer: "Entry") -> None:
        """Whoever waited for this one waits for the newer one now."""
        if newer.is_settled:
            self.settle(newer.failure)
        else:
            newer.waiters += self.waiters


Request = dict[Partition, Entry]


class Committer:
    consumer: RawConsumer  # Given later: it has to know `on_commit` when it is made.

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._sent: list[Request] = []
        self._waiting: Request = {}
        self._newest: Request = {}  # Of each partition that is owned, whatever became of it.

    @property
    def is_idle(self) -> bool:
        return not self._sent and not self._waiting

    def send(self, commit: Commit) -> None:
        if len(self._sent) >= UNANSWERED_MAX:
            self._refuse(commit, CommitFailed(f"{UNANSWERED_MAX} commits are not answered yet"))
        elif request := self._enter(commit):
            self._launch(request)

    def hold(self, commit: Commit) -> None:
        """Until `send_and_wait` is called for its partitions."""
        self._waiting |= self._enter(commit)

    def send_and_wait(self, partitions: Iterable[Partition]) -> None:
        """Make sure of every commit of these partitions that is not answered yet, within a poll.

        They are about to be given up: what the broker hears after the word that they are, it refuses.
        """
        newest = {partition: self._newest.get(partition) for partition in partitions}
        request = {one: entry for one, entry in newest.items() if entry is not None and not entry.is_settled}
        if not request:
            return
        for partition in request:
            self._waiting.pop(partition, None)
        try:
            answered = self.consumer.commit(offsets=_topic_partitions(request), asynchronous=False)
        except KafkaException as raised:
            errors = dict.fromkeys(request, raised.args[0])
        else:
            errors = _errors(answered)
        for entry in request.values():
            entry.settle(_failure(entry, errors.get(entry.partition)))

    def on_commit(self, error: KafkaError | None, partitions: Sequence[TopicPartition]) -> None:
        """librdkafka's callback."""
        told = {Partition(one.topic, one.partition): one.offset for one in partitions}
        for request in self._sent:
            if {partition: entry.offset for partition, entry in request.items()} == told:
                break
        else:
            return  # It was given up, or somebody else waits for the answer.
        self._sent.remove(request)
        errors = _errors(partitions) if error is None else dict.fromkeys(request, error)
        for entry in request.values():
            self._hear(entry, errors.get(entry.partition))

    def send_waiting(self) -> None:
        """Try those again whose time has come."""
        now_s = time.monotonic()
        due = {partition: entry for partition, entry in self._waiting.items() if entry.due_s <= now_s}
        for partition in due:
            del self._waiting[partition]
        if due:
            self._launch(due)

    def drop(self, partitions: Iterable[Partition]) -> None:
        """They are not ours any more. Nothing that waits for them is sent again."""
        for partition in partitions:
            self._newest.pop(partition, None)
            if (entry := self._waiting.pop(partition, None)) is not None:
                entry.settle(_gone(entry))

    def give_up(self) -> None:
        """Nobody will tell of answers any more."""
        left = [entry for request in (*self._sent, self._waiting) for entry in request.values()]
        self._sent, self._waiting = [], {}
        for entry in left:
            entry.settle(CommitFailed(f"closed before a commit of {entry.partition} at {entry.offset} was answered"))

    def _enter(self, commit: Commit) -> Request:
        """Its entries, which are the newest of their partitions from now on. None of them if it is refused."""
        with self._exchange.lock:
            lanes = self._exchange.lanes
            lost = [one for one in commit.offsets if not lanes.is_claim_good(one, commit.claims.get(one))]
            claims = {one: lanes.claim(one) for one in commit.offsets if one not in lost}
        if lost:
            self._refuse(commit, NotOwner(lost, _GONE))
            return {}
        request = {
            partition: Entry(partition, offset, claims[partition], commit.deadline_s, [commit])
            for partition, offset in commit.offsets.items()
        }
        for partition, entry in request.items():
            self._newest[partition] = entry
            if (older := self._waiting.pop(partition, None)) is not None:
                older.leave_to(entry)
        return request

    def _refuse(self, commit: Commit, failure: CommitFailed) -> None:
        for number in range(len(commit.offsets)):
            commit.note(failure if number == 0 else None)

    def _launch(self, request: Request) -> None:
        try:
            self.consumer.commit(offsets=_topic_partitions(request), asynchronous=True)
        except KafkaException as error:
            for entry in request.values():
                entry.settle(_failure(entry, error.args[0]))
        else:
            self._sent.append(request)

    def _hear(self, entry: Entry, error: KafkaError | None) -> None:
        """The answer to an entry."""
        if entry.is_settled:
            return  # It was made sure of meanwhile.
        entry.trouble = error
        now_s = time.monotonic()
        newest = self._newest.get(entry.partition)
        if error is None or error.code() not in _RETRIABLE or now_s >= entry.deadline_s:
            entry.settle(_failure(entry, error))
        elif newest is entry:
            entry.due_s = now_s + _AGAIN_S
            self._waiting[entry.partition] = entry
        elif newest is not None and newest.claim.ownership == entry.claim.ownership:
            entry.leave_to(newest)
        else:
            entry.settle(_gone(entry))


def _topic_partitions(request: Request) -> list[TopicPartition]:
    return [TopicPartition(*partition, entry.offset) for partition, entry in request.items()]


def _errors(partitions: Iterable[TopicPartition]) -> dict[Partition, KafkaError]:
    return {Partition(one.topic, one.partition): one.error for one in partitions if one.error is not None}


def _gone(entry: Entry) -> NotOwner:
    trouble = "" if entry.trouble is None else f" ({entry.trouble.name()})"
    return NotOwner([entry.partition], f"{_GONE}{trouble}")


def _failure(entry: Entry, error: KafkaError | None) -> CommitFailed | None:
    if error is None:
        return None
    if error.code() in _FENCED | _OUTDATED:
        return NotOwner([entry.partition], f"the group went on without this consumer ({error.name()})")
    return CommitFailed(f"not committed: {entry.partition} at {entry.offset}: {error.str()} ({error.name()})")
