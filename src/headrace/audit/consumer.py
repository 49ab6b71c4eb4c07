"""`AuditedConsumer`: confluent-kafka's consumer, which counts what it hands out and publishes that before it commits.

    with AuditedConsumer({"bootstrap.servers": "localhost:9092", "group.id": "billing"}) as consumer:
        consumer.subscribe(["clicks"])
        while (message := consumer.poll(1.0)) is not None:
            ...
            consumer.commit()

Its group is a tier. Counts are published before offsets are committed, so that a consumer that dies has published of
all that the next one will not read. What it had published and not committed is read again, and is counted as
duplicated, which is what it is. Committing by the clock is the client's own business and refused here: it would commit
what was not published.
"""

import os
import socket
import time
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Message, TopicPartition

from headrace.audit.audit_topic import PUBLISH_TIMEOUT_S, AuditTopic
from headrace.audit.messages import AUDIT_TOPIC
from headrace.audit.reconcile import LAKE, NODE
from headrace.audit.stamps import check_name, nameable
from headrace.audit.tally import Tally
from headrace.client.reaching import make_client
from headrace.errors import ConfigError
from headrace.wire.settings import Config, librdkafka_config

_NO_AUTO_COMMIT: Final = {"enable.auto.commit": False}
# That one counter keeps in memory, at a byte for each message.
_SPANS_MAX: Final = 1_000
_TAKEN: Final = frozenset({NODE, LAKE})


class AuditedConsumer:
    """For one thread. Belongs to whoever closes it."""

    def __init__(
        self,
        config: Config,
        *,
        tier: str | None = None,
        audit_topic: str = AUDIT_TOPIC,
        publish_timeout_s: float = PUBLISH_TIMEOUT_S,
    ) -> None:
        """`config` is the client's own. `tier` is what reports call it; the group's name if not said."""
        settings = librdkafka_config(config=config)
        if str(settings.get("enable.auto.commit", "false")).lower() == "true":
            raise ConfigError("enable.auto.commit=true would commit what was not published: call commit()")
        group = settings.get("group.id")
        if group is None:
            raise ConfigError("group.id is not set: it is the name of the tier")
        name = nameable(str(group)) if tier is None else check_name(tier, word="tier")
        if name in _TAKEN:
            raise ConfigError(f"{name!r} is the name of another tier: say tier=... what to call this one")
        self._raw = make_client(Consumer, settings | _NO_AUTO_COMMIT)
        self._tier = name
        self._tally = self._new_tally()
        self._topic = AuditTopic(settings, audit_topic, timeout_s=publish_timeout_s)
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def subscribe(self, topics: list[str], **listeners: Any) -> None:
        self._raw.subscribe(topics, **listeners)

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._raw.assign(partitions)

    def poll(self, timeout: float = -1) -> Message | None:
        message = self._raw.poll(timeout)
        if message is not None:
            self._count(message)
        return message

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        messages: list[Message] = self._raw.consume(num_messages, timeout)
        for message in messages:
            self._count(message)
        return messages

    def commit(self) -> None:
        """Publish what was counted, then commit where the consumer is. Both are waited for."""
        self.publish()
        positions = [each for each in self._raw.position(self._raw.assignment()) if each.offset >= 0]
        if positions:
            self._raw.commit(offsets=positions, asynchronous=False)

    def publish(self) -> None:
        told = self._tally.take_changed()
        try:
            self._topic.publish(told)
        except BaseException:
            self._tally.restore(told)
            raise
        if self._tally.span_count > _SPANS_MAX:
            # Under another name it begins with nothing; what both have seen is still found to be double.
            self._tally = self._new_tally()

    def close(self) -> None:
        """Publish what was counted, and leave the group. Nothing is committed that was not."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            self.publish()
        finally:
            self._raw.close()

    def _new_tally(self) -> Tally:
        counter = nameable(f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1_000}")
        return Tally(tier=self._tier, counter=counter)

    def _count(self, message: Message) -> None:
        if message.error() is None:
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            headers = message.headers()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            assert not isinstance(headers, dict)  # That is what may be sent; what is received is a list.
            self._tally.add(topic, partition, offset, headers)
