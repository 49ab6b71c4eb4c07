"""Moments as people write them: a time, how long ago, or milliseconds. Knows neither clocks nor offsets."""

import re
from datetime import datetime
from itertools import pairwise
from typing import Final

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# The largest unit that fits, and the next one below it.
_UNITS_S: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def parse_moment(text: str, *, now_ms: int) -> int | None:
    """Milliseconds since 1970 for `10m` (ago), `@MILLISECONDS` or an ISO time; None for anything else."""
    if (match := re.fullmatch(r"@(\d+)", text)) is not None:
        return int(match[1])
    if (ago_ms := parse_duration_ms(text)) is not None:
        return now_ms - ago_ms
    try:
        # A time without a zone is meant as the clock on the wall shows it.
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        return None


def parse_duration_ms(text: str) -> int | None:
    """Milliseconds for `500ms`, `90s`, `5m`, `2h` or `1d`; None for anything else."""
    if (match := _DURATION.fullmatch(text)) is None:
        return None
    return round(float(match[1]) * _UNIT_MS[match[2]])


def duration_text(seconds: float | None) -> str:
    """A length of time at a glance: 0.3 s, 42 s, 3 min 20 s, 2 d 4 h."""
    if seconds is None:
        return "-"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole_s = round(seconds)
    for (unit, unit_s), (smaller, smaller_s) in pairwise(_UNITS_S):
        if whole_s >= unit_s:
            count, rest_s = divmod(whole_s, unit_s)
            return f"{count} {unit} {rest_s // smaller_s} {smaller}"
    return f"{whole_s} s"
