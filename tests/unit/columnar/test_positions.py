from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.columnar.positions import OffsetsGone, Range, check_names, choose, settle, timestamp_asked
from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition
from headrace.wire.offsets import EARLIEST, LATEST

CLICKS = TopicPartition(TopicName("clicks"), 0)
VIEWS = TopicPartition(TopicName("views"), 1)


@pytest.mark.parametrize(
    ("positions", "for_clicks", "for_views"),
    [
        (7, 7, 7),
        ("latest", "latest", "latest"),
        ({0: 7}, 7, "earliest"),
        ({"clicks": 7}, 7, "earliest"),
        ({"clicks": {0: 7, 1: 8}, "views": "latest"}, 7, "latest"),
        ({"views": {1: 9}}, "earliest", 9),
        ({}, "earliest", "earliest"),
    ],
)
def test_positions_are_given_for_all_by_partition_or_by_topic(positions: Any, for_clicks: Any, for_views: Any) -> None:
    assert choose(positions, CLICKS, otherwise="earliest") == for_clicks
    assert choose(positions, VIEWS, otherwise="earliest") == for_views


@pytest.mark.parametrize("positions", [{"click": 7}, {2: 7}, {"clicks": {3: 7}}])
def test_a_position_for_what_is_not_there_is_not_ignored(positions: Any) -> None:
    with pytest.raises(ConfigError, match="start names"):
        check_names(positions, [CLICKS, VIEWS], word="start")


def test_what_has_to_be_asked() -> None:
    assert timestamp_asked("earliest", word="start") == EARLIEST
    assert timestamp_asked("latest", word="start") == LATEST
    assert timestamp_asked(12, word="start") is None
    assert timestamp_asked(datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC), word="start") == 1500


@pytest.mark.parametrize("position", ["soon", -1, True, datetime(2026, 1, 1), datetime(1969, 1, 1, tzinfo=UTC)])  # noqa: DTZ001
def test_what_is_not_a_position(position: Any) -> None:
    with pytest.raises(ConfigError, match="start="):
        timestamp_asked(position, word="start")


def settled(start: int, end: int | None, *, skip_missing: bool = False) -> Range:
    return settle(CLICKS, start=start, end=end, earliest=10, latest=50, skip_missing=skip_missing)


def test_offsets_within_the_log() -> None:
    assert settled(10, 50) == Range(CLICKS, 10, 50)
    assert settled(20, None) == Range(CLICKS, 20, None)
    assert settled(30, 20) == Range(CLICKS, 30, 30)  # Nothing.
    assert settled(5, 8, skip_missing=True) == Range(CLICKS, 10, 10)


def test_a_moment_after_the_last_record_is_the_end() -> None:
    assert settled(-1, -1) == Range(CLICKS, 50, 50)


def test_offsets_that_are_not_there() -> None:
    with pytest.raises(OffsetsGone, match=r'was deleted\. Begin at "earliest", or say missing="skip"$') as gone:
        settled(9, 50)
    assert gone.value.what == "clicks-0 begins at offset 10: 9 and what follows was deleted"
    assert settled(9, 50, skip_missing=True) == Range(CLICKS, 10, 50)
    with pytest.raises(OffsetsGone, match="clicks-0 ends at offset 50, before the end that was asked for, 51"):
        settled(10, 51)
    with pytest.raises(OffsetsGone, match="before the start"):
        settled(51, None, skip_missing=True)
