"""A request as a fault sees it: which API, which client, which topics; read no further than a fault asks."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

from headrace.ids import ZERO_TOPIC_ID
from headrace.node.apis import Client, Message
from headrace.protocol.header import parse_request_header
from headrace.protocol.messages import fetch, metadata
from headrace.testing.inside.fault_table import LaidFault

if TYPE_CHECKING:
    from headrace.node.fetch_sessions import FetchSession
    from headrace.node.node import Node

# Under these names requests list topics, or what is about topics.
_ROWS = ("topics", "topic_data", "groups", "resources")
_NAMES = ("name", "topic", "resource_name")


class AskedRequest:
    def __init__(self, node: "Node", frame: memoryview, client: Client) -> None:
        self.node = node
        self.frame = frame
        self.client = client
        self.key, self.version, self.correlation_id, self.client_id, self._body_at = parse_request_header(frame)

    @property
    def is_served(self) -> bool:
        api = self.node.apis.get(self.key)
        return api is not None and api.version_min <= self.version <= api.version_max

    @cached_property
    def body(self) -> Message:
        messages = self.node.apis[self.key].messages
        return messages.request.decode(self.frame[self._body_at :], self.version)

    @cached_property
    def session(self) -> "FetchSession | None":
        """Of a Fetch that leaves it to its session to say what it is about."""
        return self.node.sessions.find(self.body["session_id"]) if self.key == fetch.API.key else None

    @cached_property
    def topics(self) -> frozenset[str]:
        """The names of all topics that it is about."""
        if self.key == metadata.API.key and not self.body["topics"]:
            return frozenset(topic.name for topic in self.node.topics)
        names = set(_named(self.node, self.body))
        if self.session is not None:
            keyed = self.node.topics.keyed(by_id=self.session.by_id)
            names |= {keyed[key].name for key, _ in self.session.entries if key in keyed}
        return frozenset(names)

    def meets(self, fault: LaidFault) -> bool:
        spec = fault.spec
        if fault.api_key is not None and fault.api_key != self.key:
            return False
        if spec.client_id is not None and spec.client_id != self.client_id:
            return False
        return spec.topic is None or spec.topic in self.topics


def _named(node: "Node", message: Message) -> list[str]:
    names: list[str] = list(message.get("topic_names", ()))
    for rows in (message.get(name) for name in _ROWS):
        for row in rows or ():
            if isinstance(row, str):
                continue  # The name of a group.
            names += [text for text in map(row.get, _NAMES) if text]
            names += _by_id(node, row)
            names += _named(node, row)
    return names


def _by_id(node: "Node", row: dict[str, Any]) -> list[str]:
    topic_id = row.get("topic_id", ZERO_TOPIC_ID)
    topic = node.topics.with_id(topic_id)
    return [] if topic is None else [topic.name]
