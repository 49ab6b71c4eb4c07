"""What a sender sends with, and what it can be told: the terms of sending, and the interface of engines.

Two engines. `librdkafka` is what users run: a call, and a callback, for each message. `columnar` builds batches out of
columns and keeps several requests under way on one thread: several times the rate for the same CPU, and no client that
anybody uses. Neither is the other's replacement; each has its ceiling (docs/sender.md).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Protocol, Self

import numpy as np
import numpy.typing as npt

from headrace.errors import ConfigError

Int64s = npt.NDArray[np.int64]

ENGINES: Final = ("librdkafka", "columnar")
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ACKS: Final = ("0", "1", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How messages are batched, sent and answered. The defaults are those of Kafka's own producer."""

    acks: str = "all"
    batch_bytes: int = 16_384
    batch_messages: int | None = None  # At most so many in a batch; None for as many as fit.
    linger_ms: float = 5.0
    buffer_bytes: int = 32 << 20  # For what was sent and is not answered yet.
    compression: str = "none"

    def __post_init__(self) -> None:
        if self.acks not in ACKS:
            raise ConfigError(f"acks {self.acks!r} is none of {', '.join(ACKS)}")
        if self.compression not in CODECS:
            raise ConfigError(f"compression {self.compression!r} is none of {', '.join(CODECS)}")
        if self.batch_bytes < 1024:
            raise ConfigError(f"a batch of {self.batch_bytes} bytes: at least 1024 are needed")
        if self.batch_messages is not None and self.batch_messages < 1:
            raise ConfigError(f"a batch of {self.batch_messages} messages: at least one is needed")
        if self.linger_ms < 0:
            raise ConfigError(f"linger of {self.linger_ms:g} ms is in the past")
        if self.buffer_bytes < 1024:
            raise ConfigError(f"a buffer of {self.buffer_bytes} bytes: at least 1024 are needed")

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """Those that are not None."""
        return replace(self, **{name: value for name, value in changes.items() if value is not None})

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class Clock(Protocol):
    def now_ns(self) -> int:
        """Nanoseconds since the start; negative before it."""
        ...


class Engine(Protocol):
    """One thread uses it. Outcomes go to the timeline that it was made with."""

    throttled_ns: int  # For so long in all the broker said that it holds answers back, for a quota's sake.
    offer_max: int  # No more messages at a time, so that none waits long between being due and being sent.

    def offer(self, planned: Int64s, now_ns: int) -> int:
        """Send the next messages, planned at these moments; how many there was room for."""
        ...

    def poll(self, now_ns: int) -> None:
        """Send what is ready, learn what was answered; wait for nothing."""
        ...

    def wait(self, timeout_ns: int) -> None:
        """Until something may have changed, or so long."""
        ...

    @property
    def deadline_ns(self) -> int | None:
        """When something waits to be sent whose linger is over then."""
        ...

    @property
    def outstanding(self) -> int:
        """Messages whose fate is not known."""
        ...

    def hasten(self) -> None:
        """No more messages will come: linger no longer."""
        ...

    def pop_statistics(self) -> list[dict[str, Any]]:
        """What the client has said of itself since."""
        ...

    def close(self) -> None: ...
