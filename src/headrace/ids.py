"""Names and ids that mean something only because they were checked once.

Holding a `TopicName` proves that it is legal; nobody checks again.
"""

import base64
import re
import uuid
from typing import NamedTuple, NewType

from headrace.errors import ApiError, ErrorCode

TopicName = NewType("TopicName", str)
TopicId = NewType("TopicId", bytes)  # Sixteen bytes, as on the wire.
NodeId = NewType("NodeId", int)

TOPIC_NAME_CHARS_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+")

ZERO_TOPIC_ID = TopicId(bytes(16))
# Kafka keeps the first ids for itself; its metadata topic is 1.
_RESERVED_IDS = {bytes(15) + bytes([n]) for n in range(100)}


class TopicPartition(NamedTuple):
    topic: TopicName
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def parse_topic_name(text: str) -> TopicName:
    """A legal topic name, or the error and the words Kafka gives for an illegal one."""
    if not text:
        problem = "the empty string is not allowed"
    elif text in {".", ".."}:
        problem = f"'{text}' is not allowed"
    elif len(text) > TOPIC_NAME_CHARS_MAX:
        problem = f"the length of '{text}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
    elif not _TOPIC_NAME.fullmatch(text):
        problem = f"'{text}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return TopicName(text)
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def topic_id_from(random_bytes: bytes) -> TopicId:
    """A version-4 UUID from sixteen random bytes; randomness is an argument so that a seed replays."""
    made = uuid.UUID(bytes=random_bytes, version=4).bytes
    assert made not in _RESERVED_IDS
    return TopicId(made)


def topic_id_text(topic_id: TopicId) -> str:
    """Kafka's spelling of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()


def parse_topic_id(text: str) -> TopicId:
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"a topic id is 16 bytes in base64, not {text!r}")
    return TopicId(raw)
