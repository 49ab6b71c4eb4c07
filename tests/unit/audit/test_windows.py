import pytest

from headrace.audit.windows import Window, check_length, window_of
from headrace.errors import ConfigError


@pytest.mark.parametrize(
    ("time_ms", "start_ms"), [(0, 0), (59_999, 0), (60_000, 60_000), (60_001, 60_000), (-1, -60_000)]
)
def test_every_moment_lies_in_one_window(time_ms: int, start_ms: int) -> None:
    assert window_of(time_ms, length_ms=60_000) == Window(start_ms, 60_000)


def test_a_window_ends_where_the_next_begins() -> None:
    window = window_of(123_456, length_ms=1_000)
    assert window_of(window.end_ms - 1, length_ms=1_000) == window
    assert window_of(window.end_ms, length_ms=1_000).start_ms == window.end_ms


def test_a_window_is_read_as_a_time_in_utc_and_a_length() -> None:
    assert str(Window(1_763_247_600_000, 60_000)) == "2025-11-15 23:00:00 +60s"
    assert str(Window(500, 250)) == "1970-01-01 00:00:00.500 +0.25s"


def test_a_window_has_a_length() -> None:
    assert check_length(1) == 1
    with pytest.raises(ConfigError, match="window_ms=0"):
        check_length(0)
