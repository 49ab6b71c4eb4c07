"""Request bodies that the tables share, and the topics that every case may read."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.conformance.batches import BASE_TIMESTAMP_MS, Batch, Record, batch
from tests.conformance.broker import Broker
from tests.conformance.case import Ask, Topic, Until
from tests.conformance.run import Context
from tests.conformance.schemas import Message

UNKNOWN_ID = uuid.UUID("7c4e9f0a-31bd-4c55-9d0e-2f6f5f0f9a11")
NO_ID = uuid.UUID(int=0)

SHARED = "shared-"  # What the names of topics that every case may read begin with.
# Three partitions: batches of every codec with timestamps out of order; a log that begins at offset 4; nothing.
DATA = f"{SHARED}data"
# Four batches of about 10 KB each, for byte limits.
LARGE = f"{SHARED}large"
STAMPED = f"{SHARED}stamped"
SHARED_TOPICS: Mapping[str, Topic] = {
    DATA: Topic(partitions=3),
    LARGE: Topic(partitions=2),
    STAMPED: Topic(configs={"message.timestamp.type": "LogAppendTime"}),
}
DATA_END = 15

ILLEGAL_NAMES = {
    "empty name": "",
    "name dot": ".",
    "name two dots": "..",
    "name with space": "a b",
    "name with slash": "a/b",
    "name too long": "n" * 250,
    "name not ASCII": "naïve",
    "name with NUL": "a\0b",
}


def id_of(topic: str) -> Callable[[Context], uuid.UUID]:
    return lambda context: context.topic_id(topic)


def produce(
    records: bytes | None,
    *,
    topic: str = "$topic",
    topic_id: Any = None,
    partition: int = 0,
    acks: int = -1,
    **more: Any,
) -> Message:
    return {
        "acks": acks,
        "timeout_ms": 5000,
        "topic_data": [produced_topic(topic, {partition: records}, topic_id=topic_id)],
        **more,
    }


def produced_topic(topic: str, records: Mapping[int, bytes | None], *, topic_id: Any = None) -> Message:
    partitions = [{"index": index, "records": data} for index, data in records.items()]
    return {"name": topic, "topic_id": topic_id or id_of(topic), "partition_data": partitions}


def fetched_partition(partition: int = 0, offset: int = 0, **more: Any) -> Message:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **more}


def fetched_topic(topic: str, *partitions: Message, topic_id: Any = None) -> Message:
    return {"topic": topic, "topic_id": topic_id or id_of(topic), "partitions": list(partitions)}


def fetch(*topics: Message, **more: Any) -> Message:
    return {"max_wait_ms": 100, "min_bytes": 1, "topics": list(topics), **more}


def stored(topic: str = "$topic", *, partition: int = 0) -> Ask:
    """Compare what a partition holds."""
    body = fetch(fetched_topic(topic, fetched_partition(partition)), max_wait_ms=0)
    return Ask("Fetch", body, version=12)


def offsets(topic: str, *timestamps: int, partition: int = 0, **more: Any) -> Message:
    asked = [{"partition_index": partition, "timestamp": one, **more} for one in timestamps]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": asked}]}


def metadata(*names: str, **more: Any) -> Message:
    return {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False, **more}


def creatable(name: str, *, partitions: int = 1, replicas: int = 1, **more: Any) -> Message:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **more}


def until_topic_exists(name: str = "$topic", *, partitions: int = 1) -> Until:
    def done(answer: Message) -> bool:
        return answer["topics"][0]["error_code"] == 0 and len(answer["topics"][0]["partitions"]) == partitions

    return Until("Metadata", metadata(name), done)


def until_topic_is_gone(name: str = "$topic") -> Until:
    return Until("Metadata", metadata(name), lambda answer: answer["topics"][0]["error_code"] == 3)


def until_config_is(name: str, value: str | None, *, topic: str = "$topic") -> Until:
    def done(answer: Message) -> bool:
        return bool(answer["results"][0]["configs"][0]["value"] == value)

    return Until("DescribeConfigs", described(2, topic, keys=[name]), done)


def described(resource_type: int, name: str, *, keys: Sequence[str] | None = None, **more: Any) -> Message:
    resource = {"resource_type": resource_type, "resource_name": name, "configuration_keys": keys}
    return {"resources": [resource], **more}


def fill_shared_topics(broker: Broker) -> None:
    """The same batches for everyone, then a few of them deleted."""
    two = [Record(key=b"a", value=None), Record(key=None, value=b"", headers=[("h", b"1"), ("h", None)])]
    data = [
        batch(3),
        batch(4, codec="gzip", base_timestamp_ms=BASE_TIMESTAMP_MS + 1000),
        Batch(records=two, codec="snappy", base_timestamp_ms=BASE_TIMESTAMP_MS + 500).encode(),
        batch(5, codec="lz4", base_timestamp_ms=BASE_TIMESTAMP_MS + 2000),
        batch(1, codec="zstd", base_timestamp_ms=BASE_TIMESTAMP_MS + 2001),
    ]
    large = [batch(10, value_bytes=1000, base_timestamp_ms=BASE_TIMESTAMP_MS + index) for index in range(4)]
    append(broker, DATA, 0, data)
    append(broker, DATA, 1, [batch(3), batch(3), batch(3)])
    append(broker, LARGE, 0, large)
    append(broker, LARGE, 1, large)
    append(broker, STAMPED, 0, [batch(2)])
    time.sleep(0.005)  # The second batch must have the later stamp.
    append(broker, STAMPED, 0, [batch(2, codec="gzip")])
    cut = {"name": DATA, "partitions": [{"partition_index": 1, "offset": 4}]}
    answer = broker.connection.call("DeleteRecords", 2, {"topics": [cut], "timeout_ms": 5000})
    assert answer["topics"][0]["partitions"][0]["low_watermark"] == 4, answer


def append(broker: Broker, topic: str, partition: int, batches: Sequence[bytes]) -> None:
    """Write, where nothing is to be compared."""
    for one in batches:
        body = {"acks": -1, "timeout_ms": 5000, "topic_data": [produced_topic(topic, {partition: one}, topic_id=NO_ID)]}
        answer = broker.connection.call("Produce", 9, body)
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0, answer
