"""Where the senders of a workload are: beside the broker, or at the other end of a network.

    local           all on this host, which is what a workload means that does not say
    remote          all on another host, or at the far end of a link
    local+remote    of two processes one here and one there, of four two each

Processes take the places that are named by turns.
"""

from itertools import cycle, islice
from typing import Any, Final

from headrace.errors import ConfigError

LOCAL: Final = "local"
REMOTE: Final = "remote"
_AND: Final = "+"
MIXED: Final = f"{LOCAL}{_AND}{REMOTE}"


def parse_sender(value: Any) -> str:
    """Places as people write them; ConfigError for a word that is none."""
    words = value.split(_AND) if isinstance(value, str) else []
    if not words or any(word not in (LOCAL, REMOTE) for word in words):
        raise ConfigError(f"{value!r} is none of {LOCAL}, {REMOTE} and {MIXED}")
    return str(value)


def places_of(sender: str | None, *, processes: int) -> list[str]:
    """The place of each process; ConfigError where a place is named that none is left for."""
    words = [LOCAL] if sender is None else sender.split(_AND)
    if len(words) > processes:
        raise ConfigError(f"sender: {sender} are {len(words)} places, for processes: {processes}")
    return list(islice(cycle(words), processes))
