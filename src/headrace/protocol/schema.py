"""A small codec driven by tables: one table per API, with versioned fields, for both directions.

A table reads like Kafka's own schema:

    ApiMessages(
        key=20, name="DeleteTopics", versions=(1, 6), flexible_since=4,
        request=(
            F("topics", Array(F("name", STRING, nullable_since=6), F("topic_id", UUID)), since=6),
            F("topic_names", Array(STRING), until=5),
            F("timeout_ms", INT32),
        ),
        response=...,
    )

Values are plain dicts. Decoding fills every field of the table: one that the version does not carry, or a
tagged one that was not sent, has its default, so nobody who reads a request looks at versions. Encoding takes
missing keys as defaults and drops what the version cannot carry, so nobody who answers looks at versions
either. Only a field marked `ignorable=False` is not dropped in silence: asking for it from a peer too old to
know it is UNSUPPORTED_VERSION, as in Kafka's clients. A key that the table does not have is our own mistake.

Rules, as Kafka's generated code has them:

- A null where the version allows none is a ProtocolError. Any negative length is null.
- A tagged field is written only when it differs from its default. Unknown tags are skipped. A tag sent twice
  counts the second time.
- Bytes after a message are ignored by `decode`; `read` says where the message ended.

Stricter than Kafka: the content of a tagged field must fill exactly the size announced for it.

Readers and writers are compiled when a version is first used, and kept. Produce and Fetch are parsed by hand in
the server, and have tables here for clients and tools.
"""

import struct
from collections.abc import Mapping
from typing import Any

from headrace.errors import ApiError, ProtocolError
from headrace.ports import Buffer
from headrace.protocol.fields import (
    BOOL,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UINT32,
    UUID,
    Array,
    Encoding,
    F,
    Reader,
    Struct,
    Value,
    Writer,
)

__all__ = [
    "BOOL",
    "BYTES",
    "FLOAT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "STRING",
    "UINT16",
    "UINT32",
    "UUID",
    "ApiMessages",
    "Array",
    "F",
    "Message",
    "Struct",
    "Value",
]


class Message:
    """One direction of an API: its table, and a reader and a writer for each version once used."""

    __slots__ = ("_readers", "_writers", "flexible_since", "name", "struct", "version_max", "version_min")

    def __init__(
        self, name: str, fields: tuple[F, ...], *, version_min: int, version_max: int, flexible_since: int
    ) -> None:
        self.name = name
        self.struct = Struct(*fields)
        self.version_min, self.version_max, self.flexible_since = version_min, version_max, flexible_since
        self._readers: dict[int, Reader] = {}
        self._writers: dict[int, Writer] = {}

    def _encoding(self, version: int) -> Encoding:
        assert self.version_min <= version <= self.version_max, f"{self.name} has no version {version}"
        return Encoding(version=version, flexible=version >= self.flexible_since)

    def read(self, data: Buffer, version: int, position: int = 0) -> tuple[Value, int]:
        """The message at `position`, and the position after it."""
        reader = self._readers.get(version)
        if reader is None:
            reader = self._readers[version] = self.struct.reader(self._encoding(version), nullable=False)
        try:
            value, position = reader(data, position)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version}: {error}") from None
        return value, position

    def decode(self, data: Buffer, version: int, position: int = 0) -> Value:
        """The message at `position`. Bytes after it are ignored, as Kafka ignores them."""
        return self.read(data, version, position)[0]

    def encode(self, value: Mapping[str, Any], version: int) -> bytes:
        writer = self._writers.get(version)
        if writer is None:
            writer = self._writers[version] = self.struct.writer(self._encoding(version), nullable=False)
        out = bytearray()
        try:
            writer(out, value)
        except (AssertionError, AttributeError, TypeError, struct.error) as error:
            raise AssertionError(f"{self.name} v{version} cannot be written: {error}") from error
        except ApiError as error:
            raise ApiError(error.code, f"{self.name} {error}") from None
        return bytes(out)


class ApiMessages:
    """Both directions of one API, under the key that requests name it by."""

    __slots__ = ("flexible_since", "key", "name", "request", "response", "version_max", "version_min")

    def __init__(
        self,
        *,
        key: int,
        name: str,
        versions: tuple[int, int],
        flexible_since: int,
        request: tuple[F, ...],
        response: tuple[F, ...],
    ) -> None:
        self.key, self.name, self.flexible_since = key, name, flexible_since
        self.version_min, self.version_max = versions
        self.request, self.response = (
            Message(
                f"{name} {direction}",
                fields,
                version_min=self.version_min,
                version_max=self.version_max,
                flexible_since=flexible_since,
            )
            for direction, fields in (("request", request), ("response", response))
        )
