"""The first word with a cluster: is anybody there, do they let us in, and do they have these topics?

librdkafka never gives up by itself; it goes on trying, and says why it fails to whoever listens. Here somebody listens,
so that a wrong address or password is one clear error instead of silence.
"""

import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from headrace.client.errors import ClientError, UnknownTopic, Unreachable
from headrace.errors import ConfigError

_STEP_S: Final = 1.0
_TOPIC_STEP_S: Final = 0.1
# A topic that was made a moment ago may not be known to every broker yet.
TOPIC_WAIT_S: Final = 5.0
_SILENCE: Final = frozenset({KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN})
_HOPELESS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
_MISSING: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE})

Client = TypeVar("Client")


class Trouble:
    """The last thing that a client complained about."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def note(self, error: KafkaError) -> None:
        """Of several complaints, the one that time will not mend."""
        if self.last is None or self.last.code() not in _HOPELESS:
            self.last = error

    @property
    def is_hopeless(self) -> bool:
        return self.last is not None and self.last.code() in _HOPELESS

    def text(self, otherwise: str) -> str:
        if self.last is None:
            return otherwise
        # "host:port/bootstrap: Connect to ... failed: Connection refused (after 0ms in state CONNECT)"
        return self.last.str().split(" (after ")[0].rpartition("/bootstrap: ")[2]


def make_client(make: Callable[[dict[str, Any]], Client], settings: dict[str, Any]) -> Client:
    """A client of the library; a setting that it does not take is the user's mistake."""
    try:
        return make(settings)
    except KafkaException as error:
        raise ConfigError(error.args[0].str()) from error


def partition_count(
    client: Consumer | Producer, topic: str, trouble: Trouble, *, bootstrap: str, timeout_s: float
) -> int:
    """How many partitions a topic has. Waits a little for one that does not exist yet."""
    deadline_s = time.monotonic() + timeout_s
    topic_deadline_s = time.monotonic() + min(TOPIC_WAIT_S, timeout_s)
    while True:
        try:
            found = client.list_topics(topic, timeout=_STEP_S).topics[topic]
        except KafkaException as error:
            if error.args[0].code() not in _SILENCE:
                raise ClientError(f"cannot ask {bootstrap}: {error.args[0].str()}") from error
            client.poll(0)  # Complaints come from in here.
            if trouble.is_hopeless or time.monotonic() >= deadline_s:
                raise Unreachable(f"cannot reach {bootstrap}: {trouble.text('no answer')}") from error
            continue
        if found.error is None:
            return len(found.partitions)
        if found.error.code() not in _MISSING:
            raise ClientError(f"topic {topic!r}: {found.error.str()}")
        if time.monotonic() >= topic_deadline_s:
            raise UnknownTopic(f"there is no topic {topic!r} at {bootstrap}")
        time.sleep(_TOPIC_STEP_S)
