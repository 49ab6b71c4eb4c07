"""The audit topic as senders and counters use it: publish, and know that it is there; read, and have the newest of all.

It has a client of its own, so that publishing waits for nobody's messages and calls nobody's callbacks. Reading goes
by way of Arrow and needs the extra `arrow`.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, Message, Producer

from headrace.audit.messages import AuditMessage, encode, newest, parse
from headrace.client.reaching import Trouble, make_client
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.wire.settings import ClientSettings

PUBLISH_TIMEOUT_S: Final = 30.0
_AT_ONCE: Final = 5_000
_LEEWAY_S: Final = 5.0
# Of the settings that a program's client has, those that say how a cluster is reached.
_REACHING: Final = (
    *("bootstrap.", "security.", "sasl.", "ssl.", "enable.ssl.", "enable.sasl.", "socket.", "broker.", "client."),
    *("reconnect.", "metadata.", "topic.metadata.", "api.", "allow.auto.", "logger", "log_level", "oauth_cb"),
)


class AuditUnavailable(HeadraceError):
    """What is to be published did not get through, or nobody knows whether it did."""


class AuditTopic:
    """Any thread may publish."""

    def __init__(self, config: Mapping[str, Any], topic: str, *, timeout_s: float = PUBLISH_TIMEOUT_S) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._trouble = Trouble()
        reaching = {name: value for name, value in config.items() if name.startswith(_REACHING)}
        own = {
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "message.timeout.ms": round(timeout_s * 1000),
            "error_cb": self._trouble.note,
        }
        self._raw = make_client(Producer, reaching | own)
        self._publishing = threading.Lock()

    def publish(self, messages: Sequence[AuditMessage]) -> None:
        """Returns when the cluster has acknowledged all of them; otherwise AuditUnavailable."""
        with self._publishing:
            for first in range(0, len(messages), _AT_ONCE):
                self._publish(messages[first : first + _AT_ONCE])

    def _publish(self, messages: Sequence[AuditMessage]) -> None:
        outcomes: list[KafkaError | None] = []

        def note(error: KafkaError | None, _: Message) -> None:
            outcomes.append(error)

        for message in messages:
            key, value = encode(message)
            self._raw.produce(self._topic, value, key, on_delivery=note)
        if self._raw.flush(self._timeout_s + _LEEWAY_S):
            self._raw.purge()  # An old word that came later would do no harm; a queue that only grows would.
            self._raw.flush(_LEEWAY_S)
        failures = [error.str() for error in outcomes if error is not None]
        if failures or len(outcomes) < len(messages):
            cause = self._trouble.text(failures[0] if failures else "no answer")
            raise AuditUnavailable(f"the audit topic {self._topic!r} did not take what was published: {cause}")


def read_audit(settings: "ClientSettings", topic: str) -> list[AuditMessage]:
    """The newest word on everything, as of now. Offsets that were deleted are nobody's loss here."""
    from headrace import columnar

    batches = columnar.read(settings, topic, columns=["value"], missing="skip")
    values = (value for batch in batches for value in batch.column("value").to_pylist())
    return newest(parse(value) for value in values if value is not None)
