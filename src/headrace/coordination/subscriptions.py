"""Which topics the members of a consumer group read, as far as a coordinator can tell.

What members say when they join is theirs: only clients of the type 'consumer' have agreed on a form. Of that the first
version is read, with which all later ones begin.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from headrace.errors import ProtocolError
from headrace.protocol.schema import BYTES, STRING, Array, F, Message

CONSUMER: Final = "consumer"

_VERSION: Final = Struct(">h")
_SUBSCRIPTION: Final = Message(
    "Subscription",
    (F("topics", Array(STRING)), F("user_data", BYTES, nullable_since=0)),
    version_min=0,
    version_max=0,
    flexible_since=1,
)


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that are named; None if anything is not in the agreed form, because then nobody knows."""
    topics: set[str] = set()
    for subscription in subscriptions:
        if len(subscription) < _VERSION.size or _VERSION.unpack_from(subscription)[0] < 0:
            return None
        try:
            topics.update(_SUBSCRIPTION.decode(subscription, 0, _VERSION.size)["topics"])
        except ProtocolError:
            return None
    return frozenset(topics)
