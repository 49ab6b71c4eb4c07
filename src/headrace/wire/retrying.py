"""After something went wrong that may pass: wait, learn anew, and find out whom to ask next."""

from collections.abc import Collection

from headrace.errors import HeadraceError
from headrace.ids import TopicPartition
from headrace.wire.cluster import Cluster, Leader
from headrace.wire.errors import Unavailable
from headrace.wire.metadata import Metadata
from headrace.wire.patience import Patience


def leaders_after(
    trouble: HeadraceError,
    cluster: Cluster,
    places: Collection[TopicPartition],
    *,
    patience: Patience,
    seen: Metadata,
) -> dict[TopicPartition, Leader]:
    """Who leads these partitions a little later. Where there is no time left, the trouble itself is raised.

    `seen` is what was known of the cluster when it went wrong.
    """
    if not patience.pause():
        raise trouble
    try:
        cluster.refresh({place.topic for place in places}, than=seen, timeout_s=patience.left_s)
        return {place: cluster.leader(*place, timeout_s=patience.left_s) for place in places}
    except Unavailable as error:
        # Nobody answers at all any more, or our time ended just here: what came first tells more.
        raise trouble from error
