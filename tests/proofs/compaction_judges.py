"""Apache Kafka's own judges of a compacted partition: a Java consumer that read it, and DumpLogSegments.

What was written is told by functions of the offset, since ten million messages are too many to be kept.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from headrace.testing.node_process import NodeProcess
from tests.clients.scenario import Message, fingerprint
from tests.interop.clients import java_program
from tests.interop.dumped import dump
from tests.interop.following import Seen
from tests.proofs.ledger import Anomaly

_SEGMENT_FILES = (".log", ".index", ".timeindex", ".snapshot")


class FollowedNode(NamedTuple):
    """A node as `Follower` wants it."""

    node: NodeProcess

    @property
    def bootstrap(self) -> str:
        return self.node.bootstrap

    @property
    def data_dir(self) -> Path:
        return self.node.data


def find_java() -> None:
    """The consumer is compiled where it is not yet; ToolMissing where that cannot be."""
    java_program("Driver")


def check_seen(
    seen: Sequence[Seen], *, message_at: Callable[[int], Message], next_offset: int, must_see: Collection[int]
) -> None:
    """In order, as it was written, up to the end; and what compaction has no right to, all of it."""
    last = -1
    for one in seen:
        if one.offset <= last:
            raise Anomaly(f"the Java consumer read offset {one.offset} after {last}")
        last = one.offset
        if last >= next_offset or one.hash != fingerprint(message_at(last)):
            raise Anomaly(f"what the Java consumer read at offset {last} was not written there")
    missed = set(must_see) - {one.offset for one in seen}
    if missed:
        raise Anomaly(f"the Java consumer was not shown {len(missed)} records, the first at offset {min(missed)}")


def check_dump(directory: Path, *, offsets: Collection[int], must_have: Collection[int]) -> int:
    """That Kafka's reader of segments has nothing to complain about, and how many records it found."""
    files = [path for path in directory.iterdir() if path.suffix in _SEGMENT_FILES]
    dumped = dump(files, compacted=True)
    if dumped.complaints:
        raise Anomaly(f"DumpLogSegments complains, {len(dumped.complaints)} times: {dumped.complaints[:5]}")
    if dumped.offsets != sorted(set(dumped.offsets)):
        raise Anomaly("DumpLogSegments finds offsets that do not rise")
    # A cleaning may have ended after the node was asked for what is left.
    if unknown := set(dumped.offsets) - set(offsets):
        raise Anomaly(f"DumpLogSegments finds {len(unknown)} records that the node did not serve, at {min(unknown)}")
    if missing := set(must_have) - set(dumped.offsets):
        raise Anomaly(f"DumpLogSegments does not find {len(missing)} last values, the first at {min(missing)}")
    return len(dumped.offsets)
