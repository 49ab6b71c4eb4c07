"""The one list of what this node serves: dispatch, ApiVersions and the docs all come from it.

A handler takes `(node, request, call)` and returns the response, or a `Later` of it. Requests and responses are
dicts shaped by the tables in `protocol.messages`, except for Produce and Fetch, which are written by hand and work
on raw frames.

Errors meet the wire here: a `ProtocolError` closes the connection, as an unknown API or version does in Kafka.
"""

from collections.abc import Callable
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.errors import ProtocolError
from headrace.node.later import Later
from headrace.protocol.schema import ApiMessages
from headrace.storage.segment import Span

if TYPE_CHECKING:
    from headrace.node.node import Node

Message = dict[str, Any]
# Bytes, and spans of files that the shell sends as it sees fit.
Parts = list[bytes | Span]


class Client(NamedTuple):
    """Who is asking: through which listener, from where."""

    listener: str
    address: str


class Call(NamedTuple):
    """One request as a handler sees it, apart from its body."""

    version: int
    client_id: str | None
    client: Client


# A response without its frame, and its size in bytes: what follows length and correlation id on the wire. A plain
# tuple, since every request makes one.
Answer = tuple[Parts, int]


Handle = Callable[["Node", Message, Call], Message | Later[Message]]
# None: no answer is due (acks=0).
HandleRaw = Callable[["Node", memoryview, int, Call], Answer | Later[Answer] | None]


class Api(NamedTuple):
    """One served API. Exactly one of `handle` and `handle_raw` is there."""

    messages: ApiMessages
    version_min: int
    version_max: int
    handle: Handle | None = None
    handle_raw: HandleRaw | None = None
    # Advertised where it differs: librdkafka takes a Produce that starts at 3 for a broker without snappy.
    advertised_min: int | None = None
    # A decoded request takes many times its bytes: only Produce, which stays views, may be as long as the wire allows.
    request_bytes_max: int = 1 << 20
    notes: str = ""

    @property
    def key(self) -> int:
        return self.messages.key


_FRAME: Final = Struct(">ii")
_FRAME_TAGGED: Final = Struct(">iib")
# About what a request takes once it is decoded: an item of a few bytes becomes a dict with its strings.
_DECODED_BYTES_PER_BYTE: Final = 32
PRODUCE_KEY: Final = 0
API_VERSIONS_KEY: Final = 18
# Stands for every version of ApiVersions that we do not know.
API_VERSIONS_UNKNOWN: Final = -1


def framed(answer: Answer, *, api: Api, version: int, correlation_id: int) -> Parts:
    """Length, header and body: ready for the socket."""
    parts, size = answer
    if version >= api.messages.flexible_since and api.messages.key != API_VERSIONS_KEY:
        head = _FRAME_TAGGED.pack(size + 5, correlation_id, 0)
    else:
        head = _FRAME.pack(size + 4, correlation_id)
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = head + first
    return parts


def answer_of(api: Api, response: Message, version: int) -> Answer:
    body = api.messages.response.encode(response, version)
    return [body], len(body)


def handle_message(api: Api, node: "Node", frame: memoryview, position: int, call: Call) -> Answer | Later[Answer]:
    """Decode, handle and encode through the tables."""
    assert api.handle is not None
    request = api.messages.request.decode(frame[position:], call.version)
    response = api.handle(node, request, call)
    if isinstance(response, Later):
        answer = response.map(lambda message: answer_of(api, message, call.version))
        answer.held_bytes = len(frame) * _DECODED_BYTES_PER_BYTE
        return answer
    return answer_of(api, response, call.version)


def unknown_api(key: int, version: int) -> ProtocolError:
    return ProtocolError(f"API {key} version {version} is not served")
