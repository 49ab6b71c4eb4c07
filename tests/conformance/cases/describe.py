"""ApiVersions, Metadata, DescribeCluster, DescribeTopicPartitions and DescribeLogDirs: what a node says of itself."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.case import Ask, Case, Step, Topic
from tests.conformance.cases.bodies import (
    DATA,
    ILLEGAL_NAMES,
    LARGE,
    NO_ID,
    SHARED,
    STAMPED,
    UNKNOWN_ID,
    id_of,
    metadata,
    produce,
    until_topic_exists,
)
from tests.conformance.schemas import Message


def _versions(name: str, software: str, version: str) -> Case:
    body = {"client_software_name": software, "client_software_version": version}
    return Case(api="ApiVersions", name=name, steps=[Ask("ApiVersions", body)])


def _metadata(name: str, *steps: Step, versions: range | None = None, topics: Any = None) -> Case:
    return Case(api="Metadata", name=name, steps=steps, versions=versions, topics=topics or {})


def _by_id(*topics: Message, **more: Any) -> Ask:
    return Ask("Metadata", {"topics": list(topics), "allow_auto_topic_creation": False, **more})


_WITH_IDS = range(10, 14)
_SWITCHED = range(4, 14)  # Versions that can ask for no automatic creation.

CASES: list[Case] = [
    _versions("a plain client", "conformance", "1.0"),
    _versions("a name with dots and dashes", "a-b.c", "1.0-rc.1"),
    _versions("an empty name", "", "1"),
    _versions("an empty version", "conformance", ""),
    _versions("a name that begins with a dash", "-a", "1"),
    _versions("a name with a space", "a b", "1"),
    _metadata("one topic", Ask("Metadata", metadata(DATA))),
    _metadata("three topics", Ask("Metadata", metadata(STAMPED, DATA, LARGE))),
    _metadata("a topic twice", Ask("Metadata", metadata(DATA, DATA))),
    _metadata("all topics, by null", Ask("Metadata", {"topics": None}, only=SHARED), versions=range(1, 14)),
    _metadata("no topics, or all of them at first", Ask("Metadata", metadata(), only=SHARED)),
    _metadata("unknown topic", Ask("Metadata", metadata("$topic")), versions=_SWITCHED),
    _metadata("unknown beside a known topic", Ask("Metadata", metadata("$topic", DATA)), versions=_SWITCHED),
    _metadata("unknown topic twice", Ask("Metadata", metadata("$topic", "$topic")), versions=_SWITCHED),
    _metadata(
        "unknown topic, created on demand",
        Ask("Metadata", metadata("$topic", allow_auto_topic_creation=True)),
        until_topic_exists(),
        Ask("Metadata", metadata("$topic", allow_auto_topic_creation=True)),
    ),
    *(
        _metadata(f"illegal {name}", Ask("Metadata", metadata(bad)), versions=_SWITCHED)
        for name, bad in ILLEGAL_NAMES.items()
    ),
    *(
        _metadata(f"illegal {name}, created on demand", Ask("Metadata", metadata(bad, allow_auto_topic_creation=True)))
        for name, bad in ILLEGAL_NAMES.items()
    ),
    _metadata(
        "name that collides, created on demand",
        Ask("Metadata", metadata("$topic.one_two", allow_auto_topic_creation=True)),
        topics={"$topic_one.two": Topic()},
    ),
    _metadata(
        "topic operations",
        Ask("Metadata", metadata(DATA, include_topic_authorized_operations=True)),
        versions=range(8, 14),
    ),
    _metadata(
        "operations of an unknown topic",
        Ask("Metadata", metadata("$topic", include_topic_authorized_operations=True)),
        versions=range(8, 14),
    ),
    _metadata(
        "cluster operations",
        Ask("Metadata", metadata(DATA, include_cluster_authorized_operations=True)),
        versions=range(8, 11),
    ),
    _metadata("by id", _by_id({"name": None, "topic_id": id_of(DATA)}), versions=_WITH_IDS),
    _metadata("by an unknown id", _by_id({"name": None, "topic_id": UNKNOWN_ID}), versions=_WITH_IDS),
    _metadata(
        "by an unknown id, operations",
        _by_id({"name": None, "topic_id": UNKNOWN_ID}, include_topic_authorized_operations=True),
        versions=_WITH_IDS,
    ),
    _metadata("by id and name", _by_id({"name": DATA, "topic_id": id_of(DATA)}), versions=_WITH_IDS),
    _metadata("by id and another name", _by_id({"name": STAMPED, "topic_id": id_of(DATA)}), versions=_WITH_IDS),
    _metadata("by neither id nor name", _by_id({"name": None, "topic_id": NO_ID}), versions=_WITH_IDS),
    _metadata(
        "one by id, one by name", _by_id({"name": None, "topic_id": id_of(DATA)}, {"name": STAMPED}), versions=_WITH_IDS
    ),
    _metadata("an id twice", _by_id(*[{"name": None, "topic_id": id_of(DATA)}] * 2), versions=_WITH_IDS),
]


def _cluster(name: str, **body: Any) -> Case:
    return Case(api="DescribeCluster", name=name, steps=[Ask("DescribeCluster", body)])


CASES += [
    _cluster("plain"),
    _cluster("with operations", include_cluster_authorized_operations=True),
    _cluster("controllers", endpoint_type=2),
    _cluster("endpoint type 0", endpoint_type=0),
    _cluster("endpoint type 99", endpoint_type=99),
    _cluster("fenced brokers too", include_fenced_brokers=True),
    _cluster("fenced controllers too", include_fenced_brokers=True, endpoint_type=2),
]


def _partitions(name: str, *topics: str, before: Any = None, **more: Any) -> Case:
    body = {"topics": [{"name": topic} for topic in topics], **more}
    return Case(
        api="DescribeTopicPartitions",
        name=name,
        steps=[Ask("DescribeTopicPartitions", body, only="" if topics else SHARED)],
        topics=before or {},
    )


def _cursor(topic: str, partition: int) -> Message:
    return {"topic_name": topic, "partition_index": partition}


CASES += [
    _partitions("one topic", DATA),
    _partitions("three topics, not in order", STAMPED, LARGE, DATA),
    _partitions("a topic twice", DATA, DATA),
    _partitions("unknown topic", "$topic"),
    _partitions("unknown beside a known topic", DATA, "nowhere"),
    *(_partitions(f"illegal {name}", bad) for name, bad in ILLEGAL_NAMES.items()),
    # Those before are the topics of other cases, of which there may be any number.
    _partitions("all topics from a name on", cursor=_cursor("shared-", 0)),
    _partitions("limit of two", DATA, LARGE, response_partition_limit=2),
    _partitions("limit of three, a whole topic", DATA, LARGE, response_partition_limit=3),
    _partitions("limit of four", LARGE, DATA, response_partition_limit=4),
    _partitions("limit of zero", DATA, response_partition_limit=0),
    _partitions("limit negative", DATA, response_partition_limit=-1),
    _partitions("limit highest", DATA, response_partition_limit=2**31 - 1),
    _partitions("cursor inside a topic", DATA, LARGE, cursor=_cursor(DATA, 1)),
    _partitions("cursor at the second topic", DATA, LARGE, cursor=_cursor(LARGE, 0)),
    _partitions(
        "cursor inside a topic, with a limit", DATA, LARGE, cursor=_cursor(DATA, 1), response_partition_limit=2
    ),
    _partitions("cursor beyond the last partition", DATA, LARGE, cursor=_cursor(DATA, 9)),
    _partitions("cursor at a negative partition", DATA, cursor=_cursor(DATA, -1)),
    _partitions("cursor at a topic that was not asked for", DATA, STAMPED, cursor=_cursor(LARGE, 0)),
    _partitions("cursor at an unknown topic", DATA, "nowhere", cursor=_cursor("nowhere", 0)),
    _partitions("cursor without topics", cursor=_cursor(DATA, 1), response_partition_limit=2),
    _partitions("cursor without a topic name", DATA, cursor=_cursor("", 0)),
    _partitions("cursor after every topic", DATA, cursor=_cursor("zzz", 0)),
]


def _log_dirs(name: str, topics: list[Message] | None, *before: Step, own: Any = None) -> Case:
    return Case(
        api="DescribeLogDirs",
        name=name,
        steps=[*before, Ask("DescribeLogDirs", {"topics": topics}, only="" if topics else SHARED)],
        topics=own or {},
    )


CASES += [
    _log_dirs("one partition", [{"topic": DATA, "partitions": [0]}]),
    _log_dirs("every partition of a topic", [{"topic": DATA, "partitions": [0, 1, 2]}]),
    _log_dirs("two topics", [{"topic": DATA, "partitions": [0]}, {"topic": STAMPED, "partitions": [0]}]),
    _log_dirs("everything", None),
    _log_dirs("unknown topic", [{"topic": "nowhere", "partitions": [0]}]),
    _log_dirs("partition beyond the last", [{"topic": DATA, "partitions": [9]}]),
    _log_dirs("partition negative", [{"topic": DATA, "partitions": [-1]}]),
    _log_dirs("a partition twice", [{"topic": DATA, "partitions": [0, 0]}]),
    _log_dirs("no topics", []),
    _log_dirs("no partitions", [{"topic": DATA, "partitions": []}]),
    _log_dirs("a topic twice", [{"topic": DATA, "partitions": [0]}, {"topic": DATA, "partitions": [1]}]),
    *(
        _log_dirs(f"illegal {name}", [{"topic": bad, "partitions": [0]}])
        for name, bad in list(ILLEGAL_NAMES.items())[:4]
    ),
    _log_dirs(
        "a partition with two batches",
        [{"topic": "$topic", "partitions": [0]}],
        Ask("Produce", produce(batch(3))),
        Ask("Produce", produce(batch(3, codec="lz4"))),
        own={"$topic": Topic()},
    ),
]
