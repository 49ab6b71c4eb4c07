"""What goes over the control socket between a test and its broker, beside the answers in `views.py`.

A message is a length and a pickle. Both ends are the same program, started by the same test, and the socket is a pair
that nobody else can reach, so nothing is parsed here that a stranger wrote.
"""

import pickle
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final, Literal, NamedTuple

LENGTH: Final = Struct(">I")

# To the process that forks brokers: what to do; which process, and how many seconds it has to end by itself. With
# FORK come two descriptors, of a control socket and of a log.
FORK: Final = 0
REAP: Final = 1
SPAWN_REQUEST: Final = Struct("=BId")
# The process that was made, or how one ended, as `os.waitpid` tells it.
SPAWN_REPLY: Final = Struct("=i")


def pack(message: object) -> bytes:
    body = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return LENGTH.pack(len(body)) + body


def unpack(body: bytes) -> Any:
    return pickle.loads(body)


class Request(NamedTuple):
    command: str
    arguments: dict[str, Any]


class Answer(NamedTuple):
    """A value, or why there is none: Kafka's error code where there is one for it."""

    value: Any = None
    error: str | None = None
    code: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a broker is to be."""

    data: str
    listen: str
    settings: dict[str, str] = field(default_factory=dict)
    log_level: str = "info"
    # Whether the data is to go when the test does, even if it dies.
    is_temporary: bool = False
    # Whether it has the process for itself, and may change its limits.
    owns_process: bool = True


FaultKind = Literal["delay", "drop", "error", "disconnect", "disk"]
DiskOperation = Literal["append", "sync"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultSpec:
    """What is to go wrong, where, and how often. None matches everything, or never ends."""

    kind: FaultKind
    api: str | None = None
    topic: str | None = None
    client_id: str | None = None
    times: int | None = 1
    delay_ms: float = 0.0
    error_code: int = 0
    # Of a request that is not answered as it should be: whether it is carried out all the same.
    handled: bool = False
    operation: DiskOperation = "append"
    errno: int = 0
