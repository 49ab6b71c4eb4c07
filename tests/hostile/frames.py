"""Frames that no honest client sends, one row each: what it is, its bytes, and what the node must do.

CLOSED: the connection ends without an answer. REFUSED: an answer comes, and carries an error. SERVED: the request is
odd but legal. In every case the node lives and others are served.
"""

import struct
from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

from headrace.protocol.messages import MESSAGES
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import Value
from tests.hostile.target import TOPIC, request_body, request_frame

NOW_MS = 1_700_000_000_000


class Expect(Enum):
    CLOSED = "closed"
    REFUSED = "refused"
    SERVED = "served"


class BadFrame(NamedTuple):
    name: str
    expect: Expect
    data: bytes
    api_key: int | None = None
    version: int = 0


def i16(value: int) -> bytes:
    return struct.pack(">h", value)


def i32(value: int) -> bytes:
    return struct.pack(">i", value)


def framed(body: bytes) -> bytes:
    return i32(len(body)) + body


def header(key: int, version: int, *, client: bytes = i16(4) + b"evil") -> bytes:
    return i16(key) + i16(version) + i32(1) + client


PRODUCER = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
# Replica, wait, bytes at least and at most, isolation, session and its epoch.
_FETCH_HEAD = i32(-1) + i32(0) * 3 + b"\0" + i32(0) * 2


def closed(name: str, data: bytes) -> BadFrame:
    return BadFrame(name, Expect.CLOSED, data)


def batch(**changes: object) -> bytes:
    return encode_batch([Record(b"k", b"v" * 50, (), NOW_MS)], **changes)  # type: ignore[arg-type]


def produce(records: bytes | None, *, version: int = 7, acks: int = 1, topic: str = TOPIC, index: int = 0) -> bytes:
    data = [{"name": topic, "partition_data": [{"index": index, "records": records}]}]
    return request_frame(0, version, {"acks": acks, "timeout_ms": 1000, "topic_data": data})


def refused(name: str, data: bytes, key: int, version: int) -> BadFrame:
    return BadFrame(name, Expect.REFUSED, data, key, version)


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def _lengths() -> list[BadFrame]:
    return [
        closed("length zero", i32(0)),
        closed("length minus one", i32(-1) + b"x" * 20),
        closed("length minus 2^31", i32(-(2**31)) + b"x" * 20),
        closed("length 2^31-1", i32(2**31 - 1) + b"x" * 100),
        closed("length above the limit", i32(104_857_601) + b"x" * 100),
        closed("length of three bytes", framed(b"\0\3\0")),
        closed("length of one byte", framed(b"\0")),
        closed("an HTTP request", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        closed("a TLS hello", bytes.fromhex("16030100c8010000c4030335") + b"\x01" * 200),
        closed("an SSH banner", b"SSH-2.0-OpenSSH_9.2p1\r\n" + b"x" * 40),
    ]


def _headers() -> list[BadFrame]:
    return [
        closed("unknown API key", framed(header(999, 0))),
        closed("negative API key", framed(header(-1, 0))),
        closed("API key 32767", framed(header(32767, 0))),
        closed("replica-only LeaderAndIsr", framed(header(4, 0) + b"\0" * 40)),
        closed("replica-only StopReplica", framed(header(5, 0) + b"\0" * 40)),
        closed("replica-only UpdateMetadata", framed(header(6, 0) + b"\0" * 40)),
        closed("controller-only Vote", framed(header(52, 0) + b"\0" * 40)),
        closed("SASL handshake on a plain listener", framed(header(17, 1) + i16(5) + b"PLAIN")),
        closed("Metadata version 99", framed(header(3, 99))),
        closed("Metadata version -1", framed(header(3, -1))),
        closed("Produce version 2", framed(header(0, 2) + b"\0" * 20)),
        closed("Fetch version 3", framed(header(1, 3) + b"\0" * 20)),
        closed("client id longer than the frame", framed(header(18, 0, client=i16(500) + b"x"))),
        closed("client id of 32767 bytes announced", framed(header(3, 1, client=i16(32767)))),
        closed("client id not UTF-8", framed(header(3, 1, client=i16(3) + b"\xff\xfe\xfd") + i32(0))),
        closed("no client id at all", framed(i16(18) + i16(0) + i32(1))),
        closed("header tags without end", framed(header(18, 3) + b"\xff" * 30)),
        closed("header with 2^32-1 tags", framed(header(3, 12) + b"\xff\xff\xff\xff\x0f" + b"\0" * 20)),
        BadFrame("ApiVersions of an unknown version", Expect.REFUSED, framed(header(18, 77) + b"\0" * 4), 18, 0),
        BadFrame("a null client id", Expect.SERVED, framed(header(18, 0, client=i16(-1))), 18, 0),
        BadFrame("trailing bytes", Expect.SERVED, framed(header(18, 0) + b"trailing"), 18, 0),
    ]


def _counts() -> list[BadFrame]:
    return [
        closed("Metadata with 2^31-1 topics", framed(header(3, 1) + i32(2**31 - 1))),
        closed("Metadata with a count one too many", framed(header(3, 1) + i32(2) + i16(1) + b"a")),
        closed("Metadata with a name cut short", framed(header(3, 1) + i32(1) + i16(100) + b"a")),
        closed("Metadata with a negative name length", framed(header(3, 1) + i32(1) + i16(-5))),
        closed("Produce with 2^31-1 topics", framed(header(0, 7) + i16(-1) + i16(1) + i32(100) + i32(2**31 - 1))),
        closed("Produce with minus five topics", framed(header(0, 7) + i16(-1) + i16(1) + i32(100) + i32(-5))),
        closed(
            "Produce with records beyond the frame",
            framed(header(0, 7) + i16(-1) + i16(1) + i32(100) + i32(1) + i16(1) + b"t" + i32(1) + i32(0) + i32(10**9)),
        ),
        closed(
            "Produce with 2^31-1 partitions",
            framed(header(0, 7) + i16(-1) + i16(1) + i32(100) + i32(1) + i16(1) + b"t" + i32(2**31 - 1)),
        ),
        closed("Produce v9 with an endless varint", framed(header(0, 9) + b"\0" + b"\xff" * 12)),
        closed("Produce cut in the middle", framed(request_body(0, 7, _PRODUCE_ONE)[:-20])),
        closed("Fetch with 2^31-1 topics", framed(header(1, 11) + _FETCH_HEAD + i32(2**31 - 1))),
        closed("Fetch with minus one topics", framed(header(1, 4) + i32(-1) + i32(0) * 3 + b"\0" + i32(-1))),
        closed("Fetch v12 with a count of zero", framed(header(1, 12) + b"\0" + _FETCH_HEAD + b"\0")),
        closed("Fetch cut in the middle", framed(request_body(1, 12, _FETCH_ONE)[:-9])),
        closed("ListOffsets with a huge count", framed(header(2, 1) + i32(-1) + i32(2**30))),
        closed("CreateTopics with a huge count", framed(header(19, 2) + i32(2**31 - 1))),
        closed("DescribeConfigs with a huge count", framed(header(32, 1) + i32(2**31 - 1))),
        closed("a varint of eleven bytes", framed(header(3, 9) + b"\0" + b"\x80" * 11 + b"\1")),
        closed("a compact string longer than the frame", framed(header(3, 9) + b"\0\2\xff\x7f")),
    ]


def _batches() -> list[BadFrame]:
    good = batch()
    return [
        refused("a batch with a wrong CRC", produce(patched(good, 17, b"\0\0\0\0")), 0, 7),
        refused("a batch of magic 0", produce(patched(good, 16, b"\0")), 0, 7),
        refused("a batch of magic 1", produce(patched(good, 16, b"\1")), 0, 7),
        refused("a batch of magic 99", produce(patched(good, 16, b"\x63")), 0, 7),
        refused("a batch length of zero", produce(patched(good, 8, i32(0))), 0, 7),
        refused("a negative batch length", produce(patched(good, 8, i32(-1))), 0, 7),
        refused("a batch length beyond the records", produce(patched(good, 8, i32(10**6))), 0, 7),
        refused("two batches in one partition", produce(good + good), 0, 7),
        refused("half a batch", produce(good[:40]), 0, 7),
        refused("one byte of records", produce(b"\0"), 0, 7),
        refused("empty records", produce(b""), 0, 7),
        refused("null records", produce(None), 0, 7),
        refused("a control batch", produce(batch(control=True)), 0, 7),
        refused("a transactional batch without a transaction", produce(batch(transactional=True, **PRODUCER)), 0, 7),
        refused("a producer id without a sequence", produce(batch(producer_id=5, producer_epoch=0)), 0, 7),
        refused("a batch too large", produce(encode_batch([Record(None, b"x" * 1_500_000, (), NOW_MS)])), 0, 7),
        refused("acks of 7", produce(good, acks=7), 0, 7),
        refused("partition 2^31-1", produce(good, index=2**31 - 1), 0, 7),
        refused("partition -1", produce(good, index=-1), 0, 7),
        closed("a bad batch with acks=0", produce(patched(good, 17, b"\0\0\0\0"), acks=0)),
        refused("a timestamp a year ahead", produce(encode_batch([Record(None, b"x", (), NOW_MS * 2)])), 0, 7),
        refused("a topic with a slash", produce(good, topic="../../etc/passwd"), 0, 7),
        refused("a topic with a NUL", produce(good, topic="a\0b"), 0, 7),
    ]


def _requests() -> list[BadFrame]:
    def topic(name: str, **more: object) -> Value:
        return {"name": name, "num_partitions": 1, "replication_factor": 1, **more}

    def create(name: str, **more: object) -> bytes:
        return request_frame(19, 4, {"topics": [topic(name, **more)], "timeout_ms": 1000})

    def fetch(**partition: object) -> bytes:
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, **partition}
        topics = [{"topic": TOPIC, "partitions": [asked]}]
        return request_frame(1, 11, {"max_wait_ms": 0, "min_bytes": 1, "session_epoch": -1, "topics": topics})

    return [
        refused("a topic named ..", create(".."), 19, 4),
        refused("a topic named a/b", create("a/b"), 19, 4),
        refused("a topic with a NUL byte", create("a\0b"), 19, 4),
        refused("a topic of 250 letters", create("x" * 250), 19, 4),
        refused("an empty topic name", create(""), 19, 4),
        refused("2^31-1 partitions", create("huge", num_partitions=2**31 - 1), 19, 4),
        refused("zero partitions", create("none", num_partitions=0), 19, 4),
        refused("minus seven partitions", create("less", num_partitions=-7), 19, 4),
        refused("replication factor 32767", create("copies", replication_factor=32767), 19, 4),
        refused("an unknown topic setting", create("set", configs=[{"name": "no.such", "value": "1"}]), 19, 4),
        refused("a setting out of range", create("set", configs=[{"name": "segment.bytes", "value": "-1"}]), 19, 4),
        refused("a fetch at minus five", fetch(fetch_offset=-5), 1, 11),
        refused("a fetch at 2^63-1", fetch(fetch_offset=2**63 - 1), 1, 11),
        refused("a fetch of partition -1", fetch(partition=-1), 1, 11),
        refused("a fetch with a leader epoch of the future", fetch(current_leader_epoch=2**31 - 1), 1, 11),
        refused("deleting an unknown topic", request_frame(20, 4, {"topic_names": ["no-such"]}), 20, 4),
        refused(
            "a fetch session nobody opened",
            request_frame(1, 11, {"max_wait_ms": 0, "session_id": 77, "session_epoch": 5, "topics": []}),
            1,
            11,
        ),
    ]


_PRODUCE_ONE: Value = {
    "acks": 1,
    "timeout_ms": 1000,
    "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch()}]}],
}
_FETCH_ONE: Value = {
    "max_wait_ms": 0,
    "min_bytes": 1,
    "topics": [{"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1024}]}],
}

_TABLES: tuple[Callable[[], list[BadFrame]], ...] = (_lengths, _headers, _counts, _batches, _requests)
BAD_FRAMES: tuple[BadFrame, ...] = tuple(frame for table in _TABLES for frame in table())


def error_codes(value: object) -> set[int]:
    """Every error code anywhere in a decoded answer."""
    if isinstance(value, dict):
        found = {value["error_code"]} if "error_code" in value else set()
        return found.union(*(error_codes(each) for each in value.values()))
    if isinstance(value, list):
        return set().union(*(error_codes(each) for each in value))
    return set()


def decode(frame: BadFrame, answer: bytes) -> Value:
    assert frame.api_key is not None
    flexible = frame.version >= MESSAGES[frame.api_key].flexible_since and frame.api_key != 18
    return MESSAGES[frame.api_key].response.decode(answer[5 if flexible else 4 :], frame.version)
