"""What holds for all served APIs alike: every version is answered, and a cut request is not."""

from typing import Any

import pytest

from headrace.errors import ProtocolError
from headrace.ids import ZERO_TOPIC_ID
from headrace.node.apis import API_VERSIONS_KEY
from headrace.node.handlers import APIS
from headrace.protocol.header import encode_request_header
from headrace.protocol.messages import MESSAGES
from tests.unit.node.driven_node import CLIENT, DrivenNode

# A request of each API that changes nothing.
BODIES: dict[str, dict[str, Any]] = {
    "Produce": {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "nowhere", "topic_id": bytes(16)}]},
    "Fetch": {"max_wait_ms": 0, "topics": [{"topic": "nowhere", "partitions": [{"partition": 0}]}]},
    "ListOffsets": {"replica_id": -1, "topics": [{"name": "nowhere", "partitions": [{"timestamp": -1}]}]},
    "Metadata": {"topics": [{"name": "here"}]},
    "OffsetCommit": {
        "group_id": "g",
        "topics": [{"name": "here", "partitions": [{"partition_index": 0, "committed_metadata": ""}]}],
    },
    "OffsetFetch": {},
    "FindCoordinator": {"key_type": 0},
    "JoinGroup": {
        "group_id": "g",
        "session_timeout_ms": 10_000,
        "member_id": "nobody",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    },
    "Heartbeat": {"group_id": "g", "generation_id": 1, "member_id": "nobody"},
    "LeaveGroup": {"group_id": "g"},
    "SyncGroup": {"group_id": "g", "generation_id": 1, "member_id": "nobody"},
    "DescribeGroups": {"groups": ["g"]},
    "ListGroups": {},
    "DeleteGroups": {"groups_names": ["g"]},
    "OffsetDelete": {"group_id": "g", "topics": [{"name": "here", "partitions": [{"partition_index": 0}]}]},
    "ApiVersions": {"client_software_name": "test", "client_software_version": "1"},
    "CreateTopics": {"topics": [{"name": "a b", "num_partitions": 1, "replication_factor": 1}]},
    "DeleteTopics": {"topic_names": ["nowhere"], "topics": [{"name": "nowhere", "topic_id": ZERO_TOPIC_ID}]},
    "DeleteRecords": {"topics": [{"name": "nowhere", "partitions": [{"partition_index": 0}]}]},
    "InitProducerId": {"transactional_id": None},
    "OffsetForLeaderEpoch": {"topics": [{"topic": "here", "partitions": [{"leader_epoch": 0}]}]},
    "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "here", "configuration_keys": None}]},
    "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "nowhere"}]},
    "IncrementalAlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "nowhere"}]},
    "DescribeLogDirs": {"topics": None},
    "CreatePartitions": {"topics": [{"name": "nowhere", "count": 2, "assignments": None}]},
    "DescribeCluster": {},
    "DescribeTopicPartitions": {"topics": [{"name": "here"}]},
}
EVERY_VERSION = [
    (api.messages.name, version) for api in APIS.values() for version in range(api.version_min, api.version_max + 1)
]


def test_there_is_a_body_for_each_api() -> None:
    assert BODIES.keys() == {api.messages.name for api in APIS.values()}


def test_no_version_is_served_that_the_tables_do_not_have() -> None:
    for api in APIS.values():
        table = api.messages
        assert table.version_min <= api.version_min <= api.version_max <= table.version_max, table.name
        assert (api.handle is None) != (api.handle_raw is None)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_every_version_is_answered(api: str, version: int) -> None:
    node = DrivenNode()
    node.create("here", partitions=2)
    request = dict(BODIES[api])
    # What an old version cannot carry must not be asked for.
    if api == "DeleteTopics":
        del request["topic_names" if version >= 6 else "topics"]
    assert node.ask(api, version, **request)


@pytest.mark.parametrize("api", [name for name in BODIES if name not in ("ApiVersions", "DescribeCluster")])
def test_a_cut_request_closes_the_connection(api: str) -> None:
    node = DrivenNode()
    served = next(one for one in APIS.values() if one.messages.name == api)
    for version in (served.version_min, served.version_max):
        request = dict(BODIES[api])
        if api == "DeleteTopics":
            del request["topic_names" if version >= 6 else "topics"]
        body = served.messages.request.encode(request, version)
        for size in range(len(body)):
            with pytest.raises(ProtocolError):
                node.send(api, version, body[:size])


@pytest.mark.parametrize("key", [-1, 4, 7, 17, 24, 999, 32767])
def test_an_unserved_api_closes_the_connection(key: int) -> None:
    frame = encode_request_header(api_key=key, api_version=0, correlation_id=1, client_id=None)
    with pytest.raises(ProtocolError, match=f"API {key} version 0"):
        DrivenNode().node.handle(memoryview(frame + bytes(16)), CLIENT)


@pytest.mark.parametrize("key", [key for key in APIS if key != API_VERSIONS_KEY])
def test_an_unserved_version_closes_the_connection(key: int) -> None:
    node = DrivenNode().node
    for version in (APIS[key].version_min - 1, APIS[key].version_max + 1):
        frame = encode_request_header(api_key=key, api_version=version, correlation_id=1, client_id=None)
        with pytest.raises(ProtocolError, match=f"API {key} version {version}"):
            node.handle(memoryview(frame + bytes(64)), CLIENT)


def test_only_what_has_a_table_is_served() -> None:
    assert APIS.keys() <= MESSAGES.keys()
