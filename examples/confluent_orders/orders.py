"""A service as many are: orders come in by one topic, and an invoice goes out for each by another.

`OrderDesk` writes orders, each acknowledged before the customer is told. `Billing` is one member of the consumer group
'billing'; it writes the invoice first and commits afterwards, so that nothing is lost and a crash may write one twice.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer


class NotAccepted(Exception):
    """The order is not in the log; the customer has to be told."""


@dataclass(frozen=True)
class Order:
    customer: str
    cents: int


class OrderDesk:
    def __init__(self, bootstrap: str, topic: str, **settings: Any) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 20}
            | settings
        )

    def place(self, order: Order) -> None:
        """Return once the order is safe, or raise NotAccepted."""
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        self._producer.produce(
            self._topic, key=order.customer, value=json.dumps(asdict(order)), on_delivery=delivered
        )
        if self._producer.flush(30) or failures:
            raise NotAccepted(str(failures[0]) if failures else "no answer in time")


class Billing:
    def __init__(self, bootstrap: str, *, orders: str, invoices: str, **settings: Any) -> None:
        self._invoices = invoices
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "billing",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "partition.assignment.strategy": "cooperative-sticky",
            }
            | settings
        )
        self._consumer.subscribe([orders])

    def run(self, *, until: Callable[[], bool]) -> None:
        """Invoice order after order."""
        while not until():
            message = self._consumer.poll(0.05)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.fatal():
                    raise KafkaException(error)
                continue
            order = Order(**json.loads(message.value()))
            self._producer.produce(
                self._invoices, key=order.customer, value=f"{order.customer} owes {order.cents / 100:.2f}"
            )
            self._producer.flush(30)
            self._consumer.commit(message, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()
        self._producer.flush(30)
