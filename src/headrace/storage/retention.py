"""Which segments have outlived their retention: a pure question about sizes and times."""

from collections.abc import Sequence
from typing import NamedTuple


class SegmentFacts(NamedTuple):
    base_offset: int
    size_bytes: int
    newest_ms: int


def expired_segments(
    segments: Sequence[SegmentFacts],
    *,
    start_offset: int,
    high_watermark: int,
    end_offset: int,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> int:
    """How many of the oldest segments go. All of them means that the log must roll first.

    Only a prefix ever goes, and never what is above the high watermark. -1 switches a limit off. By size, the log
    keeps at least `retention_bytes`: a segment goes only if what stays is no less.
    """
    excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    count = 0
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        next_offset = end_offset if is_last else segments[index + 1].base_offset
        if next_offset > high_watermark:
            break
        too_old = retention_ms >= 0 and now_ms - segment.newest_ms > retention_ms
        too_much = retention_bytes >= 0 and excess_bytes >= segment.size_bytes
        forgotten = next_offset <= start_offset
        if is_last and (segment.size_bytes == 0 or not (too_old or too_much)):
            break
        if not (too_old or too_much or forgotten):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count
