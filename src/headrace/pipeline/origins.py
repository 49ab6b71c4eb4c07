"""Where rows come from, and the names under which a table keeps how far it was loaded.

An `Origin` is one life of one topic: deleted and made anew, or on another cluster, a topic of the same name is another
one, whose offsets mean other records. A table keeps its offsets as Delta's transactions, which are a number for a
name, survive checkpoints and clean-up of its log, and are part of the commit that adds the files. The names:

    LOADER:TOPIC                             how many commits there were of a topic of this name
    LOADER:TOPIC:CLUSTER:ID                  how many partitions of this life of it are known
    LOADER:TOPIC:CLUSTER:ID:PARTITION        the offset that comes next
    LOADER:TOPIC:CLUSTER:ID:PARTITION:epoch  the leader epoch at the end of what was loaded
    LOADER:TOPIC:CLUSTER:ID:dead             the commit of dead letters that went before this one

The first is written by every commit, so that of two loads of one topic that were planned on the same state the second
always fails. The table of dead letters has numbers of its own, for `settling`:

    LOADER:TOPIC:CLUSTER:ID                  how many partitions are known
    LOADER:TOPIC:CLUSTER:ID:dead             how many commits of dead letters there were
    LOADER:TOPIC:CLUSTER:ID:settled          up to which of them nothing is left to do
    LOADER:TOPIC:CLUSTER:ID:PARTITION:first  where the last of them began in a partition,
    LOADER:TOPIC:CLUSTER:ID:PARTITION:end    where it ended,
    LOADER:TOPIC:CLUSTER:ID:PARTITION:dead   and which it was

Knows nothing of Delta.
"""

import re
from typing import Final, NamedTuple

from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition

LOADER: Final = "headrace"

_LOADER_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")


class Origin(NamedTuple):
    cluster_id: str
    topic: TopicName
    topic_id: str  # In Kafka's spelling.

    def place(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)


def parse_loader(name: str) -> str:
    """The name of a loader, which must not be taken for another part of a transaction's name."""
    if not _LOADER_NAME.fullmatch(name):
        raise ConfigError(f"loader {name!r}: a name has up to 100 letters, digits, dots, dashes and underscores")
    return name


def loads_key(loader: str, topic: str) -> str:
    return f"{loader}:{topic}"


def partitions_key(loader: str, origin: Origin) -> str:
    return f"{loader}:{origin.topic}:{origin.cluster_id}:{origin.topic_id}"


def offset_key(loader: str, origin: Origin, partition: int) -> str:
    return f"{partitions_key(loader, origin)}:{partition}"


def epoch_key(loader: str, origin: Origin, partition: int) -> str:
    return f"{offset_key(loader, origin, partition)}:epoch"


def dead_key(loader: str, origin: Origin) -> str:
    return f"{partitions_key(loader, origin)}:dead"


def settled_key(loader: str, origin: Origin) -> str:
    return f"{partitions_key(loader, origin)}:settled"


def dead_range_keys(loader: str, origin: Origin, partition: int) -> tuple[str, str, str]:
    """Of the first offset, of the end, and of which commit it was."""
    key = offset_key(loader, origin, partition)
    return f"{key}:first", f"{key}:end", f"{key}:dead"
