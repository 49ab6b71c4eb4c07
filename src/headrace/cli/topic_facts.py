"""What a cluster says about its topics, as plain values ready for a table or for JSON."""

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.cli.connection import Connection
from headrace.cli.disk_sizes import leader_sizes
from headrace.cli.output import CommandError
from headrace.ids import TopicName, TopicPartition
from headrace.wire.settings import Address

if TYPE_CHECKING:
    from concurrent.futures import Future

    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient, TopicDescription

_Answer = TypeVar("_Answer")

# librdkafka spells ids in the other alphabet of base64 than Kafka does.
_URL_SAFE: Final = str.maketrans("+/", "-_")
# Where a setting comes from, in fewer words than Kafka's.
_SOURCES: Final = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker (dynamic)",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster (dynamic)",
    "STATIC_BROKER_CONFIG": "broker",
    "DEFAULT_CONFIG": "default",
}


class ClusterRefusal(CommandError):
    """The cluster's own no, with what it was about."""

    def __init__(self, about: str, error: "KafkaError") -> None:
        super().__init__(f"{about}: {error.str()} ({error.name()})")
        self.code = error.code()


def answer_about(about: str, future: "Future[_Answer]") -> _Answer:
    from confluent_kafka import KafkaException

    try:
        return future.result()
    except KafkaException as error:
        raise ClusterRefusal(about, error.args[0]) from error


def find_topics(cluster: Connection, admin: "AdminClient", names: list[str]) -> list["TopicDescription"]:
    """Topics and their partitions. Asked in the one way that never creates a topic by asking for it."""
    from confluent_kafka import TopicCollection

    futures = admin.describe_topics(TopicCollection(names), request_timeout=cluster.timeout_s)
    return [answer_about(name, future) for name, future in futures.items()]


def topic_id_of(topic: "TopicDescription") -> str:
    return str(topic.topic_id).translate(_URL_SAFE)


def find_partitions(
    cluster: Connection, admin: "AdminClient", scopes: Iterable[tuple[str, Collection[int]]]
) -> list[TopicPartition]:
    """These partitions of these topics, all of them where none are said; an error for one that does not exist."""
    wanted = list(scopes)
    topics = find_topics(cluster, admin, list(dict.fromkeys(topic for topic, _ in wanted)))
    numbers = {topic.name: {one.id for one in topic.partitions} for topic in topics}
    places: set[TopicPartition] = set()
    for topic, only in wanted:
        if missing := sorted(set(only) - numbers[topic]):
            raise CommandError(f"topic {topic!r} has partitions 0 to {len(numbers[topic]) - 1}, not {missing[0]}")
        places.update(TopicPartition(TopicName(topic), number) for number in only or numbers[topic])
    return sorted(places)


def describe_topics(cluster: Connection, admin: "AdminClient", names: list[str]) -> list[dict[str, Any]]:
    from confluent_kafka.admin import OffsetSpec

    topics = find_topics(cluster, admin, names)
    leaders = {
        TopicPartition(TopicName(topic.name), one.id): Address(one.leader.host, one.leader.port)
        for topic in topics
        for one in topic.partitions
        if one.leader is not None and one.leader.id >= 0
    }
    earliest = offsets(cluster, admin, leaders, OffsetSpec.earliest())
    latest = offsets(cluster, admin, leaders, OffsetSpec.latest())
    sizes = leader_sizes(cluster, leaders)
    settings = topic_configs(cluster, admin, names)

    def partition(topic: TopicName, one: Any) -> dict[str, Any]:
        place = TopicPartition(topic, one.id)
        return {
            "partition": one.id,
            "leader": one.leader.id if place in leaders else None,
            "replicas": [node.id for node in one.replicas],
            "isr": [node.id for node in one.isr],
            "earliest": earliest.get(place),
            "latest": latest.get(place),
            "size_bytes": sizes.get(place),
        }

    return [
        {
            "name": topic.name,
            "id": topic_id_of(topic),
            "internal": topic.is_internal,
            "partitions": [partition(TopicName(topic.name), one) for one in topic.partitions],
            "configs": {one["name"]: one["value"] for one in settings[topic.name] if one["source"] != "default"},
        }
        for topic in topics
    ]


def offsets(
    cluster: Connection, admin: "AdminClient", partitions: Iterable[TopicPartition], spec: Any
) -> dict[TopicPartition, int]:
    """Where `spec` (earliest, latest or a time) lies in each partition, in one question."""
    from confluent_kafka import TopicPartition as ClientPartition

    asked = {ClientPartition(*partition): spec for partition in partitions}
    if not asked:
        return {}
    answers = admin.list_offsets(asked, request_timeout=cluster.timeout_s)
    return {
        TopicPartition(TopicName(one.topic), one.partition): answer_about(str(one), answer).offset
        for one, answer in answers.items()
    }


def topic_configs(cluster: Connection, admin: "AdminClient", names: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
    from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    answers = admin.describe_configs(resources, request_timeout=cluster.timeout_s)
    return {
        resource.name: [
            {
                "name": entry.name,
                "value": entry.value,
                "source": _SOURCES.get(ConfigSource(entry.source).name, "unknown"),
                "read_only": bool(entry.is_read_only),
                "sensitive": bool(entry.is_sensitive),
            }
            for entry in sorted(answer_about(resource.name, answer).values(), key=lambda entry: entry.name)
        ]
        for resource, answer in answers.items()
    }
