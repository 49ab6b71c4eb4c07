"""Frames: what cannot be parsed, what is not served, and what must be overlooked."""

import struct
from collections.abc import Callable

from tests.conformance.batches import batch
from tests.conformance.case import Ask, Case, Raw, Together, Topic, served_versions
from tests.conformance.cases.bodies import (
    DATA,
    DATA_END,
    SHARED,
    UNKNOWN_ID,
    described,
    fetch,
    fetched_partition,
    fetched_topic,
    metadata,
    offsets,
    produce,
    stored,
)
from tests.conformance.schemas import Message, request_header_version, schema
from tests.conformance.wire import CLIENT_ID, frame

_NOWHERE = {"name": "nowhere"}
# A body of each served API that changes nothing, so that it can be cut and padded at will.
HARMLESS: dict[str, Message] = {
    "ApiVersions": {"client_software_name": "conformance", "client_software_version": "1"},
    "Metadata": metadata(DATA),
    "Produce": produce(None, topic="nowhere", topic_id=UNKNOWN_ID),
    "Fetch": fetch(fetched_topic(DATA, fetched_partition())),
    "ListOffsets": offsets(DATA, -1),
    "InitProducerId": {"transactional_id": None, "transaction_timeout_ms": 1000},
    "CreateTopics": {"topics": [{"name": "a b", "num_partitions": 1, "replication_factor": 1}]},
    "DeleteTopics": {"topics": [_NOWHERE], "topic_names": ["nowhere"], "timeout_ms": 1000},
    "CreatePartitions": {"topics": [{**_NOWHERE, "count": 2, "assignments": None}], "timeout_ms": 1000},
    "DeleteRecords": {"topics": [{**_NOWHERE, "partitions": [{"partition_index": 0}]}], "timeout_ms": 1000},
    "DescribeConfigs": described(2, DATA, keys=["cleanup.policy"]),
    "IncrementalAlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "nowhere"}]},
    "AlterConfigs": {"resources": [{"resource_type": 2, "resource_name": "nowhere"}]},
    "DescribeCluster": {},
    "DescribeTopicPartitions": {"topics": [{"name": DATA}]},
    "DescribeLogDirs": {"topics": [{"topic": DATA, "partitions": [0]}]},
}


def header(key: int, version: int, *, header_version: int = 1, client_id: str | None = CLIENT_ID) -> bytes:
    head = struct.pack(">hhi", key, version, 7)
    head += struct.pack(">h", -1) if client_id is None else struct.pack(">h", len(client_id)) + client_id.encode()
    return head + (b"\0" if header_version == 2 else b"")


def _raw(name: str, data: bytes, *, api: str = "(frame)", version: int = 0) -> Case:
    return Case(api=api, name=name, steps=[Raw(data, version)], versions=range(version, version + 1))


def _unserved() -> list[Case]:
    cases = []
    for api in HARMLESS:
        served, key = served_versions(api), schema(f"{api}Request").api_key
        for version in (served[0] - 1, served[-1] + 1, 32767):
            if api != "ApiVersions":
                data = header(key, version, header_version=request_header_version(api, served[-1]))
                cases.append(_raw(f"version {version} is not served", frame(data + bytes(64)), api=api))
    return cases


def _mangled(name: str, change: Callable[[bytes], bytes]) -> list[Case]:
    return [Case(api=api, name=name, steps=[Ask(api, body, mangle=change)]) for api, body in HARMLESS.items()]


def _with_tags(tags: bytes) -> Callable[[bytes], bytes]:
    """In place of the empty tag section at the end of a flexible request."""

    def change(request: bytes) -> bytes:
        assert request.endswith(b"\0")
        return request[:-1] + tags

    return change


def _flexible(name: str, change: Callable[[bytes], bytes]) -> list[Case]:
    cases = []
    for api, body in HARMLESS.items():
        versions = [one for one in served_versions(api) if request_header_version(api, one) == 2]
        cases.append(
            Case(
                api=api,
                name=name,
                steps=[Ask(api, body, mangle=change)],
                versions=range(versions[0], versions[-1] + 1),
            )
        )
    return cases


def _metadata_raw(name: str, body: bytes, *, version: int = 1) -> Case:
    head = header(3, version, header_version=request_header_version("Metadata", version))
    return _raw(name, frame(head + body), api="Metadata", version=version)


def _without_client_id(request: bytes) -> bytes:
    return request[:8] + struct.pack(">h", -1) + request[10 + len(CLIENT_ID) :]


_UNKNOWN_KEYS = (-1, 4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 93, 999, 32767)

_WAITING = Ask("Fetch", fetch(fetched_topic(DATA, fetched_partition(0, DATA_END)), max_wait_ms=200))
_AT_ONCE = Ask("Metadata", metadata(DATA), version=12)
_WRITES = {acks: Ask("Produce", produce(batch(2), acks=acks), version=12) for acks in (-1, 0, 1)}

CASES: list[Case] = [
    *(_raw(f"api key {key} is unknown", frame(header(key, 0) + bytes(16))) for key in _UNKNOWN_KEYS),
    *_unserved(),
    _raw("ApiVersions of version 5", frame(header(18, 5, header_version=2) + b"\x02x\x021\0"), api="ApiVersions"),
    _raw("ApiVersions of version 99", frame(header(18, 99, header_version=2) + b"anything"), api="ApiVersions"),
    _raw("ApiVersions of version 5 in an old header", frame(header(18, 5)), api="ApiVersions"),
    _raw("ApiVersions of version -1", frame(header(18, -1)), api="ApiVersions"),
    _raw("no bytes", struct.pack(">i", 0)),
    _raw("three bytes", struct.pack(">i", 3) + b"abc"),
    _raw("a negative length", struct.pack(">i", -1)),
    _raw("the lowest length", struct.pack(">i", -(2**31))),
    _raw("a length beyond the limit", struct.pack(">i", 104_857_601)),
    _raw("the highest length", struct.pack(">i", 2**31 - 1)),
    _raw("half a header", frame(header(3, 1)[:9])),
    _raw("the text of an HTTP request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    _raw("client id longer than the frame", frame(struct.pack(">hhih", 3, 1, 7, 500) + b"ab")),
    _raw("client id with length -2", frame(struct.pack(">hhih", 3, 1, 7, -2) + bytes(4)), api="Metadata", version=1),
    Case(api="Metadata", name="no client id", steps=[Ask("Metadata", metadata(DATA), mangle=_without_client_id)]),
    _metadata_raw("a count beyond the frame", struct.pack(">i", 1_000_000)),
    _metadata_raw("the highest count", struct.pack(">i", 2**31 - 1)),
    _metadata_raw("a null name", struct.pack(">ih", 1, -1)),
    _metadata_raw("a name of length -2", struct.pack(">ih", 1, -2)),
    _metadata_raw("a name longer than the frame", struct.pack(">ih", 1, 300) + b"abc"),
    _metadata_raw("a compact count beyond the frame", b"\xff\xff\xff\xff\x07" + bytes(8), version=12),
    _metadata_raw("a varint of six bytes", b"\xff\xff\xff\xff\xff\x01" + bytes(8), version=12),
    _metadata_raw("a varint that never ends", b"\xff" * 12, version=12),
    Case(
        api="Metadata",
        name="a count of -2",
        steps=[Ask("Metadata", metadata(), only=SHARED, mangle=lambda request: request[:-4] + struct.pack(">i", -2))],
        versions=range(1, 4),
    ),
    Case(
        api="Fetch",
        name="answers in the order of their requests, however long one waits",
        steps=[Together([_WAITING, _AT_ONCE, _WAITING, Ask("ListOffsets", offsets(DATA, -1))])],
    ),
    Case(
        api="Produce",
        name="many writes in flight, some without an answer",
        steps=[
            Together([_WRITES[-1], _WRITES[1], _WRITES[-1]]),
            Ask("Produce", produce(batch(1), acks=0), unanswered=True),
            _WRITES[-1],
            stored(),
        ],
        topics={"$topic": Topic()},
    ),
    Case(
        api="Metadata",
        name="a good request before a bad one",
        steps=[Together([_AT_ONCE, Ask("Metadata", metadata(DATA), mangle=lambda request: request[:-1])])],
    ),
    *(
        Case(api=api, name="sent byte by byte", steps=[Ask(api, HARMLESS[api], chunk_bytes=1)])
        for api in ("ApiVersions", "Metadata", "Produce", "Fetch")
    ),
    *_mangled("last byte cut", lambda request: request[:-1]),
    *_mangled("half of it", lambda request: request[: len(request) // 2]),
    *_mangled("bytes after the end", lambda request: request + b"\x01trailing"),
    *_flexible("an unknown tag", _with_tags(b"\x01\x63\x03abc")),
    *_flexible("two unknown tags out of order", _with_tags(b"\x02\x64\x01a\x63\x01b")),
    *_flexible("an unknown tag twice", _with_tags(b"\x02\x63\x01a\x63\x01b")),
    *_flexible("a tag longer than the frame", _with_tags(b"\x01\x63\x7fabc")),
    *_flexible("a tag count beyond the frame", _with_tags(b"\x7f\x63\x01a")),
]
