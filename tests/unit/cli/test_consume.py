"""Where to begin, as people say it."""

from datetime import UTC, datetime

import pytest
import typer

from headrace.cli.consume import parse_start
from headrace.cli.reading import AtOffset, AtTime, BeforeEnd, Earliest, Latest, Start


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("earliest", Earliest()),
        ("latest", Latest()),
        ("0", AtOffset(0)),
        ("12345", AtOffset(12345)),
        ("-10", BeforeEnd(10)),
        ("@1700000000000", AtTime(1_700_000_000_000)),
        ("250ms", AtTime(999_750)),
        ("10s", AtTime(990_000)),
        ("1.5m", AtTime(910_000)),
        ("2h", AtTime(1_000_000 - 7_200_000)),
        ("1d", AtTime(1_000_000 - 86_400_000)),
        ("2026-01-31T12:00:00+00:00", AtTime(1_769_860_800_000)),
        ("2026-01-31T12:00:00.250Z", AtTime(1_769_860_800_250)),
    ],
)
def test_ways_to_say_where(text: str, start: Start) -> None:
    assert parse_start(text, now_ms=1_000_000) == start


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 1, 31, 12, tzinfo=UTC).astimezone().replace(tzinfo=None)
    assert parse_start(local.isoformat(), now_ms=0) == AtTime(1_769_860_800_000)


@pytest.mark.parametrize("text", ["", "first", "10x", "@now", "1-2", "--5", "2026-13-01"])
def test_what_is_no_place_to_begin(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="earliest, latest"):
        parse_start(text, now_ms=0)
