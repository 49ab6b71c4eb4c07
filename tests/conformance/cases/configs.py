"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs."""

from typing import Any

from tests.conformance.case import Ask, Case, Step, Topic
from tests.conformance.cases.bodies import DATA, ILLEGAL_NAMES, STAMPED, described, until_config_is
from tests.conformance.schemas import Message

_TOPIC, _BROKER, _BROKER_LOGGER, _CLIENT_METRICS, _GROUP = 2, 4, 8, 16, 32
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3


def _describe(name: str, resource_type: int, resource: str, *, keys: list[str] | None = None, **more: Any) -> Case:
    body = described(resource_type, resource, keys=keys, **more)
    return Case(api="DescribeConfigs", name=name, steps=[Ask("DescribeConfigs", body)])


CASES: list[Case] = [
    _describe("every config of a topic", _TOPIC, DATA),
    _describe("every config of a topic with synonyms", _TOPIC, STAMPED, include_synonyms=True),
    _describe("every config of a topic with its documentation", _TOPIC, STAMPED, include_documentation=True),
    _describe("one config of a topic", _TOPIC, DATA, keys=["retention.ms"]),
    _describe(
        "two configs of a topic, one twice", _TOPIC, DATA, keys=["retention.ms", "retention.ms", "segment.bytes"]
    ),
    _describe("a config that is not there", _TOPIC, DATA, keys=["no.such.config"]),
    _describe("no config of a topic", _TOPIC, DATA, keys=[]),
    _describe("unknown topic", _TOPIC, "nowhere"),
    *(_describe(f"illegal {name}", _TOPIC, bad) for name, bad in ILLEGAL_NAMES.items()),
    _describe("every config of the broker", _BROKER, "$node"),
    _describe("configs of the broker with synonyms", _BROKER, "$node", include_synonyms=True),
    _describe(
        "some configs of the broker",
        _BROKER,
        "$node",
        keys=["log.retention.ms", "message.max.bytes", "num.partitions", "auto.create.topics.enable", "log.dirs"],
    ),
    _describe("defaults of all brokers", _BROKER, ""),
    _describe("another broker", _BROKER, "99"),
    _describe("a broker that is no number", _BROKER, "first"),
    _describe("loggers of the broker, one of them", _BROKER_LOGGER, "$node", keys=["no.such.logger"]),
    _describe("loggers of another broker", _BROKER_LOGGER, "99"),
    _describe("resource type 0", 0, "anything"),
    _describe("resource type 1", 1, "anything"),
    _describe("resource type 99", 99, "anything"),
    _describe("resource type -1", -1, "anything"),
    Case(api="DescribeConfigs", name="no resources", steps=[Ask("DescribeConfigs", {"resources": []})]),
    Case(
        api="DescribeConfigs",
        name="a topic twice and an unknown one",
        steps=[
            Ask(
                "DescribeConfigs",
                {
                    "resources": [
                        one
                        for topic in (DATA, "nowhere", DATA)
                        for one in described(_TOPIC, topic, keys=["segment.bytes"])["resources"]
                    ]
                },
            )
        ],
    ),
]

_NOW = Ask("DescribeConfigs", {**described(_TOPIC, "$topic"), "include_synonyms": True}, version=4)
_OWN = {"$topic": Topic(configs={"retention.ms": "5000", "cleanup.policy": "compact"})}


def _resource(resource_type: int, name: str, *configs: Message) -> Message:
    return {"resource_type": resource_type, "resource_name": name, "configs": list(configs)}


def _op(operation: int, name: str, value: str | None) -> Message:
    return {"name": name, "config_operation": operation, "value": value}


def _alter(name: str, *resources: Message, then: tuple[Step, ...] = (_NOW,), topics: Any = None, **more: Any) -> Case:
    return Case(
        api="IncrementalAlterConfigs",
        name=name,
        steps=[Ask("IncrementalAlterConfigs", {"resources": list(resources), **more}), *then],
        topics=_OWN if topics is None else topics,
    )


def _on_topic(name: str, *configs: Message, then: tuple[Step, ...] = (_NOW,), **more: Any) -> Case:
    return _alter(name, _resource(_TOPIC, "$topic", *configs), then=then, **more)


CASES += [
    _on_topic("set", _op(_SET, "retention.ms", "7000"), then=(until_config_is("retention.ms", "7000"), _NOW)),
    _on_topic("set, validated only", _op(_SET, "retention.ms", "7000"), validate_only=True),
    _on_topic(
        "set two",
        _op(_SET, "retention.ms", "1"),
        _op(_SET, "segment.bytes", "1048577"),
        then=(until_config_is("segment.bytes", "1048577"), _NOW),
    ),
    _on_topic("set one rightly and one wrongly", _op(_SET, "retention.ms", "1"), _op(_SET, "segment.bytes", "x")),
    _on_topic("set to null", _op(_SET, "retention.ms", None)),
    _on_topic("set to nothing", _op(_SET, "retention.ms", "")),
    _on_topic("set what is unknown", _op(_SET, "no.such.config", "1")),
    _on_topic("set to no number", _op(_SET, "retention.ms", "soon")),
    _on_topic("set too small", _op(_SET, "retention.ms", "-2")),
    _on_topic("set twice", _op(_SET, "retention.ms", "1"), _op(_SET, "retention.ms", "2")),
    _on_topic("set and delete", _op(_SET, "retention.ms", "1"), _op(_DELETE, "retention.ms", None)),
    _on_topic("delete", _op(_DELETE, "retention.ms", None), then=(until_config_is("retention.ms", "-1"), _NOW)),
    _on_topic(
        "delete with a value", _op(_DELETE, "retention.ms", "5000"), then=(until_config_is("retention.ms", "-1"), _NOW)
    ),
    _on_topic("delete what is not set", _op(_DELETE, "segment.bytes", None)),
    _on_topic("delete what is unknown", _op(_DELETE, "no.such.config", None)),
    _on_topic(
        "append",
        _op(_APPEND, "cleanup.policy", "delete"),
        then=(until_config_is("cleanup.policy", "compact,delete"), _NOW),
    ),
    _on_topic("append what is there", _op(_APPEND, "cleanup.policy", "compact")),
    _on_topic("append a stranger", _op(_APPEND, "cleanup.policy", "shred")),
    _on_topic("append null", _op(_APPEND, "cleanup.policy", None)),
    _on_topic("append to what is no list", _op(_APPEND, "retention.ms", "1")),
    _on_topic(
        "subtract",
        _op(_SUBTRACT, "cleanup.policy", "compact"),
        then=(until_config_is("cleanup.policy", ""), _NOW),
    ),
    _on_topic("subtract what is not there", _op(_SUBTRACT, "cleanup.policy", "delete")),
    _on_topic("subtract from what is no list", _op(_SUBTRACT, "retention.ms", "1")),
    _on_topic("operation 4", _op(4, "retention.ms", "1")),
    _on_topic("operation -1", _op(-1, "retention.ms", "1")),
    _on_topic("nothing"),
    _alter("no resources", then=()),
    _alter("unknown topic", _resource(_TOPIC, "nowhere", _op(_SET, "retention.ms", "1")), then=()),
    _alter("a topic twice", *[_resource(_TOPIC, "$topic", _op(_SET, "retention.ms", "1"))] * 2),
    _alter(
        "a topic twice beside an unknown one",
        *[_resource(_TOPIC, "$topic", _op(_SET, "retention.ms", "1"))] * 2,
        _resource(_TOPIC, "nowhere", _op(_SET, "retention.ms", "1")),
    ),
    _alter(
        "a known and an unknown topic",
        _resource(_TOPIC, "$topic", _op(_SET, "retention.ms", "8000")),
        _resource(_TOPIC, "nowhere", _op(_SET, "retention.ms", "1")),
        then=(until_config_is("retention.ms", "8000"), _NOW),
    ),
    *(
        _alter(f"illegal {name}", _resource(_TOPIC, bad, _op(_SET, "retention.ms", "1")), then=(), topics={})
        for name, bad in ILLEGAL_NAMES.items()
    ),
    *(
        _alter(name, _resource(kind, resource, *configs), then=(), topics={}, validate_only=True)
        for name, kind, resource, configs in (
            ("another broker", _BROKER, "99", [_op(_SET, "log.retention.ms", "1")]),
            ("a broker that is no number", _BROKER, "first", [_op(_SET, "log.retention.ms", "1")]),
            ("unknown config of the broker", _BROKER, "$node", [_op(_SET, "no.such.config", "1")]),
            ("read-only config of the broker", _BROKER, "$node", [_op(_SET, "node.id", "7")]),
            ("config of the broker set wrongly", _BROKER, "$node", [_op(_SET, "log.retention.ms", "soon")]),
            ("config of the broker, validated only", _BROKER, "$node", [_op(_SET, "log.retention.ms", "1000")]),
            ("default of all brokers, validated only", _BROKER, "", [_op(_SET, "log.retention.ms", "1000")]),
            ("resource type 0", 0, "x", [_op(_SET, "retention.ms", "1")]),
            ("resource type 99", 99, "x", [_op(_SET, "retention.ms", "1")]),
        )
    ),
]


def _replace(name: str, *resources: Message, then: tuple[Step, ...] = (_NOW,), topics: Any = None, **more: Any) -> Case:
    return Case(
        api="AlterConfigs",
        name=name,
        steps=[Ask("AlterConfigs", {"resources": list(resources), **more}), *then],
        topics=_OWN if topics is None else topics,
    )


def _pair(name: str, value: str | None) -> Message:
    return {"name": name, "value": value}


def _all_of_topic(name: str, *configs: Message, then: tuple[Step, ...] = (_NOW,), **more: Any) -> Case:
    return _replace(name, _resource(_TOPIC, "$topic", *configs), then=then, **more)


CASES += [
    _all_of_topic(
        "one replaces all",
        _pair("segment.bytes", "1048577"),
        then=(until_config_is("segment.bytes", "1048577"), until_config_is("retention.ms", "-1"), _NOW),
    ),
    _all_of_topic("none replaces all", then=(until_config_is("retention.ms", "-1"), _NOW)),
    _all_of_topic("validated only", _pair("retention.ms", "9"), validate_only=True),
    _all_of_topic("null", _pair("retention.ms", None)),
    _all_of_topic("unknown config", _pair("no.such.config", "1")),
    _all_of_topic("no number", _pair("retention.ms", "soon")),
    _all_of_topic("a config twice", _pair("retention.ms", "1"), _pair("retention.ms", "2")),
    _replace("unknown topic", _resource(_TOPIC, "nowhere", _pair("retention.ms", "1")), then=()),
    Case(
        api="AlterConfigs",
        name="a topic twice",
        steps=[
            Ask(
                "AlterConfigs",
                {"resources": [_resource(_TOPIC, "$topic", _pair("retention.ms", "1"))] * 2},
                patience_s=1,
            )
        ],
        topics=_OWN,
    ),
    _replace("no resources", then=()),
    *(
        _replace(f"illegal {name}", _resource(_TOPIC, bad, _pair("retention.ms", "1")), then=(), topics={})
        for name, bad in list(ILLEGAL_NAMES.items())[:4]
    ),
    *(
        _replace(name, _resource(kind, resource, *configs), then=(), topics={}, validate_only=True)
        for name, kind, resource, configs in (
            ("another broker", _BROKER, "99", [_pair("log.retention.ms", "1")]),
            ("unknown config of the broker", _BROKER, "$node", [_pair("no.such.config", "1")]),
            ("read-only config of the broker", _BROKER, "$node", [_pair("node.id", "7")]),
            ("config of the broker, validated only", _BROKER, "$node", [_pair("log.retention.ms", "1000")]),
            ("resource type 0", 0, "x", [_pair("retention.ms", "1")]),
            ("resource type 8", _BROKER_LOGGER, "$node", [_pair("kafka", "INFO")]),
        )
    ),
]
