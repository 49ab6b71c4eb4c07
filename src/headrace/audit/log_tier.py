"""The node's tier: what the log of a topic holds, counted by reading it, whoever's Kafka it is.

One reading serves all tiers. What a tier behind has not come to yet is counted beside, from where that tier is, and so
is what lies before where it began. What the log itself does not have any more it cannot tell of: there `retention` says
since when a tier is judged, or the tier does, where it knows since when it had messages.
"""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.audit.columns import count_headers
from headrace.audit.ledger import Life
from headrace.audit.reconcile import NODE, Tier
from headrace.audit.retention import UNKNOWN, Kept, kept, latest, read_retention
from headrace.audit.seen import Counts
from headrace.audit.tally import Counted
from headrace.columnar.reading import Scan
from headrace.ids import TopicPartition, parse_topic_name, topic_id_text
from headrace.wire.cluster import Cluster
from headrace.wire.offsets import EARLIEST, list_offsets

if TYPE_CHECKING:
    from headrace.wire.settings import ClientSettings


def count_log(settings: "ClientSettings", topic: str, behind: Mapping[str, Counted]) -> list[Tier]:
    """The log as a tier, and behind it the tiers that were counted before, by name."""
    counts = Counts()
    views = {name: _View(each) for name, each in behind.items()}
    times: dict[int, list[tuple[int, int]]] = {}  # By partition: the first offset of each batch, and its time.
    scan = Scan(settings, topic, columns=["partition", "offset", "timestamp", "headers"], missing="skip")
    for batch in scan:
        count_headers(counts, batch.column("headers"))
        first = batch.column("offset")[0].as_py(), _first_time_ms(batch)
        times.setdefault(batch.column("partition")[0].as_py(), []).append(first)
        for view in views.values():
            view.count(batch)
    cut = _cut(settings, [place for place, _, _ in scan.ranges])
    retention = read_retention(settings, topic) if cut else UNKNOWN
    now_ms = time.time_ns() // 1_000_000
    gone = {}
    for number, earliest in cut.items():
        oldest_ms = next((time_ms for offset, time_ms in times.get(number, ()) if offset >= earliest), None)
        gone[number] = kept(retention, oldest_ms=oldest_ms, now_ms=now_ms)
    since = latest(gone.values())
    node = Tier(
        name=NODE,
        seen=counts.spans,
        keeps_since_ms=since.keeps_since_ms,
        judged_since_ms=since.judged_since_ms,
        unstamped=counts.unstamped,
        malformed=counts.malformed,
    )
    return [node, *(view.tier(name, gone) for name, view in views.items())]


def _cut(settings: "ClientSettings", places: Sequence[TopicPartition]) -> dict[int, int]:
    """Partitions whose first messages are not there any more, and where they begin.

    Asked after the log was read: what expired before a reading came to it was not read, and is as gone as the rest.
    """
    with Cluster(settings) as cluster:
        earliest = list_offsets(cluster, dict.fromkeys(places, EARLIEST))
    return {place.partition: at.offset for place, at in earliest.items() if at.offset > 0}


def find_life(settings: "ClientSettings", topic: str) -> Life:
    """Of all topics that had this name, the one that is there now, as loads tell it in their rows."""
    name = parse_topic_name(topic)
    with Cluster(settings) as cluster:
        cluster.refresh([name])
        topic_id = topic_id_text(cluster.topic(name).topic_id)
        return Life(cluster.metadata.cluster_id or "unknown", topic_id)


class _View:
    """How one tier behind the log stands to it, learnt in passing. A batch is of one partition; its offsets ascend."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._passed = Counts()
        self._ahead = Counts()

    def count(self, batch: pa.RecordBatch) -> None:
        first, reached = self._counted.extents.get(batch.column("partition")[0].as_py(), (0, 0))
        headers = batch.column("headers")
        if row := _row_of(batch, first):
            count_headers(self._passed, headers.slice(0, row))
        if (row := _row_of(batch, reached)) < batch.num_rows:
            count_headers(self._ahead, headers.slice(row))

    def tier(self, name: str, gone: Mapping[int, Kept]) -> Tier:
        """`gone` has the partitions whose first messages are not in the log any more."""
        counted = self._counted
        since = latest(self._since(number, of_log) for number, of_log in gone.items())
        return Tier(
            name=name,
            seen=counted.spans,
            ahead=self._ahead.spans,
            passed=self._passed.spans,
            keeps_since_ms=since.keeps_since_ms,
            judged_since_ms=since.judged_since_ms,
            unstamped=counted.unstamped,
            malformed=counted.malformed,
            gone=counted.gone,
        )

    def _since(self, partition: int, of_log: Kept) -> Kept:
        """A tier that began with the first offset has missed nothing. Others may know since when they had messages."""
        first, _ = self._counted.extents.get(partition, (None, 0))
        if first == 0:
            return Kept()
        began_ms = self._counted.began_ms.get(partition)
        return of_log if began_ms is None else Kept(keeps_since_ms=began_ms)


def _first_time_ms(batch: pa.RecordBatch) -> int:
    return batch.column("timestamp").cast(pa.int64())[0].as_py() or 0


def _row_of(batch: pa.RecordBatch, offset: int) -> int:
    """Of the first message that has this offset or a later one."""
    return int(np.searchsorted(batch.column("offset").to_numpy(), offset))
