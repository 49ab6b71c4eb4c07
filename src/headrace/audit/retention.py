"""What may be gone from a log on purpose, by its topic's settings.

Retention by time explains what is older than it, and nothing younger. Retention by size, a deletion by hand from a
topic that keeps everything, and settings that nobody may see explain nothing and exclude nothing: of what is older than
the first record that is left, or of anything where none is, it cannot be said whether it was deleted or lost.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.errors import ErrorCode
from headrace.protocol.messages import describe_configs
from headrace.wire.cluster import Cluster

if TYPE_CHECKING:
    from headrace.wire.settings import ClientSettings

_TOPIC: Final = 2
_KEYS: Final = ("cleanup.policy", "retention.ms", "retention.bytes")


class Retention(NamedTuple):
    """How long records are kept at least, by time; None for ever, or nobody knows. And whether time alone decides."""

    ms: int | None
    is_by_time_alone: bool


UNKNOWN: Final = Retention(None, is_by_time_alone=False)


class Kept(NamedTuple):
    """As of a `Tier`: since when a tier is meant to have messages, and since when it can be judged. None since ever."""

    keeps_since_ms: int | None = None
    judged_since_ms: int | None = None


def kept(retention: Retention, *, oldest_ms: int | None, now_ms: int) -> Kept:
    """Of a partition whose first records are gone, given the time of the oldest that is there, if one is."""
    oldest_ms = now_ms if oldest_ms is None else oldest_ms
    keeps_since_ms = None if retention.ms is None else min(oldest_ms, now_ms - retention.ms)
    return Kept(keeps_since_ms, None if retention.is_by_time_alone else oldest_ms)


def latest(each: Iterable[Kept]) -> Kept:
    """Of all partitions: a stamp does not tell of which its message was."""
    keeps, judged = zip((None, None), *each, strict=True)
    return Kept(*(max((time_ms for time_ms in some if time_ms is not None), default=None) for some in (keeps, judged)))


def parse_retention(configs: dict[str, str | None]) -> Retention:
    policy, time, size = (configs.get(key) or "" for key in _KEYS)
    if "delete" not in policy.split(","):
        return UNKNOWN
    is_timed = time.isdecimal()  # Else it is -1.
    return Retention(int(time) if is_timed else None, is_by_time_alone=is_timed and size == "-1")


def read_retention(settings: "ClientSettings", topic: str) -> Retention:
    """As it is set now. It may have been another when something was deleted."""
    asked = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": list(_KEYS)}
    body = {"resources": [asked], "include_synonyms": False, "include_documentation": False}
    with Cluster(settings) as cluster:
        (result,) = cluster.call_any(describe_configs.API, body)["results"]
    if result["error_code"] != ErrorCode.NONE:  # Whoever may read a topic may not see its settings.
        return UNKNOWN
    return parse_retention({each["name"]: each["value"] for each in result["configs"]})
