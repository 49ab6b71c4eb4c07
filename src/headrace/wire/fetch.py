"""Fetch answers by hand: versions 4 to 18, with the records as views into the frame.

The table in `protocol.messages.fetch` says the same and copies every record; tests hold the two together. What readers
have no use for (sessions' diverging epochs, snapshots, where other leaders listen) is passed over.
"""

import struct
from struct import Struct
from typing import Final, NamedTuple

from headrace.errors import ProtocolError
from headrace.protocol.fetch import FLEXIBLE_SINCE, TOPIC_IDS_SINCE
from headrace.protocol.primitives import read_tagged_fields, read_unsigned_varint, skip_tagged_fields

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD: Final = Struct(">ihi")  # Throttle, error, session.
_PARTITION_4: Final = Struct(">ihqq")
_PARTITION_5: Final = Struct(">ihqqq")
_ABORTED: Final = Struct(">qq")
_LEADER: Final = Struct(">ii")
_LEADER_TAG: Final = 1
_NONE: Final = memoryview(b"")


class FetchedPartition(NamedTuple):
    topic: str | bytes  # The name up to version 12, the id from 13 on.
    partition: int
    error: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int  # -1 before version 5.
    aborted: list[tuple[int, int]]  # Producer id and first offset.
    preferred_read_replica: int
    leader: tuple[int, int] | None  # Id and epoch of the new one, where the broker is not it any more.
    records: memoryview


class FetchAnswer(NamedTuple):
    throttle_ms: int
    error: int
    session_id: int
    partitions: list[FetchedPartition]


def parse_fetch_answer(frame: memoryview, position: int, version: int) -> FetchAnswer:
    """Views of the records are into `frame`, which lives as long as one of them does."""
    try:
        parse = _parse_flexible if version >= FLEXIBLE_SINCE else _parse_old
        return parse(frame, position, version)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ProtocolError(f"Fetch response v{version} makes no sense: {error}") from error


def _parse_old(frame: memoryview, position: int, version: int) -> FetchAnswer:
    error = session_id = 0
    if version >= 7:
        throttle_ms, error, session_id = _HEAD.unpack_from(frame, position)
        position += _HEAD.size
    else:
        (throttle_ms,) = _INT32.unpack_from(frame, position)
        position += 4
    layout = _PARTITION_5 if version >= 5 else _PARTITION_4
    partitions = []
    (topic_count,) = _INT32.unpack_from(frame, position)
    position += 4
    for _ in range(_checked(topic_count, 6, frame, position, "topics")):
        (size,) = _INT16.unpack_from(frame, position)
        position += 2
        end = position + _checked(size, 1, frame, position, "bytes of a name")
        topic = str(frame[position:end], "utf-8")
        (count,) = _INT32.unpack_from(frame, end)
        position = end + 4
        for _ in range(_checked(count, layout.size + 8, frame, position, "partitions")):
            index, code, high_watermark, last_stable_offset, *start = layout.unpack_from(frame, position)
            position += layout.size
            (aborted_count,) = _INT32.unpack_from(frame, position)
            position += 4
            aborted = []
            for _ in range(_checked(max(0, aborted_count), 16, frame, position, "aborted transactions")):
                aborted.append(_ABORTED.unpack_from(frame, position))
                position += 16
            replica = -1
            if version >= 11:
                (replica,) = _INT32.unpack_from(frame, position)
                position += 4
            (size,) = _INT32.unpack_from(frame, position)
            position += 4
            end = position + _checked(max(0, size), 1, frame, position, "bytes of records")
            partitions.append(
                FetchedPartition(
                    topic,
                    index,
                    code,
                    high_watermark,
                    last_stable_offset,
                    start[0] if start else -1,
                    aborted,
                    replica,
                    None,
                    frame[position:end] if size > 0 else _NONE,
                )
            )
            position = end
    return FetchAnswer(throttle_ms, error, session_id, partitions)


def _parse_flexible(frame: memoryview, position: int, version: int) -> FetchAnswer:
    throttle_ms, error, session_id = _HEAD.unpack_from(frame, position)
    partitions = []
    topic_count, position = read_unsigned_varint(frame, position + _HEAD.size)
    for _ in range(_checked(topic_count - 1, 3, frame, position, "topics")):
        topic, position = _topic(frame, position, version)
        count, position = read_unsigned_varint(frame, position)
        for _ in range(_checked(count - 1, _PARTITION_5.size + 7, frame, position, "partitions")):
            index, code, high_watermark, last_stable_offset, start = _PARTITION_5.unpack_from(frame, position)
            aborted_count, position = read_unsigned_varint(frame, position + _PARTITION_5.size)
            aborted = []
            for _ in range(_checked(max(0, aborted_count - 1), 17, frame, position, "aborted transactions")):
                aborted.append(_ABORTED.unpack_from(frame, position))
                position = skip_tagged_fields(frame, position + 16)
            (replica,) = _INT32.unpack_from(frame, position)
            size, position = read_unsigned_varint(frame, position + 4)
            end = position + _checked(max(0, size - 1), 1, frame, position, "bytes of records")
            records = frame[position:end] if size > 1 else _NONE
            leader = None
            if frame[end] == 0:
                position = end + 1
            else:
                tagged, position = read_tagged_fields(frame, end)
                for tag, tag_start, _ in tagged:
                    if tag == _LEADER_TAG:
                        leader = _LEADER.unpack_from(frame, tag_start)
            partitions.append(
                FetchedPartition(
                    topic,
                    index,
                    code,
                    high_watermark,
                    last_stable_offset,
                    start,
                    aborted,
                    replica,
                    leader,
                    records,
                )
            )
        position = skip_tagged_fields(frame, position)
    skip_tagged_fields(frame, position)
    return FetchAnswer(throttle_ms, error, session_id, partitions)


def _topic(frame: memoryview, position: int, version: int) -> tuple[str | bytes, int]:
    if version >= TOPIC_IDS_SINCE:
        _checked(16, 1, frame, position, "bytes of a topic id")
        return bytes(frame[position : position + 16]), position + 16
    size, position = read_unsigned_varint(frame, position)
    end = position + _checked(size - 1, 1, frame, position, "bytes of a name")
    return str(frame[position:end], "utf-8"), end


def _checked(count: int, item_bytes: int, frame: memoryview, position: int, what: str) -> int:
    left = len(frame) - position
    if not 0 <= count * item_bytes <= left:
        raise ProtocolError(f"Fetch response with {count} {what} in {left} bytes")
    return count
