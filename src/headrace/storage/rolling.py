"""When the active segment must not take another batch: by its size, its index, the reach of its offsets, its age.

Age is counted in event time, from the first batch on, where batches have any, as Kafka does.
"""

from headrace.protocol.batch import NO_TIMESTAMP
from headrace.storage.index import OFFSET_ENTRY, TIME_ENTRY
from headrace.storage.log_config import LogConfig
from headrace.storage.scan import RELATIVE_OFFSET_MAX
from headrace.storage.segment import Segment


class Rolling:
    __slots__ = ("_by_event_time", "_index_entries_max", "_ripe_ms", "_segment_bytes_max", "_segment_ms")

    def __init__(self, config: LogConfig, active: Segment) -> None:
        self._segment_bytes_max = config.segment_bytes
        self._segment_ms = config.segment_ms
        if config.compacts:
            # What must be compacted by some time must be sealed by then.
            self._segment_ms = min(config.segment_ms, config.max_compaction_lag_ms)
        # Kafka keeps one time entry in reserve for sealing.
        self._index_entries_max = min(
            config.segment_index_bytes // OFFSET_ENTRY.size, config.segment_index_bytes // TIME_ENTRY.size - 1
        )
        self.begin(active)

    def begin(self, active: Segment) -> None:
        """To be told of a new segment, and again once it has its first batch."""
        first = active.learn_first_timestamp()
        self._by_event_time = first != NO_TIMESTAMP
        self._ripe_ms = (first if self._by_event_time else active.created_ms) + self._segment_ms

    def is_due(
        self, active: Segment, size: int, last_offset: int, max_timestamp: int, now_ms: int, batches: int = 1
    ) -> bool:
        """Whether so many batches must not all be in this segment. Plain arguments: every batch asks."""
        log_bytes = active.log.size
        return log_bytes != 0 and (
            log_bytes + size > self._segment_bytes_max
            or last_offset - active.base_offset > RELATIVE_OFFSET_MAX
            or active.index_entries + batches > self._index_entries_max
            or (max_timestamp if self._by_event_time else now_ms) > self._ripe_ms
        )
