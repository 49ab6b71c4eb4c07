"""Records of a manufacturing machine's sensors, endless and seeded: 66 columns between tabs, 201 bytes each.

They stand in for the records of the DEBS 2012 Grand Challenge that published experiments send, and match a sample of
them: a time every 10 ms, a running number, three readings of electrical power that wander slowly, three analogue ones
that flutter, four that are zero, and Booleans of which four are on and none changes. Means, deviations and how much
neighbours have in common are the sample's; that its power readings jump at times is not. The sample has 44 Booleans
and 181 bytes; the published experiments' records have 66 columns, so here there are 54.

The machine is always the same; the seed decides what it does.
"""

import time
from collections.abc import Iterator
from math import sqrt
from random import Random
from typing import Final, NamedTuple

COLUMNS: Final = 66
START_S: Final = 1_329_929_188  # In the afternoon of 22 February 2012.
_FIRST_NUMBER: Final = 2_556_001
_TICKS_PER_S: Final = 10_000_000  # Times have seven decimals.
_STEP_TICKS: Final = _TICKS_PER_S // 100
_JITTER_TICKS: Final = 400


class Reading(NamedTuple):
    """A reading wanders around its mean, and is drawn back to it a little with each record."""

    mean: float
    deviation: float
    memory: float  # The correlation of neighbours.
    digits: int


READINGS: Final = (
    Reading(13053.4, 359.1, 0.9986, 5),
    Reading(14377.7, 407.6, 0.9985, 5),
    Reading(8089.4, 195.7, 0.9998, 4),
    Reading(70.2, 4.5, 0.8657, 4),
    Reading(189.9, 3.9, 0.8132, 4),
    Reading(152.1, 4.3, 0.8457, 4),
)
_FORMAT: Final = "\t".join(f"%0{reading.digits}d" for reading in READINGS)
_ZEROS: Final = "\t".join(["0000"] * 4)
_BOOLEANS: Final = COLUMNS - 2 - len(READINGS) - 4
_ON: Final = frozenset({21, 22, 29, 32})
_FLAGS: Final = "\t".join("1" if number in _ON else "0" for number in range(_BOOLEANS))


def records(seed: int) -> Iterator[bytes]:
    """Endless records, without line ends. The same seed gives the same ones."""
    random = Random(seed)
    gauss = random.gauss
    drawn = [(each.memory, sqrt(1 - each.memory**2) * each.deviation) for each in READINGS]
    bounds = [(each.mean, 10**each.digits - 1) for each in READINGS]
    away = [gauss(0, each.deviation) for each in READINGS]
    number, ticks = _FIRST_NUMBER, 0
    second_s, stamp = -1, ""
    while True:
        away = [memory * value + gauss(0, step) for value, (memory, step) in zip(away, drawn, strict=True)]
        shown = tuple(min(max(0, round(mean + value)), high) for value, (mean, high) in zip(away, bounds, strict=True))
        now_s, fraction = divmod(ticks + random.randrange(_JITTER_TICKS), _TICKS_PER_S)
        if now_s != second_s:
            second_s, stamp = now_s, time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(START_S + now_s))
        readings = _FORMAT % shown
        yield f"{stamp}.{fraction:07d}+00:00\t{number}\t{readings}\t{_ZEROS}\t{_FLAGS}".encode()
        number += 1
        ticks += _STEP_TICKS
