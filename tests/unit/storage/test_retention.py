import pytest

from headrace.storage.retention import SegmentFacts, expired_segments

# Four segments of 100 bytes and ten records each, the last of them active.
SEGMENTS = [SegmentFacts(base, 100, newest_ms) for base, newest_ms in ((0, 10), (10, 20), (20, 30), (30, 40))]


def expired(segments: list[SegmentFacts] = SEGMENTS, **limits: int) -> int:
    known = {"start_offset": 0, "high_watermark": 40, "end_offset": 40, "now_ms": 100, "retention_ms": -1}
    return expired_segments(segments, **{**known, "retention_bytes": -1, **limits})


def test_without_limits_nothing_goes() -> None:
    assert expired() == 0


@pytest.mark.parametrize(
    ("retention_ms", "count"), [(91, 0), (90, 0), (89, 1), (80, 1), (79, 2), (70, 2), (69, 3), (60, 3), (59, 4), (0, 4)]
)
def test_by_time_what_is_older_than_the_limit_goes(retention_ms: int, count: int) -> None:
    assert expired(retention_ms=retention_ms) == count


def test_a_young_segment_protects_older_ones_behind_it() -> None:
    segments = [SEGMENTS[0], SEGMENTS[1]._replace(newest_ms=100), SEGMENTS[2], SEGMENTS[3]]
    assert expired(segments, retention_ms=50) == 1


@pytest.mark.parametrize(
    ("retention_bytes", "count"), [(400, 0), (399, 0), (301, 0), (300, 1), (299, 1), (200, 2), (100, 3), (1, 3), (0, 4)]
)
def test_by_size_no_less_than_the_limit_stays(retention_bytes: int, count: int) -> None:
    assert expired(retention_bytes=retention_bytes) == count


@pytest.mark.parametrize(("start_offset", "count"), [(0, 0), (9, 0), (10, 1), (29, 2), (30, 3), (40, 3)])
def test_what_is_all_below_the_start_goes_but_not_the_active_segment(start_offset: int, count: int) -> None:
    assert expired(start_offset=start_offset) == count


@pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (39, 3), (40, 4)])
def test_nothing_above_the_high_watermark_goes(high_watermark: int, count: int) -> None:
    assert expired(high_watermark=high_watermark, retention_ms=0) == count


def test_an_empty_active_segment_stays() -> None:
    segments = [*SEGMENTS[:3], SegmentFacts(30, 0, 0)]
    assert expired(segments, end_offset=30, high_watermark=30, retention_ms=0, retention_bytes=0) == 3
