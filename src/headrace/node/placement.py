"""Which nodes hold a partition: what may be asked for, and what is chosen where nothing was said.

Pure: nodes in, replicas out, refusals in Kafka's words.
"""

from collections.abc import Sequence
from typing import Final

from headrace.errors import ApiError, ErrorCode

# As in Kafka. A request for more is refused before anything of it is laid out in memory.
PARTITIONS_PER_REQUEST_MAX: Final = 10_000


def place(count: int, *, replication_factor: int, nodes: Sequence[int]) -> list[list[int]]:
    """Replicas for `count` partitions, the first of each being its leader; leaders take turns."""
    if replication_factor > len(nodes):
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target replication factor of "
            f"{replication_factor} cannot be reached because only {len(nodes)} broker(s) are registered.",
        )
    return [[nodes[(index + replica) % len(nodes)] for replica in range(replication_factor)] for index in range(count)]


def check_replicas(replicas: Sequence[int], *, nodes: Sequence[int], replication_factor: int | None) -> None:
    """Refuse replicas that somebody chose by hand and that cannot be; None where any number will do."""
    if not replicas:
        raise _refusal("includes an empty replica list.")
    previous = None
    for node in sorted(replicas):
        if node not in nodes:
            raise _refusal(f"includes broker {node}, but no such broker is registered.")
        if node == previous:
            raise _refusal(f"includes the broker {node} more than once.")
        previous = node
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refusal(
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent with previous "
            f"partitions, which have {replication_factor} replica(s)."
        )


def _refusal(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The manual partition assignment {why}")
