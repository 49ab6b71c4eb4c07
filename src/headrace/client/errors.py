"""What can go wrong between a program and its messages, by what the program can do about it."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.client.message import Partition, Written


class ClientError(HeadraceError):
    """A producer or a consumer could not do what it was asked; the text is one sentence that says why."""


class Unreachable(ClientError):
    """No broker answered in time, or none let us in."""


class UnknownTopic(ClientError):
    """No such topic, as far as this user may know."""


class DeliveryFailed(ClientError):
    """Some messages of a set were not acknowledged. `written` has what was, at its place in the set, else None."""

    def __init__(self, topic: str, written: "Sequence[Written | None]", failures: Mapping[int, str]) -> None:
        first = min(failures)
        super().__init__(
            f"{len(failures)} of {len(written)} messages to {topic} were not acknowledged; "
            f"the first is number {first}: {failures[first]}"
        )
        self.written = tuple(written)
        self.failures = dict(failures)


class CommitFailed(ClientError):
    """Offsets were not stored, or nobody knows whether they were."""


class NotOwner(CommitFailed):
    """The group has given the partition to somebody else, or may have: a former owner's commit is refused."""

    def __init__(self, partitions: "Sequence[Partition]", why: str) -> None:
        super().__init__(f"not committed: {', '.join(map(str, partitions))}: {why}")
        self.partitions = tuple(partitions)
        self.why = why


class StreamEnded(ClientError):
    """The consumer was stopped or closed; the stream has no more messages."""
