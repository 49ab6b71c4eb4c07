"""Errors in the shape of every API and version, read back as a client reads them."""

from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.node.apis import answer_of
from headrace.node.handlers import APIS
from headrace.protocol.fetch import TOPIC_IDS_SINCE
from headrace.protocol.header import encode_request_header
from headrace.testing.inside.refusals import refusal
from headrace.testing.inside.requests import AskedRequest
from tests.unit.node.driven_node import API_NAMED, CLIENT, DrivenNode
from tests.unit.node.test_handlers_every_api import BODIES, EVERY_VERSION

CODE = ErrorCode.UNSTABLE_OFFSET_COMMIT


@pytest.fixture(scope="module")
def driven() -> DrivenNode:
    driven = DrivenNode()
    driven.create("here")
    return driven


def ask(driven: DrivenNode, api: str, version: int, body: dict[str, Any]) -> AskedRequest:
    messages = API_NAMED[api]
    header = encode_request_header(api_key=messages.key, api_version=version, correlation_id=7, client_id="test")
    return AskedRequest(driven.node, memoryview(header + messages.request.encode(body, version)), CLIENT)


def refuse(asked: AskedRequest, *, topic: str | None = None) -> dict[str, Any]:
    """What a client is told."""
    api = APIS[asked.key]
    (encoded,), _ = answer_of(api, refusal(asked, CODE, topic=topic), asked.version)
    assert isinstance(encoded, bytes)
    return api.messages.response.decode(encoded, asked.version)


def error_codes(answer: Any) -> list[int]:
    """All of them, wherever they stand, that are not 'no error'."""
    if isinstance(answer, list):
        return [code for item in answer for code in error_codes(item)]
    if isinstance(answer, dict):
        own = [answer["error_code"]] if answer.get("error_code") else []
        return own + [code for value in answer.values() for code in error_codes(value)]
    return []


# Bodies that name something which can be refused.
FULL = BODIES | {
    "Produce": {"acks": 1, "topic_data": [{"name": "here", "partition_data": [{"index": 0}]}]},
    "OffsetFetch": {"topics": [{"name": "here", "partition_indexes": [0]}], "groups": [{"group_id": "g"}]},
    "FindCoordinator": {"key_type": 0, "coordinator_keys": ["g"]},
}


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_an_error_arrives_in_every_version(driven: DrivenNode, api: str, version: int) -> None:
    fields = {field.name for field in API_NAMED[api].request.struct.fields if field.in_version(version)}
    body = {name: value for name, value in FULL[api].items() if name in fields}
    codes = error_codes(refuse(ask(driven, api, version, body)))
    assert codes
    assert set(codes) == {CODE}


def test_a_fetch_is_refused_for_one_topic_and_empty_for_the_others(driven: DrivenNode) -> None:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in ("here", "there")]
    asked = ask(driven, "Fetch", 11, {"topics": topics})
    assert asked.topics == {"here", "there"}
    refused = {row["topic"]: row["partitions"][0] for row in refuse(asked, topic="there")["responses"]}
    assert (refused["here"]["error_code"], refused["there"]["error_code"]) == (0, CODE)
    assert (refused["here"]["high_watermark"], refused["here"]["records"]) == (0, b"")


def test_a_fetch_by_a_session_is_about_all_that_the_session_is_about(driven: DrivenNode) -> None:
    topic = driven.node.topics.named("here")
    assert topic is not None
    for version, row in ((TOPIC_IDS_SINCE - 1, {"topic": "here"}), (TOPIC_IDS_SINCE, {"topic_id": topic.id})):
        partitions = [{"partition": 0, "partition_max_bytes": 1 << 20}]
        opened = driven.ask(
            "Fetch", version, max_bytes=1 << 20, session_epoch=0, topics=[{**row, "partitions": partitions}]
        )
        asked = ask(driven, "Fetch", version, {"session_id": opened["session_id"], "session_epoch": 1})
        assert asked.topics == {"here"}
        assert error_codes(refuse(asked, topic="here")) == [CODE]


def test_topics_are_found_wherever_a_request_names_them(driven: DrivenNode) -> None:
    topic = driven.node.topics.named("here")
    assert topic is not None
    named: list[tuple[str, int, dict[str, Any]]] = [
        ("Metadata", 12, {"topics": [{"name": "here"}]}),
        ("Metadata", 12, {"topics": [{"topic_id": topic.id, "name": None}]}),
        ("Metadata", 12, {"topics": None}),
        ("Produce", 13, {"topic_data": [{"topic_id": topic.id, "partition_data": []}]}),
        ("DeleteTopics", 5, {"topic_names": ["here"]}),
        ("OffsetFetch", 9, {"groups": [{"group_id": "g", "topics": [{"name": "here", "partition_indexes": [0]}]}]}),
        ("DescribeConfigs", 4, {"resources": [{"resource_type": 2, "resource_name": "here"}]}),
    ]
    for api, version, body in named:
        assert "here" in ask(driven, api, version, body).topics, api
    assert ask(driven, "DescribeGroups", 5, {"groups": ["here"]}).topics == set()
