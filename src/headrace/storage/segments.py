"""The segments of one log in order, and finding things in them.

The oldest comes first, the last one is active. Where readers stop is told to each search, as the base offset of a
segment and a position in it; what that means (visible, flushed, the end) is the log's business.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from headrace.storage.flushing import Place
from headrace.storage.segment import Segment, Span, TimestampOffset


class Segments:
    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: list[Segment]) -> None:
        assert segments
        self._segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def add(self, segment: Segment) -> None:
        """It is the active one from now on."""
        assert segment.base_offset > self.active.base_offset
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def drop(self, count: int) -> list[Segment]:
        """Let go of the oldest ones; the active one stays."""
        assert count < len(self._segments)
        dropped, self._segments = self._segments[:count], self._segments[count:]
        self._bases = self._bases[count:]
        return dropped

    def replace(self, bases: Sequence[int], by: Segment) -> list[Segment] | None:
        """Put one segment in the place of some that follow each other; those, or None where they are not all there."""
        first = self._index_of(bases[0])
        end = first + len(bases)
        if self._bases[first:end] != list(bases) or end >= len(self._segments):
            return None
        assert by.base_offset == bases[0]
        replaced = self._segments[first:end]
        self._segments = [*self._segments[:first], by, *self._segments[end:]]
        self._bases = [segment.base_offset for segment in self._segments]
        return replaced

    def _index_of(self, offset: int) -> int:
        return max(bisect_right(self._bases, offset) - 1, 0)

    def holding(self, offset: int) -> Segment:
        """The segment where this offset stands, or would."""
        return self._segments[self._index_of(offset)]

    def since(self, offset: int) -> list[Segment]:
        """That segment, and those behind it."""
        return self._segments[self._index_of(offset) :]

    def place_of(self, offset: int) -> Place:
        segment = self.holding(offset)
        found = segment.locate(offset, segment.size)
        return Place(offset, segment.base_offset, found[0] if found else segment.size)

    def read(
        self, offset: int, limit_base: int, limit_position: int, bytes_max: int, at_least_one: bool
    ) -> Span | None:
        """A span of one segment, from the batch that holds `offset`, or the first one behind it, up to the limit.

        Plain arguments: every fetch of what is not recent asks.
        """
        index = bisect_right(self._bases, offset) - 1
        assert index >= 0
        while index < len(self._segments):
            segment = self._segments[index]
            if segment.base_offset > limit_base:
                break
            end = limit_position if segment.base_offset == limit_base else segment.log.size
            found = segment.locate(offset, end)
            if found is not None:
                return segment.span(found[0], end, bytes_max, at_least_one, found[1])
            index += 1  # The rest of this segment is a gap.
        return None

    def find_timestamp(
        self, timestamp: int, *, start_offset: int, limit_base: int, limit_position: int
    ) -> TimestampOffset | None:
        """The first record before the limit whose timestamp is at least `timestamp`."""
        for segment in self._segments:
            segment.learn_timestamps()
            if segment is not self.active and segment.max_timestamp < timestamp:
                continue
            end = _end_in(segment, limit_base, limit_position)
            found = segment.find_timestamp(timestamp, start_offset=start_offset, end=end)
            if found is not None:
                return found
        return None

    def find_max_timestamp(self, *, limit_base: int, limit_position: int) -> TimestampOffset | None:
        """The first record before the limit that carries the largest timestamp."""
        best: TimestampOffset | None = None
        for segment in self._segments:
            segment.learn_timestamps()
            if best is None or segment.max_timestamp > best.timestamp:
                found = segment.find_max_timestamp(end=_end_in(segment, limit_base, limit_position))
                if found is not None and (best is None or found.timestamp > best.timestamp):
                    best = found
        return best


def _end_in(segment: Segment, limit_base: int, limit_position: int) -> int:
    if segment.base_offset < limit_base:
        return segment.size
    return limit_position if segment.base_offset == limit_base else 0
