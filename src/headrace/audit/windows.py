"""Tumbling windows of event time: every moment lies in exactly one. Knows nothing of who counts in them."""

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from headrace.errors import ConfigError

WINDOW_MS: Final = 60_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Window(NamedTuple):
    """From its start up to, not with, its end. Windows of one length begin at multiples of it since 1970."""

    start_ms: int
    length_ms: int

    @property
    def end_ms(self) -> int:
        return self.start_ms + self.length_ms

    def __str__(self) -> str:
        start = (_EPOCH + timedelta(milliseconds=self.start_ms)).isoformat(sep=" ", timespec="milliseconds")
        return f"{start.removesuffix('+00:00').removesuffix('.000')} +{self.length_ms / 1000:g}s"


def window_of(time_ms: int, *, length_ms: int) -> Window:
    return Window(time_ms - time_ms % length_ms, length_ms)


def check_length(length_ms: int) -> int:
    """A length that windows can have, or ConfigError."""
    if length_ms < 1:
        raise ConfigError(f"window_ms={length_ms}: a window has at least a millisecond")
    return length_ms
