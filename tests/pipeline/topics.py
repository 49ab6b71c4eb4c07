"""Topics as tests of the pipeline need them: filled, cut off at the front, grown, made anew."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from headrace import columnar


def fill(bootstrap: str, topic: str, values: Iterable[object], *, partition: int = 0) -> None:
    """Records of these values, as text, in one partition."""
    table = pa.table({"value": [str(value).encode() for value in values]})
    columnar.write(bootstrap, topic, table, partition=partition)


def _done(bootstrap: str, ask: Callable[[AdminClient], dict[Any, Any]]) -> None:
    """Have an administrator do it. The client is held until it is done: nobody would hear the answer without it."""
    client = AdminClient({"bootstrap.servers": bootstrap})
    for future in ask(client).values():
        future.result(30)


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    _done(bootstrap, lambda admin: admin.create_topics([NewTopic(topic, partitions, 1)]))


def cut(bootstrap: str, topic: str, before: int, *, partition: int = 0) -> None:
    """Delete what is before this offset."""
    _done(bootstrap, lambda admin: admin.delete_records([TopicPartition(topic, partition, before)]))


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    _done(bootstrap, lambda admin: admin.create_partitions([NewPartitions(topic, partitions)]))


def delete(bootstrap: str, topic: str) -> None:
    _done(bootstrap, lambda admin: admin.delete_topics([topic]))
