"""Messages, on their way out and on their way in, and the names of the places they go to and come from."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

Headers = tuple[tuple[str, bytes | None], ...]


class Partition(NamedTuple):
    """Equal to the plain pair, so that a pair will do wherever one is asked for."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Message:
    """A payload of bytes, and what may go with it. `partition` overrules every partitioner."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None  # None: the moment at which it is sent.
    partition: int | None = None


# What `Producer.send` takes: one message or a set of them; bytes are a message without a key.
MessageSet = Message | bytes | Iterable[Message | bytes]


class Written(NamedTuple):
    """Where an acknowledged message is."""

    partition: int
    offset: int


class Claim(NamedTuple):
    """By which right a message was delivered. A partition that left and came back is another ownership."""

    ownership: int
    rewinds: int


# A tuple, because there is one for every message.
class Received(NamedTuple):
    """A message out of a stream."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: int  # CREATE_TIME or LOG_APPEND_TIME.
    key: bytes | None
    value: bytes | None
    headers: Headers
    claim: Claim

    @property
    def source(self) -> Partition:
        return Partition(self.topic, self.partition)


def messages_of(message_set: MessageSet) -> tuple[Message, ...]:
    """The set as a tuple. Text is refused: taken for a set, each of its letters would be a message."""
    if isinstance(message_set, Message | bytes | str):
        return (_message(message_set),)
    return tuple(map(_message, message_set))


def _message(value: object) -> Message:
    if isinstance(value, Message):
        return value
    if not isinstance(value, bytes):
        raise TypeError(f"a message is bytes or a Message, not {type(value).__name__}")
    return Message(value)
