"""CreateTopics, DeleteTopics and CreatePartitions."""

from typing import Any

from tests.conformance.batches import batch
from tests.conformance.case import Ask, Case, Step, Topic
from tests.conformance.cases.bodies import (
    ILLEGAL_NAMES,
    NO_ID,
    UNKNOWN_ID,
    creatable,
    described,
    id_of,
    metadata,
    produce,
    stored,
    until_topic_exists,
    until_topic_is_gone,
)
from tests.conformance.run import Context
from tests.conformance.schemas import Message

_AS_IT_IS = Ask("Metadata", metadata("$topic"))
_SHOWN: tuple[Step, ...] = (_AS_IT_IS,)
_CONFIGS = Ask("DescribeConfigs", described(2, "$topic"))


def _create(name: str, *topics: Message, then: tuple[Step, ...] = (), before: Any = None, **more: Any) -> Case:
    body = {"topics": list(topics), "timeout_ms": 10_000, **more}
    return Case(api="CreateTopics", name=name, steps=[Ask("CreateTopics", body), *then], topics=before or {})


def _this_node(context: Context) -> int:
    return context.broker.node_id


def _assigned(*partitions: tuple[int, list[Any]]) -> list[Message]:
    return [{"partition_index": index, "broker_ids": brokers} for index, brokers in partitions]


def _configured(**configs: str | None) -> Message:
    listed = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    return creatable("$topic", configs=listed)


_WRONG_ASSIGNMENTS: dict[str, list[tuple[int, list[Any]]]] = {
    "assigned to an unknown node": [(0, [99])],
    "assigned to a negative node": [(0, [-1])],
    "assigned twice to this node": [(0, [_this_node, _this_node])],
    "assigned to nobody": [(0, [])],
    "assigned with a gap": [(0, [_this_node]), (2, [_this_node])],
    "assigned from one": [(1, [_this_node])],
    "assigned from minus one": [(-1, [_this_node])],
    "assigned one partition twice": [(0, [_this_node]), (0, [_this_node])],
    "assigned unevenly": [(0, [_this_node]), (1, [_this_node, 99])],
}

_CONFIGS_AT_BIRTH: dict[str, dict[str, str | None]] = {
    "config unknown": {"no_such_config": "1"},
    "config name empty": {"": "1"},
    "config null": {"retention_ms": None},
    "config null among others": {"retention_ms": "5", "segment_bytes": None},
    "config not a number": {"retention_ms": "soon"},
    "config number with spaces": {"retention_ms": " 1000 "},
    "config number with a fraction": {"retention_ms": "1.5"},
    "config too large for a long": {"retention_ms": "9223372036854775808"},
    "config below its least": {"retention_ms": "-2"},
    "config beyond its most": {"min_cleanable_dirty_ratio": "1.5"},
    "config int too large": {"segment_bytes": "2147483648"},
    "config segment too small": {"segment_bytes": "1"},
    "config not in its list": {"cleanup_policy": "shred"},
    "config list with a stranger": {"cleanup_policy": "compact,shred"},
    "config list empty": {"cleanup_policy": ""},
    "config list with a double": {"cleanup_policy": "delete,delete"},
    "config not a boolean": {"unclean_leader_election_enable": "maybe"},
    "config boolean in capitals": {"unclean_leader_election_enable": "TRUE"},
    "config compression unknown": {"compression_type": "brotli"},
    "config timestamp type unknown": {"message_timestamp_type": "Never"},
    "config zero in-sync replicas": {"min_insync_replicas": "0"},
    "config of the broker": {"log_retention_ms": "1000"},
    "config local retention beyond retention": {"retention_ms": "1000", "local_retention_ms": "2000"},
    "config remote storage": {"remote_storage_enable": "true"},
    "config message format": {"message_format_version": "2.0"},
}

CASES: list[Case] = [
    _create("one partition", creatable("$topic"), then=_SHOWN),
    _create("three partitions", creatable("$topic", partitions=3), then=_SHOWN),
    _create("default partitions and replicas", creatable("$topic", partitions=-1, replicas=-1), then=_SHOWN),
    _create("validated only", creatable("$topic", partitions=2), validate_only=True, then=_SHOWN),
    _create("validated only, wrongly", creatable("$topic", partitions=0), validate_only=True),
    _create("validated only, exists", creatable("$topic"), validate_only=True, before={"$topic": Topic()}),
    _create("zero partitions", creatable("$topic", partitions=0), then=_SHOWN),
    _create("partitions -2", creatable("$topic", partitions=-2), then=_SHOWN),
    _create("partitions highest", creatable("$topic", partitions=2**31 - 1), then=_SHOWN),
    _create("partitions 10001", creatable("$topic", partitions=10_001), then=_SHOWN),
    _create("zero replicas", creatable("$topic", replicas=0), then=_SHOWN),
    _create("replicas -2", creatable("$topic", replicas=-2), then=_SHOWN),
    _create("two replicas", creatable("$topic", replicas=2), then=_SHOWN),
    _create("replicas highest", creatable("$topic", replicas=32767), then=_SHOWN),
    _create("exists", creatable("$topic", partitions=5), before={"$topic": Topic()}, then=_SHOWN),
    _create("a name twice", creatable("$topic"), creatable("$topic", partitions=2), then=_SHOWN),
    _create(
        "a name twice beside another", creatable("$topic-b"), creatable("$topic-b"), creatable("$topic"), then=_SHOWN
    ),
    _create("one good and one bad", creatable("$topic"), creatable("$topic-b", partitions=0), then=_SHOWN),
    *(_create(f"illegal {name}", creatable(bad)) for name, bad in ILLEGAL_NAMES.items()),
    _create("name of 249 letters", creatable("$topic" + "n" * 300), validate_only=True),
    _create("name that collides with another", creatable("$topic.one_two"), before={"$topic_one.two": Topic()}),
    _create("name of the metadata topic", creatable("__cluster_metadata")),
    _create("no topics", then=_SHOWN),
    _create("timeout 0", creatable("$topic"), timeout_ms=0),
    _create("timeout negative", creatable("$topic"), timeout_ms=-1),
    _create(
        "assigned to this node",
        creatable("$topic", partitions=-1, replicas=-1, assignments=_assigned((0, [_this_node]), (1, [_this_node]))),
        then=_SHOWN,
    ),
    _create(
        "assigned out of order",
        creatable("$topic", partitions=-1, replicas=-1, assignments=_assigned((1, [_this_node]), (0, [_this_node]))),
        then=_SHOWN,
    ),
    _create(
        "assigned, with a partition count too",
        creatable("$topic", partitions=2, replicas=-1, assignments=_assigned((0, [_this_node]))),
    ),
    _create(
        "assigned, with a replica count too",
        creatable("$topic", partitions=-1, replicas=1, assignments=_assigned((0, [_this_node]))),
    ),
    *(
        _create(name, creatable("$topic", partitions=-1, replicas=-1, assignments=_assigned(*assigned)), then=_SHOWN)
        for name, assigned in _WRONG_ASSIGNMENTS.items()
    ),
    _create(
        "with configs",
        _configured(cleanup_policy="compact", retention_ms="1000", max_message_bytes="5000", segment_bytes="1048576"),
        then=(*_SHOWN, _CONFIGS),
    ),
    *(_create(name, _configured(**configs), then=_SHOWN) for name, configs in _CONFIGS_AT_BIRTH.items()),
    _create(
        "config twice",
        creatable("$topic", configs=[{"name": "retention.ms", "value": "1"}, {"name": "retention.ms", "value": "2"}]),
        then=_SHOWN,
    ),
]


def _delete(name: str, *steps: Step, topics: Any = None, versions: range | None = None) -> Case:
    return Case(
        api="DeleteTopics",
        name=name,
        steps=steps,
        topics={"$topic": Topic()} if topics is None else topics,
        versions=versions,
    )


def _gone(*names: str, **more: Any) -> Ask:
    body = {"topics": [{"name": name} for name in names], "topic_names": list(names), "timeout_ms": 10_000, **more}
    return Ask("DeleteTopics", body)


def _gone_by_id(*states: Message) -> Ask:
    return Ask("DeleteTopics", {"topics": list(states), "timeout_ms": 10_000})


_BY_ID = range(6, 7)

CASES += [
    _delete("by name", _gone("$topic"), until_topic_is_gone(), _AS_IT_IS),
    _delete("unknown", _gone("$topic"), topics={}),
    _delete("one known and one unknown", _gone("$topic", "nowhere"), until_topic_is_gone()),
    _delete("two", _gone("$topic", "$topic-b"), topics={"$topic": Topic(), "$topic-b": Topic(partitions=3)}),
    _delete("a name twice", _gone("$topic", "$topic")),
    _delete(
        "a name twice beside another",
        _gone("$topic", "$topic", "$topic-b"),
        topics={"$topic": Topic(), "$topic-b": Topic()},
    ),
    _delete("none", _gone()),
    _delete("timeout 0", _gone("$topic", timeout_ms=0)),
    _delete("timeout negative", _gone("$topic", timeout_ms=-1)),
    *(_delete(f"illegal {name}", _gone(bad), topics={}) for name, bad in ILLEGAL_NAMES.items()),
    _delete("by id", _gone_by_id({"topic_id": id_of("$topic")}), until_topic_is_gone(), versions=_BY_ID),
    _delete("by an unknown id", _gone_by_id({"topic_id": UNKNOWN_ID}), topics={}, versions=_BY_ID),
    _delete("by name and id", _gone_by_id({"name": "$topic", "topic_id": id_of("$topic")}), _AS_IT_IS, versions=_BY_ID),
    _delete("by neither", _gone_by_id({"name": None, "topic_id": NO_ID}), topics={}, versions=_BY_ID),
    _delete("an id twice", _gone_by_id(*[{"topic_id": id_of("$topic")}] * 2), versions=_BY_ID),
    _delete("by name and again by id", _gone_by_id({"name": "$topic"}, {"topic_id": id_of("$topic")}), versions=_BY_ID),
    _delete(
        "by name, then by its old id",
        Ask("Metadata", metadata("$topic"), version=12),
        _gone("$topic"),
        until_topic_is_gone(),
        _gone_by_id({"topic_id": lambda context: context.answers[0]["topics"][0]["topic_id"]}),
        versions=_BY_ID,
    ),
    _delete(
        "and made anew: empty, with a new id",
        Ask("Produce", produce(batch(3)), version=12),
        _gone("$topic"),
        until_topic_is_gone(),
        Ask("CreateTopics", {"topics": [creatable("$topic")], "timeout_ms": 10_000}),
        stored(),
        Ask("Produce", produce(batch(1)), version=12),
    ),
]


def _grow(name: str, *topics: Message, then: tuple[Step, ...] = (), before: Any = None, **more: Any) -> Case:
    body = {"topics": list(topics), "timeout_ms": 10_000, **more}
    return Case(
        api="CreatePartitions",
        name=name,
        steps=[Ask("CreatePartitions", body), *then],
        topics={"$topic": Topic()} if before is None else before,
    )


def _to(count: int, *assigned: list[Any], topic: str = "$topic") -> Message:
    brokers = [{"broker_ids": one} for one in assigned] if assigned else None
    return {"name": topic, "count": count, "assignments": brokers}


CASES += [
    _grow("to three", _to(3), then=(until_topic_exists(partitions=3), _AS_IT_IS)),
    _grow("to three, validated only", _to(3), validate_only=True, then=_SHOWN),
    _grow("to as many as there are", _to(1), then=_SHOWN),
    _grow("to fewer", _to(1), before={"$topic": Topic(partitions=2)}),
    _grow("to zero", _to(0), then=_SHOWN),
    _grow("to -1", _to(-1), then=_SHOWN),
    _grow("to ten thousand and one, validated only", _to(10_001), validate_only=True),
    _grow("unknown topic", _to(3, topic="nowhere")),
    _grow("a topic twice", _to(2), _to(3), then=_SHOWN),
    _grow(
        "a topic twice beside another",
        _to(2),
        _to(3),
        _to(2, topic="$topic-b"),
        before={"$topic": Topic(), "$topic-b": Topic()},
    ),
    _grow("no topics"),
    _grow("timeout 0", _to(2), timeout_ms=0),
    _grow("timeout negative", _to(2), timeout_ms=-1),
    _grow("assigned to this node", _to(2, [_this_node]), then=(until_topic_exists(partitions=2), _AS_IT_IS)),
    _grow("assigned to an unknown node", _to(2, [99]), then=_SHOWN),
    _grow("assigned to nobody", _to(2, []), then=_SHOWN),
    _grow("assigned twice to this node", _to(2, [_this_node, _this_node]), then=_SHOWN),
    _grow("too few assignments", _to(3, [_this_node]), then=_SHOWN),
    _grow("too many assignments", _to(2, [_this_node], [_this_node]), then=_SHOWN),
    _grow("two replicas for the new partition", _to(2, [_this_node, 99]), then=_SHOWN),
    *(_grow(f"illegal {name}", _to(2, topic=bad), before={}) for name, bad in list(ILLEGAL_NAMES.items())[:4]),
]
