"""Senders and consumers that are programs of their own: rates that no Python reaches come from C or from Java.

A program is told all of its work at once, does all of it, and says what it came to; of its seconds nothing is known. It
checks its work itself, and one that finds a message lost, doubled or out of order fails: there is no figure then.

Whoever has programs registers them. From then on they are engines that a workload can name (`workload.KEYS`).
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from headrace.lab.engines import Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be sent and consumed, and where."""

    bootstrap: str
    topic: str
    partitions: int = 1
    messages: int
    size_bytes: int  # Of each value.
    senders: int = 1  # Each with connections of its own; the messages are of all of them together.
    readers: int = 1  # Each of which is to get every message.
    rate_per_s: float | None = None  # None for as fast as it goes.
    warm_up_s: float = 0.0
    terms: Terms = field(default_factory=Terms)
    client: Mapping[str, str] = field(default_factory=dict)  # Settings by the client's own names; they win over terms.
    consumer_client: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a program did. Moments are of CLOCK_MONOTONIC, which all processes of a host share."""

    messages: int
    size_bytes: int  # Of all values.
    seconds: float
    waited_s: float = 0.0  # Of those, before the first message came, which somebody else may have been late to send.
    course_ns: tuple[int, int, int] | None = None  # When it began, had half done, and had all done.
    metrics: Mapping[str, float] = field(default_factory=dict)  # By their names in results.


Wait = Callable[[], Outcome]


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What it can do; LabError, or ToolFailed, where it did not."""

    send: Callable[[Job], Outcome] | None = None
    # Begun at once, and ended with the `with`; what that gives waits until every reader has every message.
    consuming: Callable[[Job], AbstractContextManager[Wait]] | None = None
    exchange: Callable[[Job], Outcome] | None = None  # Both at once, by one process.


PROGRAMS: dict[str, Program] = {}


def register(name: str, program: Program) -> None:
    PROGRAMS[name] = program
