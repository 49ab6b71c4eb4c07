"""ListOffsets: where logs begin and end, and which record is the first of a time or later."""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from headrace.ids import TopicName, TopicPartition
from headrace.protocol.messages.list_offsets import API
from headrace.protocol.schema import Value
from headrace.wire.cluster import Cluster, Leader

LATEST: Final = -1
EARLIEST: Final = -2

_CONSUMER: Final = -1


class OffsetAt(NamedTuple):
    offset: int  # -1 where no record is of this time or later.
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    cluster: Cluster,
    wanted: Mapping[TopicPartition, int],
    *,
    read_committed: bool = False,
    timeout_s: float | None = None,
) -> dict[TopicPartition, OffsetAt]:
    """For each partition the offset of its timestamp in milliseconds, or of EARLIEST or LATEST.

    With `read_committed` the latest offset is the last stable one: where the first open transaction begins.
    """

    def body_of(leaders: Mapping[TopicPartition, Leader]) -> dict[str, Any]:
        topics: dict[str, list[dict[str, int]]] = {}
        for place, leader in leaders.items():
            asked = {
                "partition_index": place.partition,
                "current_leader_epoch": leader.epoch,
                "timestamp": wanted[place],
            }
            topics.setdefault(place.topic, []).append(asked)
        return {
            "replica_id": _CONSUMER,
            "isolation_level": int(read_committed),
            "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
            "timeout_ms": int(1000 * cluster.settings.request_timeout_s),
        }

    return cluster.call_leaders(API, wanted, body_of=body_of, results_of=_results_of, timeout_s=timeout_s)


def _results_of(answer: Value) -> Iterable[tuple[TopicPartition, int, OffsetAt]]:
    for topic in answer["topics"]:
        for one in topic["partitions"]:
            place = TopicPartition(TopicName(topic["name"]), one["partition_index"])
            yield place, one["error_code"], OffsetAt(one["offset"], one["timestamp"], one["leader_epoch"])
