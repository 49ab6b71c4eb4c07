"""kafka-e2e-latency: how long one record takes from a producer to a consumer."""

import time
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.perf import cluster_with, java_settings, print_line
from headrace.cli.kafka_scripts.script import Script
from headrace.cli.output import CommandError
from headrace.cli.stopping import StopRequest
from headrace.cli.topic_facts import answer_about
from headrace.lab.perf import latency
from headrace.lab.perf.formats import topic_created_line
from headrace.lab.perf.properties import consumer_properties, producer_properties

if TYPE_CHECKING:
    from confluent_kafka import Consumer

_POSITIONS: Final = ("bootstrap-server", "topic", "num-records", "producer-acks", "record-size", "command-config")

FLAGS: Final = (
    Flag("topic", Takes.VALUE, "REQUIRED: the topic, which is created if there is none."),
    Flag("num-records", Takes.VALUE, "REQUIRED: how many records, one after the other."),
    Flag("producer-acks", Takes.VALUE, "REQUIRED: 1 or all."),
    Flag("record-size", Takes.VALUE, "REQUIRED: how many bytes a value has."),
    Flag("record-key-size", Takes.MAYBE, "How many bytes a key has; without one by default."),
    Flag("num-headers", Takes.MAYBE, "How many headers a record has."),
    Flag("record-header-key-size", Takes.MAYBE, "How many bytes the name of a header has."),
    Flag("record-header-size", Takes.MAYBE, "How many bytes a header has; -1 for null."),
)


def run(words: Words) -> None:
    acks = words.required("producer-acks")
    if acks not in {"1", "all"}:
        raise Misused(f"--producer-acks {acks}: a latency needs an acknowledgement, 1 or all")
    settings = java_settings(words, files=("command-config",), pairs=())
    plan = latency.Plan(
        topic=words.required("topic"),
        records=words.bounded("num-records", least=1),
        value_bytes=words.bounded("record-size", least=0),
        key_bytes=words.bounded("record-key-size", least=0, otherwise=0),
        headers=words.bounded("num-headers", least=0, otherwise=0),
        header_key_bytes=words.bounded("record-header-key-size", least=0, otherwise=0),
        header_value_bytes=words.bounded("record-header-size", least=-1, otherwise=0),
    )
    sender = cluster_with(producer_properties({**settings, "acks": acks, "linger.ms": "0"}))
    reader = cluster_with(
        consumer_properties(
            {
                **settings,
                "group.id": f"test-group-{time.time_ns() // 1_000_000}",
                "enable.auto.commit": "false",
                "auto.offset.reset": "latest",
                "fetch.max.wait.ms": "0",  # Nothing shall wait for company.
            }
        )
    )
    with closing(reader.consumer({})) as consumer, StopRequest() as stop:
        if plan.topic not in reader.cluster_metadata(consumer).topics:
            _create(reader, plan.topic)
        _stand_at_the_end(reader, consumer, plan.topic)
        producer = sender.producer({})
        latency.run(producer, consumer, plan, latency.Surroundings(print_line=print_line, check=stop.check))


def _create(cluster: Connection, topic: str) -> None:
    from confluent_kafka.admin import NewTopic

    print_line(topic_created_line(topic))
    futures = cluster.admin().create_topics([NewTopic(topic, 1, 1)], request_timeout=cluster.timeout_s)
    answer_about(topic, futures[topic])


def _stand_at_the_end(cluster: Connection, consumer: "Consumer", topic: str) -> None:
    """Where the end is has to be known before the first record is sent."""
    from confluent_kafka import TopicPartition

    deadline_s = time.monotonic() + cluster.timeout_s
    while not (found := cluster.cluster_metadata(consumer).topics.get(topic)) or not found.partitions:
        if time.monotonic() > deadline_s:
            raise CommandError(f"topic {topic!r} has no partitions")
        time.sleep(0.05)  # It was created just now.
    places = []
    for number in sorted(found.partitions):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=cluster.timeout_s)
        places.append(TopicPartition(topic, number, end))
    consumer.assign(places)


def spell_out(arguments: Sequence[str]) -> Sequence[str]:
    """Until 4.1 Kafka's tool knew no flags, only the order of things; both are understood."""
    if not arguments or arguments[0].startswith("--"):
        return arguments
    if len(arguments) not in {5, 6}:
        listed = " ".join(_POSITIONS[:5])
        raise Misused(f"{len(arguments)} words without flags are not 5 or 6: {listed} [{_POSITIONS[5]}]")
    return [word for name, value in zip(_POSITIONS, arguments, strict=False) if value for word in (f"--{name}", value)]


SCRIPT: Final = Script(
    "kafka-e2e-latency",
    "measure how long a record takes from a producer to a consumer",
    FLAGS,
    run,
    spell_out=spell_out,
)
