"""An error as the answer to a whole request: for every API a message of the right shape.

Where an API has room for an error in each row, each row gets it; where it has one for the whole answer, that. One
table: an API that is served and has no line here is found by a test.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from headrace.coordination import answers
from headrace.errors import ErrorCode
from headrace.node.apis import Message
from headrace.node.topics import Topic
from headrace.protocol import messages as tables
from headrace.protocol.fetch import TOPIC_IDS_SINCE
from headrace.testing.inside.requests import AskedRequest

Refuse = Callable[[AskedRequest, ErrorCode], Message]


def refusal(asked: AskedRequest, code: ErrorCode, *, topic: str | None) -> Message:
    """`topic` is the one that the error is about, where it is about one."""
    if asked.key == tables.fetch.API.key:
        return _fetch(asked, code, {topic} if topic is not None else asked.topics)
    return REFUSALS[asked.key](asked, code)


def _whole(asked: AskedRequest, code: ErrorCode) -> Message:
    return {"error_code": code}


def _produce(asked: AskedRequest, code: ErrorCode) -> Message:
    return {
        "responses": [
            {
                **_identity(topic),
                "partition_responses": [
                    {"index": row["index"], "error_code": code, "base_offset": -1} for row in topic["partition_data"]
                ],
            }
            for topic in asked.body["topic_data"]
        ]
    }


def _fetch(asked: AskedRequest, code: ErrorCode, topics: Collection[str]) -> Message:
    """Without a session: a reader that had one names everything anew. Other topics have nothing new to tell."""
    by_id = asked.version >= TOPIC_IDS_SINCE
    keyed = asked.node.topics.keyed(by_id=by_id)
    wanted: dict[bytes, list[int]] = {}
    for key, index in asked.session.entries if asked.session is not None else ():
        wanted.setdefault(key, []).append(index)
    for topic in asked.body["topics"]:
        key = topic["topic_id"] if by_id else topic["topic"].encode()
        indexes = wanted.setdefault(key, [])
        indexes += [row["partition"] for row in topic["partitions"] if row["partition"] not in indexes]
    return {
        "session_id": 0,
        "responses": [
            {
                **({"topic_id": key} if by_id else {"topic": key.decode()}),
                "partitions": [_fetched(keyed.get(key), index, code, topics) for index in indexes],
            }
            for key, indexes in wanted.items()
        ],
    }


def _fetched(topic: Topic | None, index: int, code: ErrorCode, topics: Collection[str]) -> dict[str, Any]:
    row = {"partition_index": index, "records": b"", "aborted_transactions": None}
    if topic is None or topic.name in topics or index >= len(topic.partitions):
        return {**row, "error_code": code, "high_watermark": -1}
    log = topic.partitions[index].log
    return {
        **row,
        "high_watermark": log.high_watermark,
        "last_stable_offset": log.high_watermark,
        "log_start_offset": log.start_offset,
    }


def _metadata(asked: AskedRequest, code: ErrorCode) -> Message:
    node = asked.node
    host, port = node.endpoints[asked.client.listener]
    named = asked.body["topics"] or [{"name": name} for name in sorted(asked.topics)]
    return {
        "brokers": [{"node_id": node.id, "host": host, "port": port}],
        "cluster_id": node.identity.cluster_id,
        "controller_id": node.id,
        "topics": [{**_identity(topic), "error_code": code} for topic in named],
    }


def _partitions(index: str, *, topic: str = "name", **beside: Any) -> Refuse:
    """Of the APIs that answer with the topics and partitions they were asked about."""

    def refuse(asked: AskedRequest, code: ErrorCode) -> Message:
        return {
            "topics": [
                {
                    topic: item[topic],
                    "partitions": [{index: row[index], "error_code": code, **beside} for row in item["partitions"]],
                }
                for item in asked.body["topics"]
            ]
        }

    return refuse


def _topics(answer: str) -> Refuse:
    """Of the APIs that answer with the topics they were asked about."""

    def refuse(asked: AskedRequest, code: ErrorCode) -> Message:
        named = [*asked.body.get("topics", ()), *({"name": name} for name in asked.body.get("topic_names", ()))]
        return {answer: [{**_identity(topic), "error_code": code, "error_message": code.name} for topic in named]}

    return refuse


def _resources(answer: str) -> Refuse:
    def refuse(asked: AskedRequest, code: ErrorCode) -> Message:
        return {
            answer: [
                {
                    "resource_type": resource["resource_type"],
                    "resource_name": resource["resource_name"],
                    "error_code": code,
                    "error_message": code.name,
                }
                for resource in asked.body["resources"]
            ]
        }

    return refuse


def _find_coordinator(asked: AskedRequest, code: ErrorCode) -> Message:
    nobody = {"error_code": code, "error_message": code.name, "node_id": -1, "host": "", "port": -1}
    return {**nobody, "coordinators": [{**nobody, "key": key} for key in asked.body["coordinator_keys"]]}


def _offset_fetch(asked: AskedRequest, code: ErrorCode) -> Message:
    groups = answers.fetch_groups(asked.body, asked.version)
    refused = [answers.fetch_refused(group, code) for group in groups]
    return answers.fetched(asked.body, refused, asked.version)


def _describe_topic_partitions(asked: AskedRequest, code: ErrorCode) -> Message:
    return {"topics": [{"name": topic["name"], "error_code": code} for topic in asked.body["topics"]]}


def _log_dirs(asked: AskedRequest, code: ErrorCode) -> Message:
    return {"error_code": code, "results": [{"error_code": code, "log_dir": ""}]}


def _identity(topic: Mapping[str, Any]) -> dict[str, Any]:
    """By name and by id, whichever the version has."""
    return {name: topic[name] for name in ("name", "topic_id") if name in topic}


REFUSALS: Final[Mapping[int, Refuse]] = {
    tables.produce.API.key: _produce,
    tables.list_offsets.API.key: _partitions("partition_index"),
    tables.metadata.API.key: _metadata,
    tables.offset_commit.API.key: lambda asked, code: answers.commit_refused(asked.body, code),
    tables.offset_fetch.API.key: _offset_fetch,
    tables.find_coordinator.API.key: _find_coordinator,
    tables.join_group.API.key: lambda asked, code: answers.join_refused(
        asked.version, code, member_id=asked.body["member_id"]
    ),
    tables.heartbeat.API.key: _whole,
    tables.leave_group.API.key: _whole,
    tables.sync_group.API.key: _whole,
    tables.describe_groups.API.key: lambda asked, code: {
        "groups": [answers.describe_refused(group_id, code) for group_id in asked.body["groups"]]
    },
    tables.list_groups.API.key: _whole,
    tables.api_versions.API.key: _whole,
    tables.create_topics.API.key: _topics("topics"),
    tables.delete_topics.API.key: _topics("responses"),
    tables.delete_records.API.key: _partitions("partition_index", low_watermark=-1),
    tables.init_producer_id.API.key: _whole,
    tables.offset_for_leader_epoch.API.key: _partitions("partition", topic="topic"),
    tables.describe_configs.API.key: _resources("results"),
    tables.alter_configs.API.key: _resources("responses"),
    tables.alter_configs.INCREMENTAL_API.key: _resources("responses"),
    tables.describe_log_dirs.API.key: _log_dirs,
    tables.create_partitions.API.key: _topics("results"),
    tables.delete_groups.API.key: lambda asked, code: answers.delete_refused(asked.body["groups_names"], code),
    tables.offset_delete.API.key: _whole,
    tables.describe_cluster.API.key: _whole,
    tables.describe_topic_partitions.API.key: _describe_topic_partitions,
}
