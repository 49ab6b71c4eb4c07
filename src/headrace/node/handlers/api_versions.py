"""ApiVersions, versions 0 to 4; any other version is answered too.

A client asks in the newest version it knows, which may be newer than ours. The answer then has the shape of
version 0, which everybody can read, with error 35 and the versions of ApiVersions alone, so that the client asks
again in one of those.

No features are told: they are levels of Kafka's own metadata, and this node's has none.
"""

import re
from typing import TYPE_CHECKING, Final

from headrace.errors import ErrorCode
from headrace.node.apis import API_VERSIONS_UNKNOWN, Answer, Api, Call, Message, answer_of
from headrace.protocol.messages import api_versions as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE: Final = 3


def handle_raw(node: "Node", frame: memoryview, position: int, call: Call) -> Answer:
    if call.version == API_VERSIONS_UNKNOWN:
        # The body is in a shape that nobody here knows.
        return answer_of(API, {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [_versions(API)]}, 0)
    request = messages.API.request.decode(frame[position:], call.version)
    if call.version >= _SOFTWARE_SINCE and not _names_its_software(request):
        return answer_of(API, {"error_code": ErrorCode.INVALID_REQUEST}, call.version)
    return answer_of(API, {"api_keys": [_versions(api) for api in node.apis.values()]}, call.version)


def _names_its_software(request: Message) -> bool:
    """Brokers show these words to operators, so Kafka holds clients to plain ones (KIP-511)."""
    return bool(
        _SOFTWARE.fullmatch(request["client_software_name"]) and _SOFTWARE.fullmatch(request["client_software_version"])
    )


def _versions(api: Api) -> Message:
    return {
        "api_key": api.key,
        "min_version": api.version_min if api.advertised_min is None else api.advertised_min,
        "max_version": api.version_max,
    }


API = Api(
    messages.API,
    0,
    4,
    handle_raw=handle_raw,
    notes="Newer versions are answered in the shape of version 0. No features are told.",
)
