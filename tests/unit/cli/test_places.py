"""Where to begin and to end, as people say it."""

from datetime import UTC, datetime

import pytest
import typer

from headrace.cli.places import parse_position


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("0", 0),
        ("12345", 12345),
        ("@1700000000001", datetime(2023, 11, 14, 22, 13, 20, 1000, tzinfo=UTC)),
        ("10s", datetime(1970, 1, 1, 0, 16, 30, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
    ],
)
def test_ways_to_say_where(text: str, position: object) -> None:
    assert parse_position(text, option="--start", now_ms=1_000_000) == position


@pytest.mark.parametrize("text", ["", "-5", "first", "10x", "1-2"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="--end"):
        parse_position(text, option="--end", now_ms=0)
