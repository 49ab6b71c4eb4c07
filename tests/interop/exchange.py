"""What was sent to one broker and read from it, each once, however many tests look at it."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.clients import CLIENTS, Client, Report, usable_clients
from tests.interop.records import PARTITIONS, SCENARIOS, Record, Scenario
from tests.oracle.subject import RunningBroker

_SETTLE_TIMEOUT_S = 20
_SLOW_RECORDS = 400
_SLOW_PAUSE_MS = 10


class Exchange:
    def __init__(self, broker: RunningBroker) -> None:
        self.broker = broker
        self.sent = cache(self._send)
        self.read = cache(self._read)
        self.read_after_restart = cache(self._read_after_restart)
        self._restarted = cache(self._restart)

    def create_topics(self, *topics: str, **configs: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        wanted = [NewTopic(topic, PARTITIONS, 1, config=settings) for topic in topics]
        for made in admin.create_topics(wanted).values():
            made.result(30)

    def wait_until(self, done: Callable[[], bool]) -> None:
        """Kafka answers some admin requests before their effect can be seen."""
        deadline_s = time.monotonic() + _SETTLE_TIMEOUT_S
        while not done():
            assert time.monotonic() < deadline_s, "never came true"
            time.sleep(0.05)

    def interrupt(self) -> None:
        """A node is killed, Apache Kafka stopped; both come back on the same port."""
        if self.broker.name == "headrace":
            self.broker.kill()
        else:
            self.broker.stop()
        self.broker.start()

    def _send(self, producer: str) -> dict[str, list[Record]]:
        """What a client sent, by scenario, in the order of each partition."""
        client = CLIENTS[producer]
        able = {name: client.able(scenario.records) for name, scenario in SCENARIOS.items()}
        self.create_topics(*(topic_of(producer, name) for name in SCENARIOS))
        client.produce(
            self.broker.bootstrap,
            {
                topic_of(producer, name): Scenario(records=able[name], codec=scenario.codec, acks=scenario.acks)
                for name, scenario in SCENARIOS.items()
            },
        )
        return able

    def _read(self, consumer: str, producer: str) -> dict[str, Report]:
        """What a client found of another's topics, by scenario."""
        self.sent(producer)
        reports = CLIENTS[consumer].consume(
            self.broker.bootstrap,
            [topic_of(producer, name) for name in SCENARIOS],
            timestamps=CLIENTS[producer].stamps,
        )
        return dict(zip(SCENARIOS, reports, strict=True))

    def _read_after_restart(self, producer: str) -> Report:
        self._restarted()
        client = CLIENTS[producer]
        return client.consume(self.broker.bootstrap, [f"restart-{producer}"], timestamps=False)[0]

    def _restart(self) -> None:
        """Interrupt the broker once while every client is sending."""
        clients = usable_clients()
        self.create_topics(*(f"restart-{client.name}" for client in clients))
        begun = threading.Barrier(len(clients) + 1, timeout=60)

        def send(client: Client) -> None:
            client.produce_slowly(
                self.broker.bootstrap, f"restart-{client.name}", slow_records(), pause_ms=_SLOW_PAUSE_MS, begun=ready
            )

        def ready() -> None:
            begun.wait()

        with ThreadPoolExecutor(len(clients)) as pool:
            sending = [pool.submit(send, client) for client in clients]
            begun.wait()
            self.interrupt()
            for one in sending:
                one.result()


def topic_of(producer: str, scenario: str) -> str:
    return f"{producer}-{scenario}"


def slow_records() -> list[Record]:
    return [Record(partition=0, key=b"%d" % index, value=b"value-%d" % index) for index in range(_SLOW_RECORDS)]
