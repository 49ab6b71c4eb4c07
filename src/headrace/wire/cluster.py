"""A cluster as a client sees it: where its brokers are, who leads what, and a connection to each.

    with Cluster(settings) as cluster:
        leader = cluster.leader("events", 3)
        connection = cluster.connection(leader.node_id, "fetch")

Any thread may use it. What is known is one immutable `Metadata`, replaced as a whole; `refresh(than=...)` asks once
however many threads find the same thing out of date. A connection belongs to a broker and a purpose, so that a
long fetch does not stand before a short question; one that failed is replaced when it is next asked for.

Failures: what may pass is tried again until the time given is over (`Unavailable`, and error codes by
`wire.errors.advice`); the rest is raised at once. Where none of the bootstrap addresses ever answered, that is an
error after a few rounds: more often it is a wrong address than a cluster about to start. Whoever knows better, as the
tasks of a driver that was answered, says so (`bootstrap_answered`), and waits as for any answer.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar

from headrace.errors import ErrorCode, HeadraceError
from headrace.ids import TopicPartition
from headrace.protocol.messages import metadata as metadata_messages
from headrace.protocol.schema import ApiMessages, Value
from headrace.wire.connection import Connection
from headrace.wire.errors import (
    Advice,
    ConnectionClosed,
    Unavailable,
    UnknownPartition,
    UnknownTopic,
    advice,
    refusal,
)
from headrace.wire.metadata import Metadata, Topic, parse_metadata
from headrace.wire.patience import Patience
from headrace.wire.settings import Address, ClientSettings

CONTROL: Final = "control"  # The purpose of short questions.
_BOOTSTRAP_ROUNDS_MAX: Final = 3
# A topic that was created a moment ago is not known to every broker; one that was mistyped never will be.
_NEW_TOPIC_S: Final = 2.0

T = TypeVar("T")


class Leader(NamedTuple):
    node_id: int
    epoch: int


class Cluster:
    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._metadata = Metadata()
        self._learnt_s = 0.0
        self._wanted: set[str] = set()  # Topics that somebody asked for.
        self._connections: dict[tuple[Address, str], Connection] = {}
        self._state = threading.Lock()  # Guards the above, and is never held while waiting.
        self._refreshing = threading.Lock()
        self._over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """From any thread: whoever waits for an answer gets `ConnectionClosed`."""
        self._over.set()
        with self._state:
            connections = list(self._connections.values())
            self._connections.clear()
        for connection in connections:
            connection.close()

    def __str__(self) -> str:
        return ",".join(map(str, self.settings.bootstrap))

    # --- What is known -----------------------------------------------------------------------------------------

    @property
    def metadata(self) -> Metadata:
        """As it was last learnt; empty before anything was asked."""
        return self._metadata

    @property
    def metadata_age_s(self) -> float:
        return time.monotonic() - self._learnt_s

    def refresh(
        self, topics: Iterable[str] = (), *, than: Metadata | None = None, timeout_s: float | None = None
    ) -> Metadata:
        """Learn anew about these topics and all that were asked for before.

        `than` is what the caller found to be out of date: where somebody else has replaced it, nothing is asked.
        """
        with self._state:
            self._wanted.update(topics)
        patience = self.patience(timeout_s)
        # Whoever asks already may have more patience than we.
        if not self._refreshing.acquire(timeout=patience.left_s):
            raise Unavailable(f"nobody at {self} has answered yet")
        try:
            if than is not None and self._metadata is not than:
                return self._metadata
            with self._state:
                asked = [{"name": name} for name in sorted(self._wanted)]
            return self._learn(asked, patience)
        finally:
            self._refreshing.release()

    def all_topics(self, *, timeout_s: float | None = None) -> Mapping[str, Topic]:
        """Every topic that this user may see."""
        with self._refreshing:
            return self._learn(None, self.patience(timeout_s)).topics

    def topic(self, name: str, *, timeout_s: float | None = None) -> Topic:
        """What is known of a topic, asked for where that is nothing or old. `UnknownTopic` where there is none."""
        patience = self.patience(timeout_s)
        if self.metadata_age_s > self.settings.metadata_age_s_max or name not in self._metadata.topics:
            self.refresh([name], timeout_s=patience.left_s)
        while (found := self._metadata.topics.get(name)) is None:
            seen = self._metadata
            code = seen.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            unknown = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
            if advice(code) is Advice.FAIL:
                raise refusal(code, f"topic {name!r}")
            if (unknown and patience.spent_s > _NEW_TOPIC_S) or not patience.pause():
                raise UnknownTopic(name, where=str(self)) if unknown else refusal(code, f"topic {name!r}")
            self.refresh([name], than=seen, timeout_s=patience.left_s)
        return found

    def partitions(self, topic: str, *, timeout_s: float | None = None) -> range:
        """The partitions of a topic, by number."""
        return range(len(self.topic(topic, timeout_s=timeout_s).partitions))

    def leader(self, topic: str, partition: int, *, timeout_s: float | None = None) -> Leader:
        """Who leads a partition, waiting for an election where nobody does."""
        patience = self.patience(timeout_s)
        while True:
            seen = self._metadata
            partitions = self.topic(topic, timeout_s=patience.left_s).partitions
            if not 0 <= partition < len(partitions):
                raise UnknownPartition(topic, partition, count=len(partitions))
            found = partitions[partition]
            if found.leader_id in self._metadata.brokers:
                return Leader(found.leader_id, found.leader_epoch)
            code = found.error or ErrorCode.LEADER_NOT_AVAILABLE
            trouble = refusal(code, f"partition {partition} of topic {topic!r}")
            if not patience.pause():
                raise trouble
            try:
                self.refresh([topic], than=seen, timeout_s=patience.left_s)
            except Unavailable as error:  # Our time ended just there; why we asked tells more.
                raise trouble from error

    # --- Who to ask --------------------------------------------------------------------------------------------

    def connection(self, node_id: int, purpose: str = CONTROL) -> Connection:
        """The connection to this broker for this purpose: another one than last time where that one failed."""
        address = self._metadata.brokers.get(node_id)
        if address is None:
            raise Unavailable(f"broker {node_id} is not part of the cluster at {self} at the moment")
        return self._connection(address, purpose)

    def call(self, node_id: int, api: ApiMessages, body: Mapping[str, Any], *, timeout_s: float | None = None) -> Value:
        """Ask one broker, once."""
        return self.connection(node_id).call(api, body, timeout_s=timeout_s)

    def call_any(self, api: ApiMessages, body: Mapping[str, Any], *, timeout_s: float | None = None) -> Value:
        """Ask whoever answers, for as long as there is time. What error codes say is the caller's to read."""
        return self._call_any(api, body, self.patience(timeout_s))

    def call_leaders(
        self,
        api: ApiMessages,
        places: Iterable[TopicPartition],
        *,
        body_of: Callable[[Mapping[TopicPartition, Leader]], Mapping[str, Any]],
        results_of: Callable[[Value], Iterable[tuple[TopicPartition, int, T]]],
        timeout_s: float | None = None,
    ) -> dict[TopicPartition, T]:
        """Ask the leader of each partition, all brokers at once, again where an error may pass.

        `body_of` makes the request for those that one broker leads; `results_of` takes an answer apart into partition,
        error code and what else there is of it. Either every partition has a result, or this raises.
        """
        patience = self.patience(timeout_s)
        left = dict.fromkeys(places)
        results: dict[TopicPartition, T] = {}
        trouble: HeadraceError | None = None
        while left:
            seen = self._metadata
            is_stale = False
            for answer in self._ask_leaders(api, left, body_of, patience):
                if isinstance(answer, Unavailable):
                    is_stale = True
                    # When time is up, that there was no answer says less than what was answered before.
                    trouble = answer if trouble is None or patience.left_s > 0 else trouble
                    continue
                for place, code, result in results_of(answer):
                    if code == ErrorCode.NONE:
                        results[place] = result
                        left.pop(place, None)
                        continue
                    trouble = refusal(code, f"{api.name} of {place}")
                    if advice(code) is Advice.FAIL:
                        raise trouble
                    is_stale |= advice(code) is Advice.REFRESH
            if left:
                if not patience.pause():
                    raise trouble or Unavailable(f"{api.name}: no answer told of {next(iter(left))}")
                if is_stale:
                    self.refresh({place.topic for place in left}, than=seen, timeout_s=patience.left_s)
        return results

    def patience(self, timeout_s: float | None = None) -> Patience:
        """How long to go on trying; `close` ends its waits."""
        if self._over.is_set():
            raise ConnectionClosed(f"the client of {self} is closed")
        return Patience(self.settings, timeout_s=timeout_s, over=self._over)

    # --- Within ------------------------------------------------------------------------------------------------

    def _connection(self, address: Address, purpose: str) -> Connection:
        with self._state:
            if self._over.is_set():
                raise ConnectionClosed(f"the client of {self} is closed")
            found = self._connections.get((address, purpose))
            if found is None or not found.usable:
                if found is not None:
                    found.close()
                found = self._connections[address, purpose] = Connection(address, self.settings)
            return found

    def _learn(self, asked: list[dict[str, str]] | None, patience: Patience) -> Metadata:
        body = {"topics": asked, "allow_auto_topic_creation": False}
        answer = self._call_any(metadata_messages.API, body, patience)
        if answer["error_code"] != ErrorCode.NONE:
            raise refusal(answer["error_code"], f"metadata of {self}")
        learnt = parse_metadata(answer)
        with self._state:
            known = self._metadata
            if asked is None:  # Whoever asked for all topics was told of all: others are gone.
                there = {name: topic for name, topic in known.topics.items() if name in learnt.topics}
                known = replace(known, topics=there)
            self._metadata = known.updated(learnt)
            self._learnt_s = time.monotonic()
            return self._metadata

    def _call_any(self, api: ApiMessages, body: Mapping[str, Any], patience: Patience) -> Value:
        while True:
            troubles: list[Unavailable] = []
            for address in self._candidates():
                try:
                    return self._connection(address, CONTROL).call(api, body, timeout_s=patience.answer_s())
                except Unavailable as trouble:
                    troubles.append(trouble)
            strangers = not (self._metadata.brokers or self.settings.bootstrap_answered)
            if (strangers and patience.pauses + 1 >= _BOOTSTRAP_ROUNDS_MAX) or not patience.pause():
                raise troubles[0]

    def _candidates(self) -> list[Address]:
        """Whom to ask: brokers that we are connected to, then other brokers, then where it all began."""
        brokers = list(self._metadata.brokers.values())
        random.shuffle(brokers)
        with self._state:
            connected = {address for (address, purpose), one in self._connections.items() if purpose == CONTROL}
        brokers.sort(key=lambda address: address not in connected)
        return list(dict.fromkeys([*brokers, *self.settings.bootstrap]))

    def _ask_leaders(
        self,
        api: ApiMessages,
        places: Iterable[TopicPartition],
        body_of: Callable[[Mapping[TopicPartition, Leader]], Mapping[str, Any]],
        patience: Patience,
    ) -> Iterable[Value | Unavailable]:
        """Ask all, then wait for all: the slowest broker is waited for, not the sum of them."""
        by_node: dict[int, dict[TopicPartition, Leader]] = {}
        for place in places:
            leader = self.leader(place.topic, place.partition, timeout_s=patience.left_s)
            by_node.setdefault(leader.node_id, {})[place] = leader
        sent = []
        for node_id, led in by_node.items():
            try:
                connection = self.connection(node_id)
                sent.append((connection, connection.send(api, body_of(led))))
            except Unavailable as trouble:
                yield trouble
        for connection, ticket in sent:
            try:
                yield connection.receive(ticket, timeout_s=patience.answer_s())
            except Unavailable as trouble:
                yield trouble
