"""The node's tier: what the log of a topic holds, counted by reading it, whoever's Kafka it is.

One reading serves all tiers. What a tier behind has not come to yet is counted beside, from where that tier is; and
how old the oldest message is that each tier can have seen is read off the log where it begins, or where the tier
began.
"""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from headrace.audit.columns import count_headers
from headrace.audit.ledger import Life
from headrace.audit.reconcile import NODE, Tier
from headrace.audit.seen import Counts
from headrace.audit.tally import Counted
from headrace.columnar.reading import Scan
from headrace.ids import parse_topic_name, topic_id_text
from headrace.wire.cluster import Cluster

if TYPE_CHECKING:
    from headrace.wire.settings import ClientSettings


def count_log(settings: "ClientSettings", topic: str, behind: Mapping[str, Counted]) -> list[Tier]:
    """The log as a tier, and behind it the tiers that were counted before, by name."""
    counts = Counts()
    views = {name: _View({place: first for place, (first, _) in each.extents.items()}) for name, each in behind.items()}
    scan = Scan(settings, topic, columns=["partition", "offset", "timestamp", "headers"], missing="skip")
    views[NODE] = _View({place.partition: first for place, first, _ in scan.ranges})
    for batch in scan:
        count_headers(counts, batch.column("headers"))
        for name, view in views.items():
            view.note_oldest(batch)
            if name in behind:
                view.count_ahead(batch, behind[name])
    node = Tier(
        name=NODE,
        seen=counts.spans,
        keeps_since_ms=views[NODE].keeps_since_ms,
        unstamped=counts.unstamped,
        malformed=counts.malformed,
    )
    return [
        node,
        *(
            Tier(
                name=name,
                seen=each.spans,
                ahead=views[name].ahead.spans,
                keeps_since_ms=views[name].keeps_since_ms,
                unstamped=each.unstamped,
                malformed=each.malformed,
                gone=each.gone,
            )
            for name, each in behind.items()
        ),
    ]


def find_life(settings: "ClientSettings", topic: str) -> Life:
    """Of all topics that had this name, the one that is there now, as loads tell it in their rows."""
    name = parse_topic_name(topic)
    with Cluster(settings) as cluster:
        cluster.refresh([name])
        topic_id = topic_id_text(cluster.topic(name).topic_id)
        return Life(cluster.metadata.cluster_id or "unknown", topic_id)


class _View:
    """How one tier stands to the log, learnt in passing. A batch is of one partition, and its offsets ascend."""

    def __init__(self, firsts: Mapping[int, int]) -> None:
        self.ahead = Counts()
        self._oldest_ms: list[int] = []
        # Whoever begins with the first offset has missed nothing; of the others, which message they begin with.
        self._beginnings = {partition: first for partition, first in firsts.items() if first > 0}

    @property
    def keeps_since_ms(self) -> int | None:
        """Older messages may not have been there to be seen. None where everything was."""
        if self._beginnings:  # And nothing was ever seen behind them.
            return time.time_ns() // 1_000_000
        return max(self._oldest_ms, default=None)

    def note_oldest(self, batch: pa.RecordBatch) -> None:
        partition = batch.column("partition")[0].as_py()
        if (first := self._beginnings.get(partition)) is None:
            return
        row = _row_of(batch, first)
        if row < batch.num_rows:
            del self._beginnings[partition]
            self._oldest_ms.append(batch.column("timestamp").cast(pa.int64())[row].as_py() or 0)

    def count_ahead(self, batch: pa.RecordBatch, counted: Counted) -> None:
        _, reached = counted.extents.get(batch.column("partition")[0].as_py(), (0, 0))
        if (row := _row_of(batch, reached)) < batch.num_rows:
            count_headers(self.ahead, batch.column("headers").slice(row))


def _row_of(batch: pa.RecordBatch, offset: int) -> int:
    """Of the first message that has this offset or a later one."""
    return int(np.searchsorted(batch.column("offset").to_numpy(), offset))
