"""The load of a repeat alone, and the packets that came from elsewhere meanwhile."""

import math
from collections.abc import Sequence

import pytest

from headrace.lab.readings.glances import seen
from headrace.lab.readings.machine_metrics import LoadAverage, machine_metrics, own_load
from headrace.lab.readings.reading import MachineReading, Reading

BEGIN_UTC_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def averages(counted: Sequence[float], *, seconds: int, before: float = 0.0, phase_s: float = 0.0) -> list[LoadAverage]:
    """As the kernel tells them once a second: moved at every fifth, and rounded."""
    found, average, counts = [], before, 0
    for second in range(seconds):
        while (counts + 1) * 5 <= second + phase_s:
            average += (counted[min(counts, len(counted) - 1)] - average) * (1 - math.exp(-5 / 60))
            counts += 1
        found.append(LoadAverage(float(second), round(average, 2)))
    return found


@pytest.mark.parametrize("phase_s", [0.0, 1.3, 4.9])
@pytest.mark.parametrize("before", [0.0, 15.0])
@pytest.mark.parametrize("load", [0.5, 3.0, 15.0])
def test_what_was_before_does_not_count(load: float, before: float, phase_s: float) -> None:
    found = own_load(averages([load], seconds=24, before=before, phase_s=phase_s))
    assert found == pytest.approx(load, abs=0.15)


def test_after_minutes_it_is_the_average_that_everybody_sees() -> None:
    told = averages([3.0], seconds=600, before=9.0)
    assert told[-1].load_1m == pytest.approx(3.0, abs=0.01)
    assert own_load(told) == pytest.approx(3.0, abs=0.01)


def test_a_load_that_stays_the_same_is_its_average() -> None:
    assert own_load(averages([2.0], seconds=24, before=2.0)) == 2.0


def test_of_what_was_never_counted_there_is_none() -> None:
    assert own_load([]) is None
    assert own_load(averages([2.0], seconds=4)) is None


def reading(second: int, *, packets: float, load: float = 1.0) -> Reading:
    interfaces = {
        "lo": {"received_packets_per_s": 1e6},
        "eth0": {"received_packets_per_s": packets},
        "hr7n": {"received_packets_per_s": 10.0},
    }
    machine = MachineReading(
        cores=2, busy_share=0.0, steal_share=0.0, load_1m=load, available_bytes=0, switches_per_s=0.0,
        io_stalled_share=None, disks={}, interfaces=interfaces,
    )  # fmt: skip
    return Reading(BEGIN_UTC_NS + (second + 1) * SECOND_NS, 1.0, machine, [], seen([]), {})


def test_packets_are_of_all_interfaces_but_loopback_and_of_the_time_in_between() -> None:
    readings = [reading(second, packets=0.0 if second < 5 else 100.0) for second in range(20)]
    found = machine_metrics(
        readings, begin_utc_ns=BEGIN_UTC_NS + 5 * SECOND_NS, end_utc_ns=BEGIN_UTC_NS + 15 * SECOND_NS
    )
    assert found == {"load": 1.0, "received_packets_per_s": pytest.approx(110.0)}


def test_too_short_a_time_has_no_load_and_none_at_all_nothing() -> None:
    readings = [reading(second, packets=5.0) for second in range(2)]
    assert machine_metrics(readings, begin_utc_ns=BEGIN_UTC_NS, end_utc_ns=BEGIN_UTC_NS + 2 * SECOND_NS) == {
        "received_packets_per_s": pytest.approx(15.0)
    }
    assert machine_metrics([], begin_utc_ns=BEGIN_UTC_NS, end_utc_ns=BEGIN_UTC_NS + SECOND_NS) == {}
