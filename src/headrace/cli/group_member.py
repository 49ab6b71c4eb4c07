"""One member of a consumer group that prints what it is given.

The rule: nothing is committed before it was printed. What was printed is committed every second, when a
partition is taken away, and on the way out; so a member that is killed leaves at most a second of messages for
somebody to print again, and none that nobody prints.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.connection import FETCH_STEADILY, Connection
from headrace.cli.message_text import Message
from headrace.cli.output import note
from headrace.cli.reading import POLL_MESSAGES, POLL_S, Printer, message_of, place_of, until_quiet
from headrace.cli.stopping import StopRequest
from headrace.ids import TopicName, TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError

_COMMIT_EVERY_S: Final = 1.0


class Assignor(StrEnum):
    """How the members share partitions among them; the client library knows these."""

    RANGE = "range"
    ROUND_ROBIN = "roundrobin"
    COOPERATIVE_STICKY = "cooperative-sticky"


class GroupMember:
    """Reads what the group gives to it. `printed` says what has been, and `leave` ends it."""

    def __init__(
        self,
        make_consumer: Callable[[Mapping[str, Any]], "Consumer"],
        *,
        follow: bool,
        patience_s: float,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = make_consumer({"on_commit": self._on_commit})
        self._follow = follow
        self._patience_s = patience_s
        self._now_s = now_s
        self._owned: set[TopicPartition] = set()
        self._ended: set[TopicPartition] = set()
        self._due: dict[TopicPartition, int] = {}  # Printed up to here, and not known to be committed.
        self._committed_s = self._since_s = now_s()
        self._is_assigned = False

    def subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def polls(self, stop: StopRequest) -> Iterator[list[Message]]:
        """What each poll brought, until told to stop or, for who does not follow, until all of it was read."""
        from confluent_kafka import KafkaError, KafkaException

        is_told = False
        while not stop and not self._is_finished():
            if not self._is_assigned and not is_told and self._waited_s() > self._patience_s:
                note("still waiting for the group to share out its partitions")
                is_told = True
            self._commit_when_due()
            messages = []
            polled: list[Any] = self._consumer.consume(POLL_MESSAGES, POLL_S)
            for consumed in polled:
                error = consumed.error()
                if error is None:
                    messages.append(message_of(consumed))
                elif error.code() == KafkaError._PARTITION_EOF:
                    self._ended.add(place_of(consumed))
                elif error.code() == KafkaError._MAX_POLL_EXCEEDED:
                    # Somebody held up the output for minutes. The library joins again by itself.
                    note("the group went on without this member, which printed nothing for too long; joining again")
                else:
                    raise KafkaException(error)
            yield messages

    def printed(self, messages: Iterable[Message]) -> None:
        for message in messages:
            assert message.topic is not None
            assert message.partition is not None
            assert message.offset is not None
            place = TopicPartition(TopicName(message.topic), message.partition)
            # What was taken away meanwhile is another's to commit: ours would set it back.
            if place in self._owned:
                self._due[place] = message.offset + 1

    def leave(self) -> None:
        """Commit what is left, and go without letting the others wait for a session to expire."""
        try:
            self._commit(self._due)
        finally:
            self._consumer.close()

    def _is_finished(self) -> bool:
        if self._follow or not self._is_assigned:
            return False
        if self._owned:
            return self._owned <= self._ended
        # A cooperative group gives nothing at first, and something soon after.
        if self._waited_s() < self._patience_s:
            return False
        note("the group has no partition for this member")
        return True

    def _waited_s(self) -> float:
        return self._now_s() - self._since_s

    # --- What the group says -----------------------------------------------------------------------------------

    def _on_assign(self, _: "Consumer", partitions: Sequence[Any]) -> None:
        given = _places(partitions)
        self._is_assigned = True
        self._since_s = self._now_s()
        self._owned |= given
        self._ended -= given

    def _on_revoke(self, _: "Consumer", partitions: Sequence[Any]) -> None:
        taken = _places(partitions)
        self._commit({place: offset for place, offset in self._due.items() if place in taken})
        self._forget(taken)

    def _on_lost(self, _: "Consumer", partitions: Sequence[Any]) -> None:
        """The group threw this member out long ago; others have begun where it last committed."""
        self._forget(_places(partitions))

    def _forget(self, places: set[TopicPartition]) -> None:
        self._owned -= places
        for place in places:
            self._due.pop(place, None)

    # --- Commits -----------------------------------------------------------------------------------------------

    def _commit_when_due(self) -> None:
        """Without waiting for the answer. One that fails is made good by the next, or by the last."""
        if self._due and self._now_s() - self._committed_s >= _COMMIT_EVERY_S:
            self._committed_s = self._now_s()
            self._consumer.commit(offsets=_client_partitions(self._due), asynchronous=True)

    def _on_commit(self, error: "KafkaError | None", partitions: Sequence[Any]) -> None:
        if error is not None:
            return
        for one in partitions:
            place = TopicPartition(TopicName(one.topic), one.partition)
            if one.error is None and self._due.get(place) == one.offset:
                del self._due[place]

    def _commit(self, due: Mapping[TopicPartition, int]) -> None:
        """And wait for the answer."""
        from confluent_kafka import KafkaError, KafkaException

        if not due:
            return
        moved_on = {KafkaError.ILLEGAL_GENERATION, KafkaError.UNKNOWN_MEMBER_ID, KafkaError.REBALANCE_IN_PROGRESS}
        try:
            for one in self._consumer.commit(offsets=_client_partitions(due), asynchronous=False) or ():
                if one.error is not None:
                    raise KafkaException(one.error)
        except KafkaException as failure:
            error = failure.args[0]
            if error.code() not in moved_on:
                raise
            note(f"the group has moved on, and what was printed last will come again ({error.name()})")
        for place in list(due):
            self._due.pop(place, None)


def print_as_member(
    cluster: Connection,
    group: str,
    topics: Sequence[str],
    printer: Printer,
    *,
    follow: bool,
    settings: Mapping[str, Any],
    quiet_s: float | None = None,
) -> None:
    """Join, print, commit and leave: at the end, when told to stop, or when nothing has come for so long.

    `settings` are librdkafka's.
    """
    own = {
        "client.id": "headrace-consume",
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": not follow,
        **FETCH_STEADILY,
        **settings,
    }
    if printer.is_done():
        return
    with StopRequest() as stop:
        member = GroupMember(
            lambda more: cluster.consumer({**own, **more}), follow=follow, patience_s=cluster.timeout_s
        )
        try:
            member.subscribe(topics)
            brought = member.polls(stop)
            for messages in brought if quiet_s is None else until_quiet(brought, quiet_s):
                member.printed(printer.print(messages))
                if printer.is_done():
                    break
        finally:
            member.leave()
        stop.check()


def _places(partitions: Iterable[Any]) -> set[TopicPartition]:
    return {TopicPartition(TopicName(one.topic), one.partition) for one in partitions}


def _client_partitions(offsets: Mapping[TopicPartition, int]) -> list[Any]:
    from confluent_kafka import TopicPartition as ClientPartition

    return [ClientPartition(*place, offset) for place, offset in offsets.items()]
