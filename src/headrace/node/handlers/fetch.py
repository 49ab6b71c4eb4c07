"""Fetch, versions 4 to 18.

Ignored: the reader's rack and the cluster id (one node is equally near to all), the follower's start offset and
directory id (there are no followers yet). A fetch that names a replica is refused: this node leads alone.
"""

from typing import TYPE_CHECKING

from headrace.errors import ApiError, ErrorCode
from headrace.node.apis import Answer, Api, Call
from headrace.node.fetching import (
    Fetch,
    FetchSession,
    ParkedFetch,
    encode_answer,
    refuse_follower,
    resolve_entries,
)
from headrace.node.later import Later
from headrace.protocol import fetch as wire
from headrace.protocol.messages import fetch as messages

if TYPE_CHECKING:
    from headrace.node.node import Node


def handle_raw(node: "Node", frame: memoryview, position: int, call: Call) -> Answer | Later[Answer]:
    request = wire.parse_fetch(frame, position, call.version)
    if request.replica_id >= 0:
        return refuse_follower(node, request, call.version)
    try:
        fetch = _begin(node, request, call.version)
    except ApiError as error:
        return encode_answer([], call.version, session_id=0, error=error.code)
    found = fetch.evaluate(node)
    if request.wait_ms_max <= 0 or not fetch.has_partitions or fetch.is_enough(found):
        return fetch.answer(found)
    later: Later[Answer] = Later()
    bytes_ready = sum(data.records_bytes for _, data, _ in found)
    ParkedFetch(node, fetch, fetch.entries, bytes_ready=bytes_ready, answer=later.resolve)
    return later


def _begin(node: "Node", request: wire.FetchRequest, version: int) -> Fetch:
    """Which entries this request is about: its own, or those of its session with its changes."""
    sessions = node.sessions
    now_us = node.clock.mono_us()
    by_id = version >= wire.TOPIC_IDS_SINCE
    epoch = request.session_epoch
    if epoch in (wire.SESSION_EPOCH_INITIAL, wire.SESSION_EPOCH_FINAL):
        if request.session_id != wire.NO_SESSION:
            sessions.close(request.session_id)
        entries = resolve_entries(node, request, version)
        session = None
        if epoch == wire.SESSION_EPOCH_INITIAL and version >= 7:
            session = sessions.open(by_id=by_id, random_bytes=node.random_bytes, now_us=now_us)
            if session is not None:
                for entry in entries:
                    session.put(entry)
        return Fetch(request, version, session, entries, is_full=True)
    session = sessions.use(request.session_id, epoch=epoch, by_id=by_id, now_us=now_us)
    session.parked = None
    for topic_key, indexes in request.forgotten:
        for index in indexes:
            known = session.entries.get((topic_key, index))
            if known is not None:
                session.drop(known)
    entries = resolve_entries(node, request, version)
    for entry in entries:
        session.put(entry)
    _refresh(node, session, by_id=by_id)
    return Fetch(request, version, session, entries, is_full=False)


def _refresh(node: "Node", session: FetchSession, *, by_id: bool) -> None:
    """A topic deleted or created since the session began is noticed by the entries that were told of it."""
    for entry in tuple(session.dirty):
        topic = node.topics.with_key(entry.topic_key)
        partition = None
        if topic is not None and entry.asked.partition < len(topic.partitions):
            partition = topic.partitions[entry.asked.partition]
        if partition is not entry.partition:
            entry.unwatch()
            entry.partition = partition
            entry.partition_error = (
                ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            entry.watch()


API = Api(messages.API, wire.VERSION_MIN, wire.VERSION_MAX, handle_raw=handle_raw)
