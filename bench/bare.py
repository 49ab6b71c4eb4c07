"""The requests of the bare loads, made once in Python, for C to send over and over.

On two cores a full client is most of what a bulk row measures. The bare loads do without one: the request
that a client would make a thousand times is made here, beforehand, and `load/bare*.c` only patches the few
bytes in it that change and looks at the few in the answer that matter. C knows nothing of the protocol but
numbers in network order and the head of a batch; this module tells it where they stand, by encoding what a
broker would answer.

Positions count from the first byte of a frame, its length included. Versions: the newest that name topics
(ids would have to be asked for) and keep everything of interest in one place whatever its value. Produce 12
does; Fetch 12 does not, since the length of its records has a length of its own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any, Final

from headrace.protocol.header import encode_request_header, encode_response_header
from headrace.protocol.messages import fetch, produce
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import ApiMessages

_PRODUCE_VERSION: Final = 12
_FETCH_VERSION: Final = 11

_FRAME_LENGTH: Final = Struct(">i")
# The head of a template's file, for read_template() in load/bare.c; the request follows it.
_HEAD: Final = Struct(">6i")

# What librdkafka asks for unless told otherwise.
_FETCH_WAIT_MS: Final = 500
_FETCH_BYTES_MAX: Final = 50 << 20
_PARTITION_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """A framed request, and where the numbers are that change in it or are looked at in its answer."""

    request: bytes
    correlation_at: int
    offset_at: int  # In the request: the offset to fetch from. Zero where the request names none.
    error_at: int  # In the answer.
    result_at: int  # In the answer: the base offset, or the length of the records, which follow it.
    messages: int  # That one request carries; zero where it fetches.

    def to_bytes(self) -> bytes:
        head = _HEAD.pack(
            len(self.request), self.correlation_at, self.offset_at, self.error_at, self.result_at, self.messages
        )
        return head + self.request


def produce_template(topic: str, *, messages: int, message_bytes: int, acks: int, timestamp_ms: int) -> Template:
    """One batch for partition 0, its CRC right: base offsets are the broker's to write, and outside it."""
    value = bytes(ord("a") + n % 26 for n in range(message_bytes))
    batch = encode_batch([Record(None, value, timestamp_ms=timestamp_ms)] * messages)

    def request(correlation_id: int) -> bytes:
        body = {
            "acks": acks,
            "timeout_ms": 30_000,
            "topic_data": [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}],
        }
        return _request(produce.API, _PRODUCE_VERSION, correlation_id, body)

    def answer(**fields: int) -> bytes:
        partition = {"index": 0, "error_code": 0, "base_offset": 0} | fields
        return _answer(
            produce.API, _PRODUCE_VERSION, {"responses": [{"name": topic, "partition_responses": [partition]}]}
        )

    return Template(
        request=request(0),
        correlation_at=_position(request),
        offset_at=0,
        error_at=_position(lambda number: answer(error_code=number)),
        result_at=_position(lambda number: answer(base_offset=number)),
        messages=messages,
    )


def fetch_template(topic: str) -> Template:
    """One partition, no session: each request says all of what it wants."""

    def request(*, correlation_id: int = 0, offset: int = 0) -> bytes:
        partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": _PARTITION_BYTES_MAX}
        body = {
            "max_wait_ms": _FETCH_WAIT_MS,
            "min_bytes": 1,
            "max_bytes": _FETCH_BYTES_MAX,
            "topics": [{"topic": topic, "partitions": [partition]}],
        }
        return _request(fetch.API, _FETCH_VERSION, correlation_id, body)

    def answer(*, error_code: int = 0, no_records: bool = False) -> bytes:
        records = None if no_records else b""  # Lengths of -1 and 0.
        partition = {"partition_index": 0, "error_code": error_code, "records": records}
        return _answer(fetch.API, _FETCH_VERSION, {"responses": [{"topic": topic, "partitions": [partition]}]})

    return Template(
        request=request(),
        correlation_at=_position(lambda number: request(correlation_id=number)),
        offset_at=_position(lambda number: request(offset=number)),
        error_at=_position(lambda number: answer(error_code=number)),
        result_at=_position(lambda number: answer(no_records=number == -1)),
        messages=0,
    )


def _request(api: ApiMessages, version: int, correlation_id: int, body: Mapping[str, Any]) -> bytes:
    header = encode_request_header(
        api_key=api.key, api_version=version, correlation_id=correlation_id, client_id="bench"
    )
    return _framed(header + api.request.encode(body, version))


def _answer(api: ApiMessages, version: int, body: Mapping[str, Any]) -> bytes:
    header = encode_response_header(api_key=api.key, api_version=version, correlation_id=0)
    return _framed(header + api.response.encode(body, version))


def _framed(message: bytes) -> bytes:
    return _FRAME_LENGTH.pack(len(message)) + message


def _position(encode: Callable[[int], bytes]) -> int:
    """Where the number stands that `encode` writes: 0 and -1 have no bit in common, so the first byte differs."""
    pairs = zip(encode(0), encode(-1), strict=True)
    return next(position for position, (one, other) in enumerate(pairs) if one != other)
