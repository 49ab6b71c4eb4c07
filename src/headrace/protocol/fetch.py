"""Fetch, by hand: versions 4 to 18. See `protocol.produce` for why.

The response is a list of parts: bytes, and between them the places where records go, which the shell may send from
the page cache without ever seeing them.
"""

import struct
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import ProtocolError
from headrace.protocol.primitives import read_tagged_fields, read_unsigned_varint, skip_tagged_fields
from headrace.protocol.produce import varint

VERSION_MIN: Final = 4
VERSION_MAX: Final = 18
FLEXIBLE_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13
ENDPOINTS_SINCE: Final = 16

CONSUMER: Final = -1
NO_EPOCH: Final = -1
NO_SESSION: Final = 0
SESSION_EPOCH_INITIAL: Final = 0
SESSION_EPOCH_FINAL: Final = -1

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">iiiib")  # Replica, wait, bytes at least, bytes at most, isolation.
_HEAD_15: Final = Struct(">iiib")
_SESSION: Final = Struct(">ii")
_PARTITION_4: Final = Struct(">iqi")
_PARTITION_5: Final = Struct(">iqqi")
_PARTITION_9: Final = Struct(">iiqqi")
_PARTITION_12: Final = Struct(">iiqiqi")
_REPLICA_STATE: Final = Struct(">iq")
_REPLICA_STATE_TAG: Final = 1
_ANSWER_4: Final = Struct(">ihqq")
_ANSWER_5: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_LEADER: Final = Struct(">ii")
_NO_RACK: Final = b"\0\0"  # And no further fields.
_EPOCH_END: Final = Struct(">iq")
_SESSION_ANSWER: Final = Struct(">ihi")  # Throttle, error, session.


class FetchPartition(NamedTuple):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    bytes_max: int


class FetchRequest(NamedTuple):
    replica_id: int
    wait_ms_max: int
    bytes_min: int
    bytes_max: int
    read_committed: bool
    session_id: int
    session_epoch: int
    topics: list[tuple[bytes, list[FetchPartition]]]
    forgotten: list[tuple[bytes, list[int]]]


class PartitionData(NamedTuple):
    """One partition's answer; `records_bytes` is what the shell will send in the part that follows."""

    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    start_offset: int
    records_bytes: int
    aborted: list[tuple[int, int]] | None = None
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None


def parse_fetch(frame: memoryview, position: int, version: int) -> FetchRequest:
    try:
        parse = _parse_flexible if version >= FLEXIBLE_SINCE else _parse_old
        return parse(frame, position, version)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"fetch request cut short: {error}") from error


def _checked(count: int, item_bytes: int, left: int, what: str) -> int:
    if not 0 <= count * item_bytes <= left:
        raise ProtocolError(f"{count} {what} in {left} bytes")
    return count


def _parse_old(frame: memoryview, position: int, version: int) -> FetchRequest:
    end = len(frame)
    replica_id, wait_ms, bytes_min, bytes_max, isolation = _HEAD.unpack_from(frame, position)
    position += _HEAD.size
    session_id, session_epoch = NO_SESSION, SESSION_EPOCH_FINAL
    if version >= 7:
        session_id, session_epoch = _SESSION.unpack_from(frame, position)
        position += 8
    layout = _PARTITION_9 if version >= 9 else _PARTITION_5 if version >= 5 else _PARTITION_4
    (topic_count,) = _INT32.unpack_from(frame, position)
    position += 4
    topics = []
    for _ in range(_checked(topic_count, 6, end - position, "topics")):
        topic, position = _old_name(frame, position, end)
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
        partitions = []
        for _ in range(_checked(count, layout.size, end - position, "partitions")):
            fields = layout.unpack_from(frame, position)
            position += layout.size
            if version >= 9:
                index, epoch, offset, start, partition_bytes = fields
            elif version >= 5:
                (index, offset, start, partition_bytes), epoch = fields, NO_EPOCH
            else:
                (index, offset, partition_bytes), epoch, start = fields, NO_EPOCH, -1
            partitions.append(FetchPartition(index, epoch, offset, NO_EPOCH, start, partition_bytes))
        topics.append((topic, partitions))
    forgotten = []
    if version >= 7:
        (topic_count,) = _INT32.unpack_from(frame, position)
        position += 4
        for _ in range(_checked(topic_count, 6, end - position, "forgotten topics")):
            topic, position = _old_name(frame, position, end)
            (count,) = _INT32.unpack_from(frame, position)
            position += 4
            _checked(count, 4, end - position, "forgotten partitions")
            forgotten.append((topic, [_INT32.unpack_from(frame, position + 4 * n)[0] for n in range(count)]))
            position += 4 * count
        if version >= 11:
            _old_name(frame, position, end)  # The reader's rack: every replica is equally near.
    return FetchRequest(
        replica_id, wait_ms, bytes_min, bytes_max, isolation == 1, session_id, session_epoch, topics, forgotten
    )


def _old_name(frame: memoryview, position: int, end: int) -> tuple[bytes, int]:
    (size,) = _INT16.unpack_from(frame, position)
    position += 2
    if not 0 <= size <= end - position:
        raise ProtocolError(f"name of {size} bytes in {end - position}")
    return bytes(frame[position : position + size]), position + size


def _parse_flexible(frame: memoryview, position: int, version: int) -> FetchRequest:
    end = len(frame)
    if version >= 15:
        replica_id = CONSUMER
        wait_ms, bytes_min, bytes_max, isolation = _HEAD_15.unpack_from(frame, position)
        position += _HEAD_15.size
    else:
        replica_id, wait_ms, bytes_min, bytes_max, isolation = _HEAD.unpack_from(frame, position)
        position += _HEAD.size
    session_id, session_epoch = _SESSION.unpack_from(frame, position)
    topic_count, position = read_unsigned_varint(frame, position + 8)
    topics = []
    unpack = _PARTITION_12.unpack_from
    for _ in range(_checked(topic_count - 1, 3, end - position, "topics")):
        topic, position = _topic_key(frame, position, end, version)
        count, position = read_unsigned_varint(frame, position)
        partitions = []
        for _ in range(_checked(count - 1, _PARTITION_12.size + 1, end - position, "partitions")):
            index, epoch, offset, last_epoch, start, partition_bytes = unpack(frame, position)
            position += 32
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
            partitions.append(FetchPartition(index, epoch, offset, last_epoch, start, partition_bytes))
        topics.append((topic, partitions))
        position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
    topic_count, position = read_unsigned_varint(frame, position)
    forgotten = []
    for _ in range(_checked(topic_count - 1, 3, end - position, "forgotten topics")):
        topic, position = _topic_key(frame, position, end, version)
        count, position = read_unsigned_varint(frame, position)
        _checked(count - 1, 4, end - position, "forgotten partitions")
        forgotten.append((topic, [_INT32.unpack_from(frame, position + 4 * n)[0] for n in range(count - 1)]))
        position = skip_tagged_fields(frame, position + 4 * (count - 1))
    size, position = read_unsigned_varint(frame, position)
    position += _checked(size - 1, 1, end - position, "bytes of rack id")
    if frame[position] != 0:
        for tag, start, _ in read_tagged_fields(frame, position)[0]:
            if version >= 15 and tag == _REPLICA_STATE_TAG:
                replica_id, _ = _REPLICA_STATE.unpack_from(frame, start)
    return FetchRequest(
        replica_id, wait_ms, bytes_min, bytes_max, isolation == 1, session_id, session_epoch, topics, forgotten
    )


def _topic_key(frame: memoryview, position: int, end: int, version: int) -> tuple[bytes, int]:
    if version >= TOPIC_IDS_SINCE:
        size = 17
    else:
        size, position = read_unsigned_varint(frame, position)
    if not 0 < size <= end - position + 1:
        raise ProtocolError(f"topic of {size - 1} bytes in {end - position}")
    return bytes(frame[position : position + size - 1]), position + size - 1


def encode_fetch_head(version: int, *, error: int, session_id: int, topic_count: int) -> bytes:
    """Everything before the first topic."""
    if version >= FLEXIBLE_SINCE:
        return _SESSION_ANSWER.pack(0, error, session_id) + varint(topic_count + 1)
    if version >= 7:
        return _SESSION_ANSWER.pack(0, error, session_id) + _INT32.pack(topic_count)
    return b"\0\0\0\0" + _INT32.pack(topic_count)


def encode_topic_head(version: int, topic: bytes, partition_count: int) -> bytes:
    if version >= TOPIC_IDS_SINCE:
        return topic + varint(partition_count + 1)
    if version >= FLEXIBLE_SINCE:
        return varint(len(topic) + 1) + topic + varint(partition_count + 1)
    return _INT16.pack(len(topic)) + topic + _INT32.pack(partition_count)


def encode_partition_head(version: int, data: PartitionData) -> bytes:
    """Everything of a partition that stands before its records."""
    if version < FLEXIBLE_SINCE:
        if version >= 5:
            out = _ANSWER_5.pack(
                data.partition, data.error, data.high_watermark, data.last_stable_offset, data.start_offset
            )
        else:
            out = _ANSWER_4.pack(data.partition, data.error, data.high_watermark, data.last_stable_offset)
        if data.aborted is None:
            out += b"\xff\xff\xff\xff"
        else:
            out += _INT32.pack(len(data.aborted)) + b"".join(_ABORTED.pack(*pair) for pair in data.aborted)
        if version >= 11:
            out += b"\xff\xff\xff\xff"  # Preferred replica: none. 0 would send readers to node 0.
        return out + _INT32.pack(data.records_bytes)
    out = _ANSWER_5.pack(data.partition, data.error, data.high_watermark, data.last_stable_offset, data.start_offset)
    if data.aborted is None:
        out += b"\0"
    else:
        out += varint(len(data.aborted) + 1) + b"".join(_ABORTED.pack(*pair) + b"\0" for pair in data.aborted)
    return out + b"\xff\xff\xff\xff" + varint(data.records_bytes + 1)


def encode_partition_tail(version: int, data: PartitionData) -> bytes:
    """Everything of a partition that stands behind its records."""
    if version < FLEXIBLE_SINCE:
        return b""
    if data.diverging is None and data.leader is None:
        return b"\0"
    tags = []
    if data.diverging is not None:
        tags.append(b"\x00\x0d" + _EPOCH_END.pack(*data.diverging) + b"\0")
    if data.leader is not None:
        tags.append(b"\x01\x09" + _LEADER.pack(*data.leader) + b"\0")
    return varint(len(tags)) + b"".join(tags)


def encode_topic_tail(version: int) -> bytes:
    return b"\0" if version >= FLEXIBLE_SINCE else b""


def encode_fetch_tail(version: int, leaders: Sequence[tuple[int, str, int]] = ()) -> bytes:
    """Everything behind the last topic; `leaders` are id, host and port of those whom partitions name."""
    if not leaders or version < ENDPOINTS_SINCE:
        return b"\0" if version >= FLEXIBLE_SINCE else b""
    nodes = [varint(len(leaders) + 1)]
    for node_id, host, port in leaders:
        name = host.encode()
        nodes += [_INT32.pack(node_id), varint(len(name) + 1), name, _INT32.pack(port), _NO_RACK]
    encoded = b"".join(nodes)
    return b"\x01\x00" + varint(len(encoded)) + encoded
