"""What writers sent, what they were told, and what was found afterwards; pure, so that it can itself be tested.

A writer numbers its messages to each place (a topic's partition) from 0. A message whose answer never came, or was a
refusal, is *unknown*: it may be found or not. One that was acknowledged must be found, once, behind those that its
writer sent before it, at the offset that was told.
"""

import random
from array import array
from struct import Struct
from typing import Final, NamedTuple

_UNKNOWN: Final = -2
_OFFSET_NOT_TOLD: Final = -1  # Acknowledged as a duplicate too old for the node to know where it is.

_HEAD: Final = Struct(">IiI")  # Writer, partition, sequence.
_FILLER: Final = random.Random(0).randbytes(1 << 20)
_FILLER_STARTS: Final = 1 << 12
MESSAGE_BYTES_MIN: Final = _HEAD.size
MESSAGE_BYTES_MAX: Final = _HEAD.size + len(_FILLER) - _FILLER_STARTS


class Place(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Message(NamedTuple):
    writer: int
    partition: int
    sequence: int


class Anomaly(AssertionError):
    """A broken promise, in words."""


def encode_message(message: Message, *, size: int) -> bytes:
    """So many bytes, every one of which follows from the message."""
    start = (message.writer * 7919 + message.sequence) % _FILLER_STARTS
    return _HEAD.pack(*message) + _FILLER[start : start + max(size - _HEAD.size, 0)]


def decode_message(value: bytes | None) -> Message:
    if value is None or len(value) < _HEAD.size:
        raise Anomaly(f"phantom: {value!r} is no message that anybody wrote")
    message = Message(*_HEAD.unpack_from(value))
    if encode_message(message, size=len(value)) != value:
        raise Anomaly(f"phantom: {len(value)} bytes that call themselves {message} are not those of any message")
    return message


class _Stream:
    """One writer's messages to one place."""

    __slots__ = ("due", "told")

    def __init__(self) -> None:
        self.told = array("q")  # By sequence: the acknowledged offset.
        self.due = 0  # What was found so far came before this sequence.


class Ledger:
    def __init__(self) -> None:
        self._streams: dict[tuple[int, Place], _Stream] = {}
        self.sent = 0
        self.acknowledged = 0
        self.found = 0

    def send(self, writer: int, place: Place) -> Message:
        """The next message of a writer to a place."""
        told = self._streams.setdefault((writer, place), _Stream()).told
        told.append(_UNKNOWN)
        self.sent += 1
        return Message(writer, place.partition, len(told) - 1)

    def unsend(self, message: Message, place: Place) -> None:
        """The last message never left after all."""
        told = self._streams[message.writer, place].told
        assert len(told) == message.sequence + 1
        assert told.pop() == _UNKNOWN
        self.sent -= 1

    def acknowledge(self, message: Message, place: Place, offset: int) -> None:
        told = self._streams[message.writer, place].told
        if told[message.sequence] != _UNKNOWN:
            raise Anomaly(f"{place}: {message} was acknowledged twice, at {told[message.sequence]} and at {offset}")
        told[message.sequence] = max(offset, _OFFSET_NOT_TOLD)
        self.acknowledged += 1

    def find(self, place: Place, offset: int, value: bytes | None) -> Message:
        """Note a message that was read; those of a place come in the order of their offsets."""
        message = decode_message(value)
        stream = self._streams.get((message.writer, place))
        where = f"{place} at offset {offset}"
        if message.partition != place.partition or stream is None or message.sequence >= len(stream.told):
            raise Anomaly(f"phantom: {message} is {where}, and was never sent there")
        if message.sequence < stream.due:
            raise Anomaly(f"duplicate or out of order: {message} is {where}, behind sequence {stream.due - 1}")
        self._check_missing(stream, message.writer, place, up_to=message.sequence)
        told = stream.told[message.sequence]
        if told >= 0 and told != offset:
            raise Anomaly(f"moved: {message} is {where}, and was acknowledged at {told}")
        stream.due = message.sequence + 1
        self.found += 1
        return message

    def check_complete(self, place: Place) -> None:
        """After the last message of a place was read: is anything acknowledged missing?"""
        for (writer, sent_to), stream in self._streams.items():
            if sent_to == place:
                self._check_missing(stream, writer, place, up_to=len(stream.told))

    def count_sent(self) -> dict[Place, int]:
        counts: dict[Place, int] = {}
        for (_, place), stream in self._streams.items():
            counts[place] = counts.get(place, 0) + len(stream.told)
        return counts

    def forget_found(self) -> None:
        """Everything is about to be read again from the start."""
        self.found = 0
        for stream in self._streams.values():
            stream.due = 0

    def _check_missing(self, stream: _Stream, writer: int, place: Place, *, up_to: int) -> None:
        for sequence in range(stream.due, up_to):
            if stream.told[sequence] != _UNKNOWN:
                raise Anomaly(
                    f"lost or out of order: sequence {sequence} of writer {writer} was acknowledged "
                    f"at {place} offset {stream.told[sequence]}, and is not there"
                )
