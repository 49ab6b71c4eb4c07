"""Fetch, versions 4 to 18.

Ignored: the reader's rack and the cluster id (one node is equally near to all), the follower's start offset and
directory id (there are no followers yet). A fetch that names a replica is refused: this node leads alone.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError
from headrace.node.apis import Answer, Api, Call
from headrace.node.fetch_sessions import FetchSession
from headrace.node.fetching import Fetch, asked_entries, encode_answer, refuse_follower
from headrace.node.later import Later
from headrace.protocol import fetch as wire
from headrace.protocol.messages import fetch as messages

if TYPE_CHECKING:
    from headrace.node.node import Node

_SESSIONS_SINCE: Final = 7


def handle_raw(node: "Node", frame: memoryview, position: int, call: Call) -> Answer | Later[Answer]:
    version = call.version
    request = wire.parse_fetch(frame, position, version)
    if request.replica_id >= 0:
        return refuse_follower(node, request, version)
    is_full = request.session_epoch in (wire.SESSION_EPOCH_INITIAL, wire.SESSION_EPOCH_FINAL)
    try:
        session = _open_session(node, request, version) if is_full else _continue_session(node, request, version)
    except ApiError as error:
        return encode_answer([], version, session_id=wire.NO_SESSION, error=error.code)
    entries = asked_entries(request) if session is None else session.entries
    host, port = node.endpoints[call.client.listener]
    fetch = Fetch(
        node,
        request,
        version,
        leader=(node.id, host, port),
        session=session,
        entries=entries.values(),
        is_full=is_full,
    )
    return fetch.begin()


def _open_session(node: "Node", request: wire.FetchRequest, version: int) -> FetchSession | None:
    """A request that names everything it is about ends the session it had, and may begin another."""
    if request.session_id != wire.NO_SESSION:
        node.sessions.close(request.session_id)
    if request.session_epoch == wire.SESSION_EPOCH_FINAL or version < _SESSIONS_SINCE:
        return None
    session = node.sessions.open(
        sum([len(partitions) for _, partitions in request.topics]),
        by_id=version >= wire.TOPIC_IDS_SINCE,
        random_bytes=node.random_bytes,
        now_us=node.clock.mono_us(),
    )
    if session is not None:
        _put_all(session, request)
    return session


def _continue_session(node: "Node", request: wire.FetchRequest, version: int) -> FetchSession | None:
    """A request that names what is to change about the partitions of its session."""
    session = node.sessions.use(
        request.session_id,
        epoch=request.session_epoch,
        by_id=version >= wire.TOPIC_IDS_SINCE,
        now_us=node.clock.mono_us(),
    )
    count = len(session.entries)
    _put_all(session, request)
    for topic_key, indexes in request.forgotten:
        for index in indexes:
            session.forget(topic_key, index)
    if len(session.entries) > count:
        node.sessions.check_room(session)
    if session.entries:
        return session
    # As in Kafka, nobody needs a session about nothing; the answer says that it is over.
    node.sessions.close(session.id)
    return None


def _put_all(session: FetchSession, request: wire.FetchRequest) -> None:
    for topic_key, partitions in request.topics:
        for asked in partitions:
            session.put(topic_key, asked)


API = Api(messages.API, wire.VERSION_MIN, wire.VERSION_MAX, handle_raw=handle_raw)
