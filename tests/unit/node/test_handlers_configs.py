"""DescribeConfigs, IncrementalAlterConfigs and AlterConfigs. Words of refusal are Kafka's."""

from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.ids import ZERO_TOPIC_ID
from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.node.settings import Source
from headrace.sim.disk import Survival
from tests.unit.node.driven_node import DrivenNode, Message

TOPIC, BROKER, LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(node: DrivenNode, kind: int, name: str, *keys: str, version: int = 4, **more: Any) -> Message:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}
    results: list[Message] = node.ask("DescribeConfigs", version, resources=[resource], **more)["results"]
    (result,) = results
    assert (result["resource_type"], result["resource_name"]) == (kind, name)
    return result


def op(operation: int, name: str, value: str | None = None) -> Message:
    return {"name": name, "config_operation": operation, "value": value}


def resource(kind: int, name: str, *configs: Message) -> Message:
    return {"resource_type": kind, "resource_name": name, "configs": list(configs)}


def alter(node: DrivenNode, *resources: Message, **more: Any) -> list[tuple[int, str | None]]:
    answer = node.ask("IncrementalAlterConfigs", 1, resources=list(resources), **more)
    asked = [(one["resource_type"], one["resource_name"]) for one in resources]
    assert [(one["resource_type"], one["resource_name"]) for one in answer["responses"]] == asked
    return [(one["error_code"], one["error_message"]) for one in answer["responses"]]


DONE = (0, None)


@pytest.fixture
def node() -> DrivenNode:
    """A node with a topic that has two settings of its own."""
    node = DrivenNode()
    node.create("there", retention_ms="5000", cleanup_policy="compact")
    return node


class TestDescribe:
    def test_a_topic(self, node: DrivenNode) -> None:
        configs = node.configs(TOPIC, "there", include_synonyms=True)
        assert configs.keys() == {row.name for row in TopicConfig.rows.values() if not row.internal}
        assert configs["retention.ms"] == {
            "name": "retention.ms",
            "value": "5000",
            "read_only": False,
            "config_source": Source.TOPIC,
            "is_sensitive": False,
            "synonyms": [{"name": "retention.ms", "value": "5000", "source": Source.TOPIC}],
            "config_type": 5,
            "documentation": None,
        }

    def test_this_node(self, node: DrivenNode) -> None:
        configs = node.configs(BROKER, "1")
        assert configs.keys() == {row.name for row in BrokerConfig.rows.values() if not row.internal}
        assert configs["node.id"]["read_only"]
        assert not configs["log.retention.ms"]["read_only"]

    def test_synonyms_and_documentation_only_where_asked_for(self, node: DrivenNode) -> None:
        plain = describe(node, TOPIC, "there", "segment.bytes")["configs"][0]
        assert (plain["synonyms"], plain["documentation"]) == ([], None)
        full = describe(node, TOPIC, "there", "segment.bytes", include_synonyms=True, include_documentation=True)[
            "configs"
        ][0]
        assert [one["name"] for one in full["synonyms"]] == ["log.segment.bytes"]
        assert full["documentation"] == TopicConfig.rows["segment.bytes"].doc

    def test_some_keys(self, node: DrivenNode) -> None:
        result = describe(node, TOPIC, "there", "retention.ms", "retention.ms", "no.such", "segment.bytes")
        assert sorted(one["name"] for one in result["configs"]) == ["retention.ms", "segment.bytes"]
        nothing_named = {"resource_type": TOPIC, "resource_name": "there", "configuration_keys": []}
        (result,) = node.ask("DescribeConfigs", 4, resources=[nothing_named])["results"]
        assert len(result["configs"]) == len(node.configs(TOPIC, "there"))  # As in Kafka, none means all.

    @pytest.mark.parametrize(
        ("kind", "name", "code", "message"),
        [
            (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
            (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic name is invalid: the empty string is not allowed"),
            (
                BROKER,
                "99",
                ErrorCode.INVALID_REQUEST,
                "Unexpected broker id, expected 1 or empty string, but received 99",
            ),
            (BROKER, "first", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: first"),
            (LOGGER, "99", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 1 but received 99"),
            (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        ],
    )
    def test_refusals(self, node: DrivenNode, kind: int, name: str, code: ErrorCode, message: str) -> None:
        result = describe(node, kind, name)
        assert (result["error_code"], result["error_message"], result["configs"]) == (code, message, [])

    @pytest.mark.parametrize("kind", [-1, 0, 1, GROUP, 99])
    def test_what_has_no_settings_here(self, node: DrivenNode, kind: int) -> None:
        assert describe(node, kind, "x")["error_code"] == ErrorCode.INVALID_REQUEST

    def test_every_resource_is_answered(self, node: DrivenNode) -> None:
        asked = [
            {"resource_type": TOPIC, "resource_name": name, "configuration_keys": ["segment.bytes"]}
            for name in ("there", "nowhere", "there")
        ]
        results = node.ask("DescribeConfigs", 4, resources=asked)["results"]
        assert [(one["resource_name"], len(one["configs"])) for one in results] == [
            ("there", 1),
            ("nowhere", 0),
            ("there", 1),
        ]

    def test_there_are_no_loggers(self, node: DrivenNode) -> None:
        assert describe(node, LOGGER, "1") == {
            "error_code": 0,
            "error_message": "",
            "resource_type": LOGGER,
            "resource_name": "1",
            "configs": [],
        }


class TestIncremental:
    def on_topic(self, node: DrivenNode, *configs: Message, **more: Any) -> tuple[int, str | None]:
        (response,) = alter(node, resource(TOPIC, "there", *configs), **more)
        return response

    def overrides(self, node: DrivenNode) -> dict[str, str]:
        topic = node.node.topics.named("there")
        assert topic is not None
        return topic.overrides

    def test_each_operation(self, node: DrivenNode) -> None:
        changed = self.on_topic(
            node,
            op(SET, "segment.bytes", "2000000"),
            op(DELETE, "retention.ms"),
            op(APPEND, "cleanup.policy", "delete,compact"),
        )
        assert changed == DONE
        assert self.overrides(node) == {"segment.bytes": "2000000", "cleanup.policy": "compact,delete"}
        assert self.on_topic(node, op(SUBTRACT, "cleanup.policy", "compact")) == DONE
        assert self.overrides(node) == {"segment.bytes": "2000000", "cleanup.policy": "delete"}

    def test_takes_effect_at_once(self, node: DrivenNode) -> None:
        self.on_topic(node, op(SET, "segment.bytes", "2000000"))
        assert node.node.topics.partition("there", 0).log.config.segment_bytes == 2_000_000

    @pytest.mark.parametrize("survival", Survival)
    def test_what_was_answered_survives_a_crash(self, node: DrivenNode, survival: Survival) -> None:
        self.on_topic(node, op(SET, "retention.ms", "7000"))
        node.crash(survival)
        assert self.overrides(node) == {"retention.ms": "7000", "cleanup.policy": "compact"}

    def test_a_list_that_is_not_set_begins_with_its_default(self) -> None:
        node = DrivenNode()
        node.create("there")
        assert self.on_topic(node, op(APPEND, "cleanup.policy", "compact")) == DONE
        assert self.overrides(node) == {"cleanup.policy": "delete,compact"}
        assert self.on_topic(node, op(APPEND, "leader.replication.throttled.replicas", "0:1")) == DONE
        assert self.overrides(node)["leader.replication.throttled.replicas"] == "0:1"

    def test_deleting_what_is_not_set(self, node: DrivenNode) -> None:
        assert self.on_topic(node, op(DELETE, "segment.bytes"), op(DELETE, "no.such")) == DONE

    def test_validating_only_changes_nothing(self, node: DrivenNode) -> None:
        before = dict(self.overrides(node))
        assert self.on_topic(node, op(SET, "retention.ms", "1"), validate_only=True) == DONE
        code, _ = self.on_topic(node, op(SET, "retention.ms", "soon"), validate_only=True)
        assert code == ErrorCode.INVALID_CONFIG
        assert self.overrides(node) == before

    @pytest.mark.parametrize(
        ("configs", "code", "message"),
        [
            ([op(SET, "no.such", "1")], ErrorCode.INVALID_CONFIG, "Unknown topic config name: no.such"),
            (
                [op(SET, "segment.bytes", "2000000"), op(SET, "retention.ms", "soon")],
                ErrorCode.INVALID_CONFIG,
                "Invalid value soon for configuration retention.ms: Not a number of type LONG",
            ),
            (
                [op(SET, "retention.ms"), op(APPEND, "cleanup.policy")],
                ErrorCode.INVALID_REQUEST,
                "Null value not supported for : retention.ms, cleanup.policy",
            ),
            (
                [op(APPEND, "retention.ms", "1")],
                ErrorCode.INVALID_CONFIG,
                "Can't APPEND to key retention.ms because its type is not LIST.",
            ),
            (
                [op(SUBTRACT, "no.such", "1")],
                ErrorCode.INVALID_CONFIG,
                "Can't SUBTRACT to key no.such because its type is not LIST.",
            ),
            (
                [op(SET, "retention.ms", "1"), op(DELETE, "retention.ms")],
                ErrorCode.INVALID_REQUEST,
                "Error due to duplicate config keys",
            ),
            ([op(4, "retention.ms", "1")], ErrorCode.INVALID_REQUEST, "Unknown config operation 4"),
        ],
    )
    def test_refusals_change_nothing_of_the_resource(
        self, node: DrivenNode, configs: list[Message], code: ErrorCode, message: str
    ) -> None:
        before = dict(self.overrides(node))
        assert self.on_topic(node, *configs) == (code, message)
        assert self.overrides(node) == before

    def test_resources_succeed_and_fail_one_by_one(self, node: DrivenNode) -> None:
        node.create("other")
        answers = alter(
            node,
            resource(TOPIC, "there", op(SET, "retention.ms", "1")),
            resource(TOPIC, "nowhere", op(SET, "retention.ms", "1")),
            resource(TOPIC, "a b", op(SET, "retention.ms", "1")),
            resource(TOPIC, "", op(SET, "retention.ms", "1")),
            resource(GROUP, "g", op(SET, "x", "1")),
            resource(TOPIC, "other", op(SET, "retention.ms", "1")),
            resource(TOPIC, "other", op(SET, "retention.ms", "2")),
        )
        once = (ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        assert answers == [
            DONE,
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nowhere' does not exist."),
            (
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, "
                "'.', '_' and '-'",
            ),
            (ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
            (ErrorCode.INVALID_REQUEST, "Unknown resource type 32"),
            once,
            once,
        ]
        assert self.overrides(node)["retention.ms"] == "1"

    def test_changes_under_way_do_not_undo_each_other(self, node: DrivenNode) -> None:
        settings = {"retention.ms": "1", "segment.bytes": "2000000", "flush.ms": "5"}
        sent = [
            node.send("IncrementalAlterConfigs", 1, {"resources": [resource(TOPIC, "there", op(SET, name, value))]})
            for name, value in settings.items()
        ]
        grown = node.send("CreatePartitions", 3, {"topics": [{"name": "there", "count": 2, "assignments": None}]})
        for answer in sent:
            (response,) = node.receive("IncrementalAlterConfigs", 1, answer)["responses"]
            assert response["error_code"] == 0
        node.receive("CreatePartitions", 3, grown)
        for _ in range(2):
            assert self.overrides(node) == {"cleanup.policy": "compact", **settings}
            assert len(node.metadata("there")[0]["partitions"]) == 2
            node.restart()

    def test_a_topic_that_is_being_deleted_does_not_come_back(self, node: DrivenNode) -> None:
        deleted = node.send("DeleteTopics", 6, {"topics": [{"name": "there", "topic_id": ZERO_TOPIC_ID}]})
        assert self.on_topic(node, op(SET, "retention.ms", "1"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        node.receive("DeleteTopics", 6, deleted)
        node.restart()
        assert node.node.topics.named("there") is None


class TestBroker:
    def test_a_change_reaches_the_topics_that_inherit_it(self, node: DrivenNode) -> None:
        node.create("plain")
        assert alter(node, resource(BROKER, "1", op(SET, "log.retention.ms", "9000"))) == [DONE]
        assert node.configs(BROKER, "1")["log.retention.ms"]["config_source"] == Source.DYNAMIC_BROKER
        assert node.node.topics.partition("plain", 0).log.config.retention_ms == 9000
        assert node.node.topics.partition("there", 0).log.config.retention_ms == 5000
        node.crash()
        assert node.node.topics.partition("plain", 0).log.config.retention_ms == 9000

    def test_this_node_s_own_setting_wins_over_that_of_all_nodes(self, node: DrivenNode) -> None:
        assert alter(node, resource(BROKER, "", op(SET, "log.retention.ms", "1000"))) == [DONE]
        assert node.node.config.log_retention_ms == 1000
        assert alter(node, resource(BROKER, "1", op(SET, "log.retention.ms", "2000"))) == [DONE]
        assert node.node.config.log_retention_ms == 2000
        assert {name: (one["value"], one["config_source"]) for name, one in node.configs(BROKER, "").items()} == {
            "log.retention.ms": ("1000", Source.DYNAMIC_BROKER_DEFAULT)
        }
        assert alter(node, resource(BROKER, "1", op(DELETE, "log.retention.ms"))) == [DONE]
        assert node.node.config.log_retention_ms == 1000

    @pytest.mark.parametrize(
        ("name", "config", "message"),
        [
            ("99", op(SET, "log.retention.ms", "1"), "Unexpected broker id, expected 1, but received 99"),
            ("first", op(SET, "log.retention.ms", "1"), "Node id must be an integer, but it is: first"),
            ("1", op(SET, "node.id", "7"), "Cannot update these configs dynamically: Set(node.id)"),
            ("1", op(SET, "no.such", "7"), "Unknown broker config name: no.such"),
            (
                "1",
                op(SET, "log.retention.ms", "soon"),
                "Invalid value soon for configuration log.retention.ms: Not a number of type LONG",
            ),
        ],
    )
    def test_refusals(self, node: DrivenNode, name: str, config: Message, message: str) -> None:
        assert alter(node, resource(BROKER, name, config)) == [(ErrorCode.INVALID_REQUEST, message)]

    def test_what_a_topic_could_not_live_with_is_refused(self, node: DrivenNode) -> None:
        node.create("slow", min_compaction_lag_ms="5000")
        ((code, message),) = alter(node, resource(BROKER, "1", op(SET, "log.cleaner.max.compaction.lag.ms", "1000")))
        assert code == ErrorCode.INVALID_REQUEST
        assert message is not None
        assert "min.compaction.lag.ms (5000) > max.compaction.lag.ms (1000)" in message
        assert node.node.broker_overrides("1") == {}


class TestReplace:
    def replace(self, node: DrivenNode, *configs: tuple[str, str | None], **more: Any) -> tuple[int, str | None]:
        listed = [{"name": name, "value": value} for name, value in configs]
        (response,) = node.ask("AlterConfigs", 2, resources=[resource(TOPIC, "there", *listed)], **more)["responses"]
        return response["error_code"], response["error_message"]

    def overrides(self, node: DrivenNode) -> dict[str, str]:
        topic = node.node.topics.named("there")
        assert topic is not None
        return topic.overrides

    def test_the_given_ones_replace_all(self, node: DrivenNode) -> None:
        assert self.replace(node, ("segment.bytes", "2000000")) == DONE
        assert self.overrides(node) == {"segment.bytes": "2000000"}
        assert self.replace(node) == DONE
        assert self.overrides(node) == {}

    def test_refusals_change_nothing(self, node: DrivenNode) -> None:
        before = dict(self.overrides(node))
        assert self.replace(node, ("retention.ms", "9"), validate_only=True) == DONE
        assert self.replace(node, ("retention.ms", None)) == (
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        )
        assert self.replace(node, ("no.such", "1"))[0] == ErrorCode.INVALID_CONFIG
        assert self.replace(node, ("retention.ms", "1"), ("retention.ms", "2")) == (
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        )
        assert self.overrides(node) == before

    def test_broker_settings_too(self, node: DrivenNode) -> None:
        for configs in ([{"name": "log.retention.ms", "value": "1000"}], []):
            (response,) = node.ask("AlterConfigs", 2, resources=[resource(BROKER, "1", *configs)])["responses"]
            assert response["error_code"] == 0
            assert node.node.config.log_retention_ms == (1000 if configs else None)
