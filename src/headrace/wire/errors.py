"""What can go wrong between a client and a cluster, by what to do about it.

Two questions are answered here and nowhere else: which exceptions a caller may try again after (`Unavailable` and
what is below it), and what an error code asks of a client (`advice`). The rest of `HeadraceError` is final.
"""

from enum import Enum, auto
from typing import Final

from headrace.errors import ApiError, ErrorCode, HeadraceError


class WireError(HeadraceError):
    """A cluster could not be used; the text is one sentence that says why."""


class Unavailable(WireError):
    """Nobody answered, or not in time. Trying again may help; whether the request was carried out is unknown."""


class Unreachable(Unavailable):
    """No connection came about: nothing was sent."""


class ConnectionLost(Unavailable):
    """The connection broke, was closed by the broker, or was silent for too long."""


class ConnectionClosed(WireError):
    """We closed it ourselves, maybe from another thread."""


class TlsRefused(WireError):
    """No secure connection came about: a certificate that is not trusted, or no TLS at all on the other side."""


class AuthenticationRefused(WireError):
    """The broker does not believe who we are, or we do not believe the broker."""


class UnknownTopic(ApiError):
    """No such topic, as far as this user may know."""

    def __init__(self, topic: str, *, where: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic!r} at {where}")
        self.topic = topic


class UnknownPartition(ApiError):
    """The topic exists, but has no such partition."""

    def __init__(self, topic: str, partition: int, *, count: int) -> None:
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} has {count} partitions, and {partition} is none"
        )


class Advice(Enum):
    """What an error code asks of a client."""

    RETRY = auto()  # Wait a little, and ask the same broker again.
    REFRESH = auto()  # What we know of the cluster is out of date: learn anew, then ask again.
    FAIL = auto()


# Kafka's RetriableException, and those below it that are InvalidMetadataException.
_RETRY: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
_REFRESH: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)


def advice(code: int) -> Advice:
    """What to do about an error code of an answer, also one that is newer than our table."""
    if code in _REFRESH:
        return Advice.REFRESH
    return Advice.RETRY if code in _RETRY else Advice.FAIL


def refusal(code: int, about: str) -> ApiError:
    """The exception for an error code that something was answered with."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{about}: error {code}, which this client does not know")
    return ApiError(known, f"{about}: {known.name}")
