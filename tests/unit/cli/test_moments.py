"""Lengths of time at a glance. (Where to begin is in test_consume.)"""

import pytest

from headrace.cli.moments import duration_text, parse_duration_ms


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0.0, "0.0 s"),
        (0.34, "0.3 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (59.6, "1 min 0 s"),
        (200, "3 min 20 s"),
        (3_600, "1 h 0 min"),
        (86_400 * 2 + 3_600 * 4 + 59, "2 d 4 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("500ms", 500),
        ("1.5s", 1_500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("soon", None),
        ("5", None),
    ],
)
def test_durations_are_read(text: str, duration_ms: int | None) -> None:
    assert parse_duration_ms(text) == duration_ms
