"""What consumers got, second by second: how many messages, how many bytes, and how old each was.

The age of a message is counted from its timestamp, which a sender of the lab sets to when it was *planned*: so
end-to-end latency is from planned to consumed, and a stall cannot hide. Kafka's timestamps are whole milliseconds,
rounded down; an age is therefore up to a millisecond too long. All clocks are this host's; where senders are on another
host, ages are only as good as the two clocks agree.

Moments are nanoseconds since the start.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from headrace.lab.histogram import Histogram
from headrace.lab.schedule import SECOND_NS

Int64s = npt.NDArray[np.int64]

_MILLISECOND_NS = 1_000_000
_OWN = 0  # The number of a consumer that counts for itself alone.


@dataclass(slots=True)
class Consumed:
    """One second's row of one consumer, or of several."""

    messages: int = 0
    size_bytes: int = 0  # Of values.
    end_to_end: Histogram = field(default_factory=Histogram)
    # For so long brokers said that they hold answers back for a quota's sake, by the number of the consumer. What one
    # waits for does not add to what another does.
    throttled_ns: Counter[int] = field(default_factory=Counter)

    def merge(self, other: Self) -> None:
        self.messages += other.messages
        self.size_bytes += other.size_bytes
        self.end_to_end.merge(other.end_to_end)
        self.throttled_ns.update(other.throttled_ns)

    @property
    def throttled_ns_max(self) -> int:
        """Of the consumer that was held back most. Some have no partitions, and are held back from nothing."""
        return max(self.throttled_ns.values(), default=0)

    def to_json(self) -> dict[str, Any]:
        """Of one consumer, which does not know its number."""
        return {
            "messages": self.messages,
            "size_bytes": self.size_bytes,
            "end_to_end": self.end_to_end.to_json(),
            "throttled_ns": self.throttled_ns_max,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any], *, consumer: int) -> Self:
        end_to_end = Histogram.from_json(value["end_to_end"])
        return cls(value["messages"], value["size_bytes"], end_to_end, Counter({consumer: value["throttled_ns"]}))


class ConsumedTimeline:
    """Fill it as messages come; take out the seconds that are over."""

    def __init__(self) -> None:
        self._rows: dict[int, Consumed] = {}
        self._told = 0  # The first second that was not taken out.
        self.last_ns: int | None = None  # When the last message came.

    def add(self, timestamps_ms: Int64s, size_bytes: int, *, now_utc_ns: int, start_utc_ns: int) -> None:
        """Messages that have come now. What comes before the start belongs to its first second."""
        if not len(timestamps_ms):
            return
        at_ns = max(0, now_utc_ns - start_utc_ns)
        row = self._row(at_ns)
        row.messages += len(timestamps_ms)
        row.size_bytes += size_bytes
        row.end_to_end.add(np.maximum(now_utc_ns - timestamps_ms * _MILLISECOND_NS, 0))
        self.last_ns = at_ns

    def add_throttled(self, throttled_ns: int, *, now_ns: int) -> None:
        """Brokers have said by now that they hold answers back for so long."""
        if throttled_ns:
            self._row(max(0, now_ns)).throttled_ns[_OWN] += throttled_ns

    def _row(self, at_ns: int) -> Consumed:
        return self._rows.setdefault(max(at_ns // SECOND_NS, self._told), Consumed())

    def take(self, now_ns: int) -> Iterator[tuple[int, Consumed]]:
        """The seconds that are over by now, in order."""
        while self._told < now_ns // SECOND_NS:
            yield self._told, self._rows.pop(self._told, Consumed())
            self._told += 1

    def take_all(self) -> Iterator[tuple[int, Consumed]]:
        if self._rows:
            yield from self.take((max(self._rows) + 1) * SECOND_NS)
