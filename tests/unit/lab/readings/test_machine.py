"""What /proc says of the machine, as text; and a real one."""

from pathlib import Path

import pytest

from headrace.lab.readings import machine
from headrace.lab.readings.machine import Disk, Interface, Machine, MachineCpu

STAT = """\
cpu  800 20 180 5000 80 1 13 39 0 0
cpu0 400 10 90 2500 40 1 6 19 0 0
intr 5 0 0
ctxt 432861632
btime 1794736246
"""
DISKS = """\
   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 254       0 vda 1578910 122584 200 1934871 9671266 2426318 400 30699476 0 2496236 33918065 2654400 160 24 661 298 621
 254       1 vda1 15 12 100 19 96 24 200 30 0 24 33 26 16 24 66 29 62
"""
INTERFACES = """\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 4130836167427 160425756    0    0    0     0          0         0 4130836167428 160425757    0    0    0     0 0 0
  eth0:8450 255    0    0    0     0          0         0 1186 122    0    0    0     0       0          0
"""  # noqa: E501
PRESSURE = """\
some avg10=0.49 avg60=0.33 avg300=0.59 total=1519497339
full avg10=0.00 avg60=0.03 avg300=0.32 total=546264980
"""


def test_cpu_is_busy_or_stolen_and_neither_idle_nor_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "TICKS_PER_S", 100)
    assert MachineCpu.parse(STAT) == MachineCpu(busy_s=10.14, steal_s=0.39)


def test_switches_and_memory() -> None:
    assert machine.parse_switches(STAT) == 432861632
    assert machine.parse_available_bytes("MemTotal: 24 kB\nMemFree: 3 kB\nMemAvailable:   20 kB\n") == 20 * 1024


def test_disks_are_whole_ones_that_do_something() -> None:
    assert machine.parse_disks(DISKS, whole={"loop0", "vda"}) == {
        "vda": Disk(read_bytes=200 * 512, written_bytes=400 * 512, writes=9671266, write_s=30699.476, busy_s=2496.236)
    }


def test_interfaces_with_and_without_a_space_before_the_first_number() -> None:
    found = machine.parse_interfaces(INTERFACES)
    assert found["lo"] == Interface(4130836167427, 160425756, 4130836167428, 160425757)
    assert found["eth0"] == Interface(8450, 255, 1186, 122)


def test_pressure_is_that_of_some() -> None:
    assert machine.parse_pressure_s(PRESSURE) == pytest.approx(1519.497339)


def test_counts_of_a_real_machine_only_rise() -> None:
    before = Machine.now()
    Path("/proc/self/stat").read_text()
    after = Machine.now()
    assert after.switches >= before.switches > 0
    assert after.cpu.busy_s >= before.cpu.busy_s > 0
    assert after.available_bytes > 0
    assert after.interfaces["lo"].received_bytes >= before.interfaces["lo"].received_bytes
