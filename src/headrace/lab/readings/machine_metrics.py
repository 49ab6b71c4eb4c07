"""What the machine did in a repeat, as metrics of it: its load, and the packets that came from elsewhere.

Linux counts every five seconds how many threads run, want to run or wait for a disk, and tells an average of that which
is moved towards it by 8% each time. After half a minute it still tells more of what was before than of what is. How
each count moves it is known, though, so that what was counted in between follows from two averages: that is the load
of the repeat alone, and after long enough the two are the same.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.lab.readings.reading import Reading
from headrace.lab.readings.summary import within

LOAD: Final = "load"
PACKETS: Final = "received_packets_per_s"
_COUNTED_EVERY_S: Final = 5.0
_KEPT: Final = math.exp(-_COUNTED_EVERY_S / 60)  # Of the average, at each count.
_LOOPBACK: Final = "lo"


class LoadAverage(NamedTuple):
    at_s: float
    load_1m: float


def machine_metrics(readings: Sequence[Reading], *, begin_utc_ns: int, end_utc_ns: int) -> dict[str, float]:
    """Of the readings that lie in between; none where there are none."""
    chosen = within(readings, begin_utc_ns, end_utc_ns)
    if not chosen:
        return {}
    seconds = math.fsum(one.seconds for one in chosen)
    found = {PACKETS: math.fsum(_packets_per_s(one) * one.seconds for one in chosen) / seconds}
    load = own_load([LoadAverage(one.utc_ns / 1e9, one.machine.load_1m) for one in chosen])
    return found if load is None else {LOAD: load, **found}


def _packets_per_s(reading: Reading) -> float:
    return math.fsum(
        one["received_packets_per_s"] for name, one in reading.machine.interfaces.items() if name != _LOOPBACK
    )


def own_load(averages: Sequence[LoadAverage]) -> float | None:
    """The load between the first of them and the last, later counts weighing more; None where nothing was counted."""
    moves = [number for number in range(1, len(averages)) if averages[number].load_1m != averages[number - 1].load_1m]
    if not moves:
        # A load that stays the same is its own average, if there was a count to move it.
        is_counted = len(averages) > 1 and averages[-1].at_s - averages[0].at_s >= _COUNTED_EVERY_S
        return averages[-1].load_1m if is_counted else None
    first, last = averages[moves[0]], averages[moves[-1]]
    counts = 1 + round((last.at_s - first.at_s) / _COUNTED_EVERY_S)
    kept = _KEPT**counts
    return max(0.0, (last.load_1m - averages[moves[0] - 1].load_1m * kept) / (1 - kept))
