"""Whoever makes and deletes the topics of a simulated node, changes their settings, and deletes records.

One request at a time, so that what is listed can be held against what was acknowledged before. A request without an
answer leaves a topic *unsure*: it may be there or not, until something acknowledged settles it.
"""

from collections.abc import Callable, Mapping
from typing import Final

from headrace.errors import ErrorCode
from headrace.protocol.messages import (
    alter_configs,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    metadata,
)
from headrace.protocol.schema import ApiMessages
from headrace.sim.checker import Checker, Promise
from headrace.sim.clients import Ledger, Target, Topic
from headrace.sim.tables import Message, ask

RETRY_US: Final = 50_000
PATIENCE_US: Final = 20_000_000
TOPIC_RESOURCE: Final = 2
SET: Final = 0
CHANGED_CONFIG: Final = "max.message.bytes"

Done = Callable[[], None]


class Administrator:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._world = ledger.world
        self._checker: Checker = ledger.checker
        # Those whose creation was acknowledged, and whose deletion was not.
        self.topics: dict[str, Topic] = {}
        self.unsure: set[str] = set()

    def create(
        self,
        name: str,
        *,
        partitions: int,
        settings: Mapping[str, str],
        promise: Promise,
        done: Callable[[Topic | None], None],
    ) -> None:
        configs = [{"name": key, "value": value} for key, value in settings.items()]
        topic = {"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": configs}
        self.unsure.add(name)

        def answered(answer: Message | None) -> None:
            (made,) = answer["topics"] if answer is not None else [None]
            if made is None or made["error_code"] != ErrorCode.NONE:
                done(None)
                return
            created = self.topics[name] = Topic(name, made["topic_id"], partitions)
            self.unsure.discard(name)
            self._checker.topic_made(name, created.id, partitions=partitions, promise=promise)
            done(created)

        self._ask(create_topics.API, 7, {"topics": [topic], "timeout_ms": 1000, "validate_only": False}, answered)

    def delete(self, name: str, done: Done) -> None:
        """Whatever is there under this name."""
        topic = self.topics.get(name)
        self._checker.topic_may_go(name)
        self.unsure.add(name)

        def answered(answer: Message | None) -> None:
            if answer is not None:
                (gone,) = answer["responses"]
                # One that is not known is gone by an earlier request.
                if gone["error_code"] in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    self.unsure.discard(name)
                    if topic is not None:
                        del self.topics[name]
                        self._checker.topic_gone(name, topic.id)
            done()

        self._ask(delete_topics.API, 5, {"topic_names": [name], "timeout_ms": 1000}, answered)

    def configure(self, topic: Topic, value: str, done: Done) -> None:
        self._checker.config_sent(topic.id, CHANGED_CONFIG, value)

        def answered(answer: Message | None) -> None:
            if answer is not None and answer["responses"][0]["error_code"] == ErrorCode.NONE:
                self._checker.config_set(topic.id, CHANGED_CONFIG, value)
            done()

        change = {"name": CHANGED_CONFIG, "config_operation": SET, "value": value}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": topic.name, "configs": [change]}
        self._ask(alter_configs.INCREMENTAL_API, 1, {"resources": [resource], "validate_only": False}, answered)

    def delete_records(self, target: Target, offset: int | None, done: Done) -> None:
        self._checker.deleting_before(target.place, offset)

        def answered(answer: Message | None) -> None:
            if answer is not None:
                (told,) = answer["topics"][0]["partitions"]
                if told["error_code"] == ErrorCode.NONE:
                    self._checker.deleted_before(target.place, told["low_watermark"])
            done()

        partition = {"partition_index": target.partition, "offset": -1 if offset is None else offset}
        topics = [{"name": target.topic.name, "partitions": [partition]}]
        self._ask(delete_records.API, 2, {"topics": topics, "timeout_ms": 1000}, answered)

    def list_topics(self, done: Done) -> None:
        def answered(answer: Message | None) -> None:
            if answer is not None:
                listed = {topic["name"]: (topic["topic_id"], len(topic["partitions"])) for topic in answer["topics"]}
                self._checker.topics_listed(listed)
            done()

        self._ask(metadata.API, 12, {"topics": None, "allow_auto_topic_creation": False}, answered)

    def look_at_configs(self, topic: Topic, done: Done) -> None:
        def answered(answer: Message | None) -> None:
            if answer is not None and answer["results"][0]["error_code"] == ErrorCode.NONE:
                for config in answer["results"][0]["configs"]:
                    self._checker.config_seen(topic.name, topic.id, config["name"], config["value"])
            done()

        resource = {
            "resource_type": TOPIC_RESOURCE,
            "resource_name": topic.name,
            "configuration_keys": [CHANGED_CONFIG],
        }
        self._ask(describe_configs.API, 4, {"resources": [resource]}, answered)

    def _ask(
        self, messages: ApiMessages, version: int, request: Message, answered: Callable[[Message | None], None]
    ) -> None:
        deadline_us = self._world.mono_us() + PATIENCE_US

        def send() -> None:
            connection = self._ledger.machine.connect()
            if connection is not None:
                ask(connection, messages, version, request, answered)
            elif self._world.mono_us() < deadline_us:
                self._world.after(RETRY_US, send)
            else:
                answered(None)

        send()
