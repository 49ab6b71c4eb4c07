"""Produce by hand, versions 3 to 13: requests, as parts among which the batches stand as they are, and the answer to
most of them.

The table in `protocol.messages.produce` says the same and copies every batch; tests hold the two together.
"""

import struct
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.protocol.produce import FLEXIBLE_SINCE, TOPIC_IDS_SINCE, varint

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INDEX_SIZE: Final = Struct(">ii")
_ACKS_TIMEOUT: Final = Struct(">hi")
_INDEX_CODE: Final = Struct(">ih")
_COUNT_LENGTH: Final = Struct(">ih")
_COUNT_INDEX_CODE: Final = Struct(">iih")


class TopicBatches(NamedTuple):
    name: str
    topic_id: bytes  # Used from version 13 on, the name before.
    batches: Sequence[tuple[int, Buffer]]  # Partition, and the one batch that a request may hold for it.


def encode_produce(version: int, topics: Sequence[TopicBatches], *, acks: int, timeout_ms: int) -> list[Buffer]:
    """For `Connection.send_encoded`; without a transactional id."""
    encode = _encode_flexible if version >= FLEXIBLE_SINCE else _encode_old
    return _joined(encode(version, topics, _ACKS_TIMEOUT.pack(acks, timeout_ms)))


def _encode_old(version: int, topics: Sequence[TopicBatches], terms: bytes) -> Iterable[Buffer]:
    yield b"\xff\xff" + terms + _INT32.pack(len(topics))
    for name, _, batches in topics:
        raw = name.encode()
        yield _INT16.pack(len(raw)) + raw + _INT32.pack(len(batches))
        for partition, batch in batches:
            yield _INDEX_SIZE.pack(partition, len(batch))
            yield memoryview(batch)


def _encode_flexible(version: int, topics: Sequence[TopicBatches], terms: bytes) -> Iterable[Buffer]:
    yield b"\0" + terms + varint(len(topics) + 1)
    for name, topic_id, batches in topics:
        raw = name.encode()
        topic = topic_id if version >= TOPIC_IDS_SINCE else varint(len(raw) + 1) + raw
        yield topic + varint(len(batches) + 1)
        for partition, batch in batches:
            yield _INT32.pack(partition) + varint(len(batch) + 1)
            yield memoryview(batch)
            yield b"\0"
        yield b"\0"
    yield b"\0"


def read_lone_answer(frame: memoryview, position: int, version: int) -> tuple[int, int] | None:
    """Partition and error code of an answer to a request with one batch, at a tenth of what its table takes.

    None for an answer with more than that in it: `protocol.messages.produce` tells.
    """
    try:
        if version >= FLEXIBLE_SINCE:
            # Counts and lengths are written as one more than they are, and in one byte below 128.
            size = 17 if version >= TOPIC_IDS_SINCE else frame[position + 1]
            partitions_at = position + size + (0 if version >= TOPIC_IDS_SINCE else 1)
            if size > 127 or frame[position] != 2 or frame[partitions_at] != 2:
                return None
            index, code = _INDEX_CODE.unpack_from(frame, partitions_at + 1)
        else:
            topics, size = _COUNT_LENGTH.unpack_from(frame, position)
            partitions, index, code = _COUNT_INDEX_CODE.unpack_from(frame, position + _COUNT_LENGTH.size + size)
            if topics != 1 or partitions != 1:
                return None
    except (struct.error, IndexError):
        return None
    return index, code


def _joined(parts: Iterable[Buffer]) -> list[Buffer]:
    """Neighbouring small parts as one, batches left alone: what the kernel is given stays a short list."""
    joined: list[Buffer] = []
    small = bytearray()
    for part in parts:
        if isinstance(part, memoryview):
            joined += [bytes(small), part]
            small.clear()
        else:
            small += part
    if small:
        joined.append(bytes(small))
    return joined
