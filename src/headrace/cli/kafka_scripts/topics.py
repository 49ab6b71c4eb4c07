"""kafka-topics: create, delete, alter, list and describe topics."""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of
from headrace.cli.output import CommandError
from headrace.cli.pairs import parse_pairs
from headrace.cli.topic_facts import ClusterRefusal, answer_about, find_topics, topic_configs, topic_id_of
from headrace.cli.topics import BROKER_DEFAULT, parse_assignment

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

INTERNAL: Final = {"__consumer_offsets", "__transaction_state", "__share_group_state"}
# Topics' names cannot tell these apart in metrics.
_COLLIDING: Final = re.compile(r"[._]")

FLAGS: Final = (
    Flag("list", help="List all topics."),
    Flag("create", help="Create a topic."),
    Flag("delete", help="Delete topics."),
    Flag("alter", help="Add partitions."),
    Flag("describe", help="Show topics and their partitions."),
    Flag("topic", Takes.VALUE, "The topic; but for --create a regular expression."),
    Flag("topic-id", Takes.VALUE, "The id of the topic to describe."),
    Flag("config", Takes.VALUE, "A setting for --create, as NAME=VALUE. May be repeated."),
    Flag("delete-config", Takes.VALUE, refused="Kafka has removed it; use kafka-configs --alter --delete-config"),
    Flag("partitions", Takes.VALUE, "How many partitions, for --create and --alter."),
    Flag("replication-factor", Takes.VALUE, "Copies of each partition, for --create."),
    Flag("replica-assignment", Takes.VALUE, "Where replicas are: 1:2,2:3 for two partitions of two replicas."),
    Flag("under-replicated-partitions", help="Describe only partitions with replicas out of sync."),
    Flag("unavailable-partitions", help="Describe only partitions without a leader."),
    Flag("under-min-isr-partitions", help="Describe only partitions with too few replicas in sync."),
    Flag("at-min-isr-partitions", help="Describe only partitions with just enough replicas in sync."),
    Flag("topics-with-overrides", help="Describe only topics with settings of their own."),
    Flag("if-exists", help="A missing topic is no error."),
    Flag("if-not-exists", help="An existing topic is no error, for --create."),
    Flag("exclude-internal", help="Leave out Kafka's own topics."),
    Flag("partition-size-limit-per-response", Takes.VALUE, ignored="topics are described in one answer"),
)


def run(words: Words) -> None:
    actions: dict[str, Callable[[Connection, Words], None]] = {
        "list": list_topics,
        "create": create,
        "alter": alter,
        "delete": delete,
        "describe": describe,
    }
    action = words.only(*actions)
    if action in {"create", "alter", "delete"}:
        words.required("topic")
    words.check(
        action,
        {
            "config": ("create",),
            "partitions": ("create", "alter"),
            "replication-factor": ("create",),
            "replica-assignment": ("create", "alter"),
            "if-not-exists": ("create",),
            "if-exists": ("alter", "delete", "describe"),
            **dict.fromkeys(("topic-id", "topics-with-overrides", *_REPORTS), ("describe",)),
        },
    )
    actions[action](cluster_of(words), words)


def list_topics(cluster: Connection, words: Words) -> None:
    for name in _matching(cluster, words):
        print(name)


def create(cluster: Connection, words: Words) -> None:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import NewTopic

    name = words.required("topic")
    how: dict[str, Any] = {"config": parse_pairs(words.all("config"), option="--config")}
    if (assignment := words.one("replica-assignment")) is not None:
        how["replica_assignment"] = parse_assignment(assignment)
        how["num_partitions"] = len(how["replica_assignment"])
    else:
        how["num_partitions"] = words.number("partitions") or BROKER_DEFAULT
        how["replication_factor"] = words.number("replication-factor") or BROKER_DEFAULT
    if _COLLIDING.search(name):
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
            "collide. To avoid issues it is best to use either, but not both."
        )
    futures = cluster.admin().create_topics([NewTopic(name, **how)], request_timeout=cluster.timeout_s)
    try:
        answer_about(name, futures[name])
        print(f"Created topic {name}.")
    except ClusterRefusal as refusal:
        if "if-not-exists" not in words or refusal.code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def alter(cluster: Connection, words: Words) -> None:
    from confluent_kafka.admin import NewPartitions

    total = words.number("partitions")
    if total is None:
        raise Misused("--alter needs --partitions; settings are changed with kafka-configs")
    names = _found(cluster, words)
    assignment = words.one("replica-assignment")
    placed = None if assignment is None else parse_assignment(assignment)
    wanted = []
    for topic in find_topics(cluster, cluster.admin(), names) if names else ():
        # Kafka takes the places of all partitions and looks at those of the new ones.
        how = {} if placed is None else {"replica_assignment": placed[len(topic.partitions) :]}
        wanted.append(NewPartitions(topic.name, total, **how))
    if wanted:
        for name, future in cluster.admin().create_partitions(wanted, request_timeout=cluster.timeout_s).items():
            answer_about(name, future)


def delete(cluster: Connection, words: Words) -> None:
    names = _found(cluster, words)
    if names:
        for name, future in cluster.admin().delete_topics(names, request_timeout=cluster.timeout_s).items():
            answer_about(name, future)


def describe(cluster: Connection, words: Words) -> None:
    admin = cluster.admin()
    names = _described(cluster, admin, words)
    if not names:
        return
    settings = topic_configs(cluster, admin, names)
    reports = [name for name in _REPORTS if name in words]
    for topic in find_topics(cluster, admin, names):
        configs = settings[topic.name]
        own = {one["name"]: one["value"] for one in configs if one["source"] != "default"}
        if not reports and (own or "topics-with-overrides" not in words):
            print(topic_line(topic, own))
        if "topics-with-overrides" in words:
            continue
        isr_min = int(next((one["value"] for one in configs if one["name"] == "min.insync.replicas"), None) or 1)
        for partition in sorted(topic.partitions, key=lambda partition: int(partition.id)):
            if not reports or any(_REPORTS[name](partition, isr_min) for name in reports):
                print(partition_line(topic.name, partition))


def topic_line(topic: Any, own: Mapping[str, str | None]) -> str:
    first = min(topic.partitions, key=lambda partition: int(partition.id))
    return "\t".join(
        [
            f"Topic: {topic.name}",
            f"TopicId: {topic_id_of(topic)}",
            f"PartitionCount: {len(topic.partitions)}",
            f"ReplicationFactor: {len(first.replicas)}",
            f"Configs: {','.join(f'{name}={value}' for name, value in own.items())}",
        ]
    )


def partition_line(topic: str, partition: Any) -> str:
    """What a broker says of eligible leaders does not reach librdkafka: N/A, as Kafka prints where nobody told it."""
    return "\t" + "\t".join(
        [
            f"Topic: {topic}",
            f"Partition: {partition.id}",
            f"Leader: {partition.leader.id if _has_leader(partition) else 'none'}",
            f"Replicas: {','.join(str(node.id) for node in partition.replicas)}",
            f"Isr: {','.join(str(node.id) for node in partition.isr)}",
            "Elr: N/A",
            "LastKnownElr: N/A",
        ]
    )


def _has_leader(partition: Any) -> bool:
    return partition.leader is not None and partition.leader.id >= 0


# By flag: whether a partition, given how many replicas shall be in sync, is one of those asked for.
_REPORTS: Final[Mapping[str, Callable[[Any, int], bool]]] = {
    "under-replicated-partitions": lambda partition, isr_min: len(partition.isr) < len(partition.replicas),
    "unavailable-partitions": lambda partition, isr_min: not _has_leader(partition),
    "under-min-isr-partitions": lambda partition, isr_min: not _has_leader(partition) or len(partition.isr) < isr_min,
    "at-min-isr-partitions": lambda partition, isr_min: len(partition.isr) == isr_min,
}


def _described(cluster: Connection, admin: "AdminClient", words: Words) -> list[str]:
    if (wanted_id := words.one("topic-id")) is None:
        return _found(cluster, words)
    names = _matching(cluster, words, any_name=True)
    found = [topic.name for topic in find_topics(cluster, admin, names) if topic_id_of(topic) == wanted_id]
    if not found and "if-exists" not in words:
        raise CommandError(f"TopicId '{wanted_id}' does not exist as expected")
    return found


def _found(cluster: Connection, words: Words) -> list[str]:
    """Topics that match; it is an error if one was asked for and none does."""
    names = _matching(cluster, words)
    if not names and "topic" in words and "if-exists" not in words:
        raise CommandError(f"Topic '{words.one('topic')}' does not exist as expected")
    return names


def _matching(cluster: Connection, words: Words, *, any_name: bool = False) -> list[str]:
    wanted = None if any_name else words.one("topic")
    pattern = re.compile(".*" if wanted is None else _pattern(wanted))
    names = sorted(cluster.cluster_metadata(cluster.admin()).topics)
    without = INTERNAL if "exclude-internal" in words else ()
    return [name for name in names if name not in without and pattern.fullmatch(name)]


def _pattern(text: str) -> str:
    """Kafka lets commas stand between alternatives."""
    pattern = re.sub(r"\s", "", text).strip("\"'").replace(",", "|")
    try:
        re.compile(pattern)
    except re.error as error:
        raise Misused(f"--topic {text!r} is not a regular expression: {error}") from error
    return pattern


SCRIPT: Final = Script("kafka-topics", "create, delete, describe or change topics", FLAGS, run)
