"""What of a log is to be compacted, when, and in which pieces."""

from typing import Any

import pytest

from headrace.storage.cleanable import Dirt, SealedSegment, find_dirt, is_due, next_group
from tests.unit.storage.logs import NOW_MS, Settings

COMPACTED = Settings(compacts=True)


def sealed(*bases: int, size: int = 100, age_ms: int = 0, entries: int = 1) -> list[SealedSegment]:
    stamp = NOW_MS - age_ms
    return [SealedSegment(base, size, stamp, stamp, entries) for base in bases]


def dirt_of(segments: list[SealedSegment], config: Settings = COMPACTED, **given: Any) -> Dirt:
    offsets = {"cleaned_offset": None, "start_offset": 0, "safe_offset": 100, "active_base": 40, "end_offset": 100}
    return find_dirt(segments, config, now_ms=NOW_MS, **(offsets | given))


def test_a_log_that_was_never_cleaned_is_dirty_up_to_the_active_segment() -> None:
    assert dirt_of(sealed(0, 10, 20)) == Dirt(0, 40, 0, 300, is_overdue=False)


def test_what_was_cleaned_is_clean() -> None:
    assert dirt_of(sealed(0, 10, 20), cleaned_offset=20) == Dirt(20, 40, 200, 100, is_overdue=False)


def test_a_segment_cleaned_in_part_is_both() -> None:
    """As Kafka counts: it is read for its keys, and written anew."""
    assert dirt_of(sealed(0, 10, 20), cleaned_offset=15) == Dirt(15, 40, 200, 200, is_overdue=False)


def test_nothing_is_dirty_where_everything_is_clean() -> None:
    dirt = dirt_of(sealed(0, 10, 20), cleaned_offset=40)
    assert dirt == Dirt(40, 40, 300, 0, is_overdue=False)
    assert not is_due(dirt, COMPACTED)


@pytest.mark.parametrize(("safe_offset", "end"), [(9, 0), (10, 10), (19, 10), (39, 20), (40, 40)])
def test_what_is_not_visible_or_not_on_disk_stays_untouched(safe_offset: int, end: int) -> None:
    assert dirt_of(sealed(0, 10, 20), safe_offset=safe_offset).end_offset == end


def test_young_records_stay_untouched_and_all_behind_them() -> None:
    config = Settings(compacts=True, min_compaction_lag_ms=1000)
    old, young = sealed(0, 10, age_ms=1000), sealed(20, age_ms=999)
    assert dirt_of(old + young, config).end_offset == 20
    assert dirt_of(sealed(0, age_ms=0) + sealed(10, 20, age_ms=5000), config).dirty_bytes == 0


def test_what_is_clean_is_not_too_young_to_be_written_anew() -> None:
    config = Settings(compacts=True, min_compaction_lag_ms=1000)
    assert dirt_of(sealed(0, age_ms=0) + sealed(10, age_ms=2000), config, cleaned_offset=10).end_offset == 40


@pytest.mark.parametrize("cleaned_offset", [3, 101])
def test_an_offset_outside_of_the_log_is_not_believed(cleaned_offset: int) -> None:
    assert dirt_of(sealed(0, 10, 20), cleaned_offset=cleaned_offset, start_offset=5).start_offset == 5


def test_it_is_due_by_its_share() -> None:
    assert not is_due(Dirt(0, 10, clean_bytes=50, dirty_bytes=50, is_overdue=False), COMPACTED)
    assert is_due(Dirt(0, 10, clean_bytes=49, dirty_bytes=50, is_overdue=False), COMPACTED)


def test_it_is_overdue_by_the_age_of_its_first_record() -> None:
    config = Settings(compacts=True, max_compaction_lag_ms=1000)
    assert not dirt_of(sealed(0, 10, age_ms=1000), config).is_overdue
    dirt = dirt_of(sealed(0, age_ms=5000) + sealed(10, age_ms=1001), config, cleaned_offset=10)
    assert dirt.is_overdue
    assert not dirt_of(sealed(0, age_ms=5000) + sealed(10, age_ms=1), config, cleaned_offset=10).is_overdue
    assert is_due(Dirt(0, 10, clean_bytes=99, dirty_bytes=1, is_overdue=True), config)
    assert not is_due(Dirt(0, 10, clean_bytes=99, dirty_bytes=0, is_overdue=True), config)


def groups(
    segments: list[SealedSegment], config: Settings, *, mapped_offset: int = 1 << 40, end_offset: int = 1000
) -> list[list[int]]:
    found: list[list[int]] = []
    while group := next_group(
        segments,
        config,
        from_offset=found[-1][-1] + 1 if found else 0,
        mapped_offset=mapped_offset,
        end_offset=end_offset,
    ):
        found.append(group)
    return found


def test_small_segments_become_one_up_to_the_size_of_a_segment() -> None:
    segments = sealed(0, 10, 20, 30, 40, size=100)
    assert groups(segments, Settings(segment_bytes=250)) == [[0, 10], [20, 30], [40]]
    assert groups(segments, Settings(segment_bytes=50)) == [[0], [10], [20], [30], [40]]


def test_nor_may_their_index_be_too_large() -> None:
    assert groups(sealed(0, 10, 20, entries=4), Settings(segment_index_bytes=12 * 9)) == [[0, 10], [20]]


def test_nor_their_offsets_reach_too_far() -> None:
    far = 2**31
    segments = sealed(0, 10, far, far + 5)
    assert groups(segments, Settings(), end_offset=far + 10) == [[0, 10], [far, far + 5]]
    assert groups(segments, Settings(), end_offset=2 * far + 10) == [[0, 10], [far], [far + 5]]


def test_what_no_key_is_known_of_is_left_alone() -> None:
    assert groups(sealed(0, 10, 20), Settings(segment_bytes=100), mapped_offset=11) == [[0], [10]]
