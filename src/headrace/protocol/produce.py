"""Produce, by hand: versions 3 to 13.

Written out instead of table-driven because every message passes here: batches stay views into the received frame,
topics stay the raw bytes that key the node's own dictionary (a name up to version 12, an id from 13 on), and
nothing is made per record. `protocol.messages.produce` has the same shapes as a table; tests hold the two together.
"""

import struct
from struct import Struct
from typing import Final

from headrace.errors import ProtocolError
from headrace.protocol.primitives import read_unsigned_varint, skip_tagged_fields

VERSION_MIN: Final = 3
VERSION_MAX: Final = 13
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_ACKS_TIMEOUT: Final = Struct(">hi")
_ACKS_TIMEOUT_COUNT: Final = Struct(">hii")
_INDEX_SIZE: Final = Struct(">ii")
_COUNT_INDEX_SIZE: Final = Struct(">BiB")
_ACKS_TIMEOUT_COUNT_1: Final = Struct(">hiB")
# Index, error, base offset, append time; and with the start offset from version 5 on.
_ANSWER_3: Final = Struct(">ihqq")
_ANSWER_5: Final = Struct(">ihqqq")

# Of a flexible request with one batch: transactional id, acks, timeout, topics; and then, behind the topic, partitions,
# index, size, and the tags of each.
_LONE_BYTES_MIN: Final = 9
_LONE_TAIL_BYTES_MIN: Final = 9

PartitionRecords = tuple[int, memoryview | None]
TopicRecords = tuple[bytes, list[PartitionRecords]]


# Plain tuples: naming their fields would cost as much as parsing them.
# Transactional id, acks, timeout in ms, topics.
ProduceRequest = tuple[bytes | None, int, int, list[TopicRecords]]
# Acks, topic, partition, records.
LoneProduce = tuple[int, bytes, int, memoryview]
# Partition, error, base offset, append time in ms, start offset, message.
PartitionAnswer = tuple[int, int, int, int, int, str | None]
TopicAnswers = tuple[bytes, list[PartitionAnswer]]


def parse_produce(frame: memoryview, position: int, version: int) -> ProduceRequest:
    try:
        return _parse_flexible(frame, position, version) if version >= FLEXIBLE_SINCE else _parse_old(frame, position)
    except (struct.error, IndexError) as error:
        raise ProtocolError(f"produce request cut short: {error}") from error


def parse_lone(frame: memoryview, position: int, version: int) -> LoneProduce | None:
    """A request with one batch for one partition and nothing unusual about it, as most are: at a third of the price.

    None for any other, whatever is the matter with it: `parse_produce` tells.
    """
    if version < FLEXIBLE_SINCE or len(frame) - position < _LONE_BYTES_MIN or frame[position] != 0:
        return None
    acks, _, topic_count = _ACKS_TIMEOUT_COUNT_1.unpack_from(frame, position + 1)
    position += 8
    size = 17
    if version < TOPIC_IDS_SINCE:
        size = frame[position]
        position += 1
    # Lengths are written as one more than they are, and in one byte below 128.
    if topic_count != 2 or not 0 < size < 128 or len(frame) - position < size - 1 + _LONE_TAIL_BYTES_MIN:
        return None
    topic = bytes(frame[position : position + size - 1])
    partition_count, index, low = _COUNT_INDEX_SIZE.unpack_from(frame, position + size - 1)
    position += size + 5
    size = low
    if low > 127:
        middle = frame[position]
        position += 1
        size += (middle - 1) << 7
        if middle > 127:
            high = frame[position]
            position += 1
            size += (high - 1) << 14
            if high > 127:
                return None  # More than two megabytes: what is saved here makes no difference.
    end = position + size - 1
    # No tags behind records, partitions and topics.
    if partition_count != 2 or size == 0 or len(frame) != end + 3 or bytes(frame[end:]) != b"\0\0\0":
        return None
    return acks, topic, index, frame[position:end]


def encode_lone_answer(
    topic: bytes, index: int, base_offset: int, append_time_ms: int, start_offset: int, version: int
) -> bytes:
    """What `encode_produce_response` makes for one partition whose batch was written."""
    size = b"" if version >= TOPIC_IDS_SINCE else _ONE_BYTE_VARINTS[len(topic) + 1]
    row = _ANSWER_5.pack(index, 0, base_offset, append_time_ms, start_offset)
    return b"\2%b%b\2%b\1\0\0\0\0\0\0\0\0" % (size, topic, row)


def _parse_old(frame: memoryview, position: int) -> ProduceRequest:
    end = len(frame)
    (size,) = _INT16.unpack_from(frame, position)
    position += 2
    transactional_id = None
    if size >= 0:
        transactional_id = bytes(frame[position : position + size])
        position += size
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(frame, position)
    position += 10
    # A topic takes at least its name's length and its partitions' count.
    if not 0 <= topic_count * 6 <= end - position:
        raise ProtocolError(f"{topic_count} topics in {end - position} bytes")
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        (size,) = _INT16.unpack_from(frame, position)
        position += 2
        if not 0 <= size <= end - position:
            raise ProtocolError(f"topic name of {size} bytes in {end - position}")
        topic = bytes(frame[position : position + size])
        position += size
        (count,) = _INT32.unpack_from(frame, position)
        position += 4
        if not 0 <= count * 8 <= end - position:
            raise ProtocolError(f"{count} partitions in {end - position} bytes")
        partitions: list[PartitionRecords] = []
        for _ in range(count):
            index, size = _INDEX_SIZE.unpack_from(frame, position)
            position += 8
            if size < 0:
                partitions.append((index, None))
                continue
            if size > end - position:
                raise ProtocolError(f"records of {size} bytes in {end - position}")
            partitions.append((index, frame[position : position + size]))
            position += size
        topics.append((topic, partitions))
    return transactional_id, acks, timeout_ms, topics


def _parse_flexible(frame: memoryview, position: int, version: int) -> ProduceRequest:
    end = len(frame)
    size, position = read_unsigned_varint(frame, position)
    transactional_id = None
    if size > 0:
        if size - 1 > end - position:
            raise ProtocolError(f"transactional id of {size - 1} bytes in {end - position}")
        transactional_id = bytes(frame[position : position + size - 1])
        position += size - 1
    acks, timeout_ms = _ACKS_TIMEOUT.unpack_from(frame, position)
    topic_count, position = read_unsigned_varint(frame, position + 6)
    if not 0 < topic_count <= end - position + 1:
        raise ProtocolError(f"{topic_count - 1} topics in {end - position} bytes")
    topics: list[TopicRecords] = []
    for _ in range(topic_count - 1):
        size = 17 if version >= TOPIC_IDS_SINCE else 0
        if not size:
            size, position = read_unsigned_varint(frame, position)
        if not 0 < size <= end - position + 1:
            raise ProtocolError(f"topic of {size - 1} bytes in {end - position}")
        topic = bytes(frame[position : position + size - 1])
        count, position = read_unsigned_varint(frame, position + size - 1)
        if not 0 < count <= end - position + 1:
            raise ProtocolError(f"{count - 1} partitions in {end - position} bytes")
        partitions: list[PartitionRecords] = []
        for _ in range(count - 1):
            (index,) = _INT32.unpack_from(frame, position)
            size, position = read_unsigned_varint(frame, position + 4)
            if size == 0:
                partitions.append((index, None))
            elif size - 1 > end - position:
                raise ProtocolError(f"records of {size - 1} bytes in {end - position}")
            else:
                partitions.append((index, frame[position : position + size - 1]))
                position += size - 1
            position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
        topics.append((topic, partitions))
        position = position + 1 if frame[position] == 0 else skip_tagged_fields(frame, position)
    skip_tagged_fields(frame, position)
    return transactional_id, acks, timeout_ms, topics


def encode_produce_response(topics: list[TopicAnswers], version: int) -> bytes:
    return _encode_flexible(topics, version) if version >= FLEXIBLE_SINCE else _encode_old(topics, version)


def _encode_old(topics: list[TopicAnswers], version: int) -> bytes:
    out = bytearray(_INT32.pack(len(topics)))
    for topic, partitions in topics:
        out += _INT16.pack(len(topic)) + topic + _INT32.pack(len(partitions))
        for index, error, base_offset, append_time_ms, start_offset, message in partitions:
            if version < 5:
                out += _ANSWER_3.pack(index, error, base_offset, append_time_ms)
                continue
            out += _ANSWER_5.pack(index, error, base_offset, append_time_ms, start_offset)
            if version >= 8:
                out += b"\0\0\0\0"  # No records are singled out as wrong.
                if message is None:
                    out += b"\xff\xff"
                else:
                    text = message.encode()
                    out += _INT16.pack(len(text)) + text
    out += b"\0\0\0\0"  # Never throttled.
    return bytes(out)


def _encode_flexible(topics: list[TopicAnswers], version: int) -> bytes:
    out = bytearray(varint(len(topics) + 1))
    for topic, partitions in topics:
        if version < TOPIC_IDS_SINCE:
            out += varint(len(topic) + 1)
        out += topic
        out += varint(len(partitions) + 1)
        for index, error, base_offset, append_time_ms, start_offset, message in partitions:
            out += _ANSWER_5.pack(index, error, base_offset, append_time_ms, start_offset)
            if message is None:
                out += b"\1\0\0"  # No record errors, no message, no tags.
            else:
                text = message.encode()
                out += b"\1" + varint(len(text) + 1) + text + b"\0"
        out += b"\0"
    out += b"\0\0\0\0\0"  # Never throttled; no tags.
    return bytes(out)


_ONE_BYTE_VARINTS: Final = tuple(bytes([n]) for n in range(128))


def varint(value: int) -> bytes:
    """An unsigned varint; nearly all of them are one byte."""
    if value < 128:
        return _ONE_BYTE_VARINTS[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
