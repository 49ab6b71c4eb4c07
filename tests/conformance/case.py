"""A case: requests sent in order to each broker, whose answers are compared.

A case runs once for each version of its API, on topics of its own. Where a body holds a callable, it is called
with the broker's `Context` just before sending: that is how topic ids, producer ids and session ids, which no
two brokers share, get into otherwise equal bytes. In every string `$topic` stands for a topic name that belongs
to this case and version. This module is the vocabulary of the tables; `run` carries them out.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tests.conformance.schemas import Message, schema
from tests.conformance.wire import ANSWER_TIMEOUT_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that must be there before the case begins."""

    partitions: int = 1
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ask:
    """A request whose outcome is compared."""

    api: str
    body: Message
    version: int | None = None  # None: the version that the case runs at, or the newest of another API.
    unanswered: bool = False  # Whether silence is expected; a second request then shows that it was silence.
    wait_ms: int | None = None  # Compare whether the answer took at least so long.
    only: str = ""  # Compare only topics or groups whose names begin so: an answer about all shows every other case.
    patience_s: float = ANSWER_TIMEOUT_S  # How long to wait for an answer before calling it silence.
    chunk_bytes: int | None = None  # Send in pieces of this size.
    mangle: Callable[[bytes], bytes] | None = None  # Changes the encoded request; its length is set afterwards.


@dataclass(frozen=True, slots=True)
class Raw:
    """Bytes as they are, length included; an answer is read as the given version of the case's API."""

    data: bytes
    version: int = 0


@dataclass(frozen=True, slots=True)
class Together:
    """Requests sent without waiting for each other's answers; each is compared."""

    asks: Sequence[Ask]


@dataclass(frozen=True, slots=True)
class Until:
    """Repeat a request until its answer shows that what came before took effect. Not compared."""

    api: str
    body: Message
    done: Callable[[Message], bool]


Step = Ask | Raw | Together | Until


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    api: str
    name: str
    steps: Sequence[Step]
    versions: range | None = None  # None: every version that Kafka serves.
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def all_versions(self) -> range:
        return self.versions if self.versions is not None else served_versions(self.api)

    def topic_name(self, version: int) -> str:
        """What `$topic` stands for."""
        return re.sub(r"[^a-zA-Z0-9-]", "_", f"{self.api}-{self.name}-v{version}")

    def own_topics(self, version: int) -> dict[str, Topic]:
        """The topics that must be there, by their real names."""
        mine = self.topic_name(version)
        return {name.replace("$topic", mine): topic for name, topic in self.topics.items()}


def served_versions(api: str) -> range:
    """What Kafka lets clients use: an unstable newest version is switched off."""
    found = schema(f"{api}Request")
    return range(found.versions.first, found.versions.last + (0 if found.unstable_latest else 1))
