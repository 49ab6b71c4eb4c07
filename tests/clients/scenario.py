"""What a client must carry through a broker unchanged, and the one hash that says whether it did.

Messages are compared by a digest of key, value, headers and timestamp per partition, in order: a count would not
notice a swapped, truncated or re-encoded one.
"""

import hashlib
import random
import struct
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# After 2020 and before now, so that every broker takes them.
_FIRST_TIMESTAMP_MS = 1_600_000_000_000


class Message(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def messages(count: int, *, seed: int, large: bool = False) -> list[Message]:
    """Ordinary and awkward ones: null, empty, binary, compressible, large, with and without headers."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        key = chance.choice([None, b"", b"key-%d" % number, chance.randbytes(20)])
        value = chance.choice([None, b"", b"value-%d" % number, chance.randbytes(300), b"abc" * chance.randrange(400)])
        if key is None and value is None:
            key = b"tombstone-%d" % number  # aiokafka refuses a message without either.
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if chance.random() < 0.3:
            headers = (("trace", b"%d" % number), ("empty", b""), ("trace", chance.randbytes(8)))
        made.append(Message(key, value, headers, _FIRST_TIMESTAMP_MS + number * 7))
    if large:
        made.append(Message(b"large", chance.randbytes(900_000), (), _FIRST_TIMESTAMP_MS + count * 7))
    return made


def digest(found: Iterable[Message]) -> str:
    """Order, nulls and lengths all count."""
    state = hashlib.sha256()

    def add(data: bytes | None) -> None:
        state.update(b"-" if data is None else b"+%d:" % len(data))
        state.update(data or b"")

    for message in found:
        add(message.key)
        add(message.value)
        state.update(b"#%d@%d" % (len(message.headers), message.timestamp_ms))
        for name, content in message.headers:
            add(name.encode())
            add(content)
    return state.hexdigest()


def fingerprint(message: Message) -> str:
    """One message's hash as clients in every language compute it; `drivers/README.md` of `tests/interop` says how."""

    def sized(data: bytes | None) -> bytes:
        return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data

    state = hashlib.sha256(sized(message.key) + sized(message.value) + struct.pack(">i", len(message.headers)))
    for name, content in message.headers:
        state.update(sized(name.encode()) + sized(content))
    state.update(struct.pack(">q", message.timestamp_ms))
    return state.hexdigest()


def spread(all_messages: Sequence[Message], partitions: int) -> dict[int, list[Message]]:
    return {index: list(all_messages[index::partitions]) for index in range(partitions)}
