"""Numbers and times in Java's words: `%.2f`, `Double.toString` and `SimpleDateFormat`.

Java rounds half up the shortest decimal that means a number, where Python rounds the exact binary value: 0.15 with one
digit is 0.2 there and 0.1 here. Lines that somebody compares byte for byte need Java's way. Words are English, and the
decimal separator is a point.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from headrace.errors import ConfigError

# Beyond these Java writes a double with an exponent.
_PLAIN_MIN: Final = 1e-3
_PLAIN_MAX: Final = 1e7


def fixed(value: float, digits: int) -> str:
    """`%.{digits}f`."""
    if not math.isfinite(value):
        return _not_finite(value)
    return f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP):f}"


def shortest(value: float) -> str:
    """`Double.toString`: as many digits as tell it from its neighbours, and at least one behind the point."""
    if not math.isfinite(value):
        return _not_finite(value)
    number = Decimal(repr(float(value)))
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_MAX:
        text = f"{number:f}"
        return text if "." in text else f"{text}.0"
    sign, digits, _ = number.normalize().as_tuple()
    fraction = "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{digits[0]}.{fraction}E{number.adjusted()}"


def divide(dividend: float, divisor: float) -> float:
    """Division of doubles, which raises nothing: by zero it is infinite, and of zero by zero not a number."""
    if divisor:
        return dividend / divisor
    return math.copysign(math.inf, dividend) if dividend else math.nan


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


# --- SimpleDateFormat --------------------------------------------------------------------------------------------

_MONTHS: Final = "January February March April May June July August September October November December".split()
_DAYS: Final = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
# Text in quotes, of which two in a row are one; a run of one letter; anything else.
_PIECE: Final = re.compile(r"'((?:[^']|'')*)'|(([A-Za-z])\3*)|([^A-Za-z']+)")

_Field = Callable[[datetime, int], str]
_Piece = Callable[[datetime], str]


def date_writer(pattern: str) -> Callable[[int], str]:
    """What a pattern of `SimpleDateFormat` makes of milliseconds since 1970, in the zone of this machine."""
    pieces: list[_Piece] = []
    position = 0
    while position < len(pattern):
        match = _PIECE.match(pattern, position)
        if match is None:
            raise ConfigError(f"date format {pattern!r}: a quote is not closed")
        position = match.end()
        quoted, run, letter, other = match.groups()
        if quoted is not None:
            pieces.append(_literal(quoted.replace("''", "'") or "'"))
        elif other is not None:
            pieces.append(_literal(other))
        elif letter in _FIELDS and len(run) <= _WIDTHS_MAX.get(letter, len(run)):
            pieces.append(_field(_FIELDS[letter], len(run)))
        else:
            raise ConfigError(f"date format {pattern!r}: {run!r} is not supported here")

    def write(stamp_ms: int) -> str:
        when = datetime.fromtimestamp(stamp_ms // 1000, UTC).astimezone() + timedelta(milliseconds=stamp_ms % 1000)
        return "".join(piece(when) for piece in pieces)

    return write


def _literal(text: str) -> _Piece:
    return lambda _: text


def _field(write: _Field, width: int) -> _Piece:
    return lambda when: write(when, width)


def _number(of: Callable[[datetime], int]) -> _Field:
    return lambda when, width: f"{of(when):0{width}d}"


def _year(when: datetime, width: int) -> str:
    return f"{when.year % 100:02d}" if width == 2 else f"{when.year:0{width}d}"


def _month(when: datetime, width: int) -> str:
    name = _MONTHS[when.month - 1]
    return f"{when.month:0{width}d}" if width < 3 else name if width > 3 else name[:3]


def _weekday(when: datetime, width: int) -> str:
    name = _DAYS[when.weekday()]
    return name if width > 3 else name[:3]


def _zone_hours(when: datetime, width: int) -> str:
    """ISO 8601: Z, or hours, hours and minutes, or both with a colon."""
    offset = when.strftime("%z")
    if offset == "+0000":
        return "Z"
    return (offset[:3], offset[:5], f"{offset[:3]}:{offset[3:5]}")[width - 1]


_FIELDS: Final[dict[str, _Field]] = {
    "y": _year,
    "M": _month,
    "d": _number(lambda when: when.day),
    "D": _number(lambda when: when.timetuple().tm_yday),
    "E": _weekday,
    "u": _number(lambda when: when.isoweekday()),
    "a": lambda when, _: "AM" if when.hour < 12 else "PM",
    "H": _number(lambda when: when.hour),
    "k": _number(lambda when: when.hour or 24),
    "K": _number(lambda when: when.hour % 12),
    "h": _number(lambda when: when.hour % 12 or 12),
    "m": _number(lambda when: when.minute),
    "s": _number(lambda when: when.second),
    "S": _number(lambda when: when.microsecond // 1000),
    "z": lambda when, _: when.strftime("%Z"),
    "Z": lambda when, _: when.strftime("%z"),
    "X": _zone_hours,
}
# Of X there is no more; longer names of zones are not to be had.
_WIDTHS_MAX: Final = {"X": 3, "z": 3}
