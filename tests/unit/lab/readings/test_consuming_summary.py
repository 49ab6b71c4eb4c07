"""Consumers and their readings, in few numbers."""

import pytest

from headrace.lab.consuming_bottleneck import find_consuming_bottleneck
from headrace.lab.readings.consuming_summary import Consuming, behind_s, consuming_summary
from headrace.lab.readings.glances import Glance, seen
from headrace.lab.readings.reading import MachineReading, ProcessReading, Reading, ThreadReading

SECOND_NS = 1_000_000_000


def process(role: str, pid: int, *, ran: float) -> ProcessReading:
    threads = [ThreadReading(pid, "main", ran, 0.0, 0.0), ThreadReading(pid + 1, "idle", 0.01, 0.0, 0.0)]
    return ProcessReading(role, pid, role, ran, 0, 0.0, None, None, 0.0, threads)


def readings(*, consumer: float, broker: float) -> list[Reading]:
    machine = MachineReading(
        cores=2, busy_share=0.6, steal_share=0.0, load_1m=1.0, available_bytes=0, switches_per_s=0.0,
        io_stalled_share=None, disks={}, interfaces={"eth0": {"sent_bytes_per_s": 25e6, "received_bytes_per_s": 0.0}},
    )  # fmt: skip
    processes = [process("consumer", 10, ran=consumer), process("broker", 20, ran=broker)]
    glances = [Glance({10: {10: "S", 11: "S"}, 20: {20: "S", 21: "S"}})]
    return [Reading((second + 1) * SECOND_NS, 1.0, machine, processes, seen(glances), {}) for second in range(10)]


def test_behind_is_what_is_left_at_the_ends_of_the_last_seconds() -> None:
    assert behind_s([100] * 4, [100] * 4) == 0.0
    assert behind_s([100] * 4, [100, 50, 50, 50]) == pytest.approx((100 + 150) / 2 / 100)
    assert behind_s([100, 100], [101, 101]) == 0.0
    assert behind_s([], []) == behind_s([0], [0]) == 0.0


def test_a_slow_consumer_and_a_slow_broker_are_told_apart() -> None:
    late = Consuming(written=[300] * 10, consumed=[100] * 10, elapsed_s=10.0, is_backlog=False)
    found = consuming_summary(late, readings(consumer=0.97, broker=0.2), links_bits_per_s={"eth0": 1_000_000_000})
    assert (found.written_per_s, found.consumed_per_s, found.behind_s) == pytest.approx((300, 100, 16 / 3))
    assert (found.link, found.link_share) == ("eth0", pytest.approx(0.2))
    assert found.cores is not None
    assert (found.cores.busy, found.cores.others) == pytest.approx((0.6, 0.015))
    assert find_consuming_bottleneck(found).verdict == "consumer CPU"
    found = consuming_summary(late, readings(consumer=0.3, broker=0.96), links_bits_per_s={})
    assert find_consuming_bottleneck(found).verdict == "broker CPU"


def test_how_long_brokers_held_back_is_a_share_of_the_time() -> None:
    late = Consuming(written=[300] * 10, consumed=[100] * 10, elapsed_s=10.0, is_backlog=False, throttled_s=6.0)
    found = consuming_summary(late, readings(consumer=0.3, broker=0.2), links_bits_per_s={})
    assert found.throttled_share == pytest.approx(0.6)
    assert find_consuming_bottleneck(found).verdict == "quota"
    longer = late._replace(throttled_s=17.0)  # Of what is said in the last second, most is yet to come.
    assert consuming_summary(longer, readings(consumer=0.3, broker=0.2), links_bits_per_s={}).throttled_share == 1.0


def test_out_of_a_backlog_nobody_is_behind() -> None:
    backlog = Consuming(written=[], consumed=[500] * 4, elapsed_s=2.5, is_backlog=True)
    found = consuming_summary(backlog, readings(consumer=0.97, broker=0.2), links_bits_per_s={})
    assert (found.consumed_per_s, found.behind_s, found.is_backlog) == (800, 0.0, True)
    assert find_consuming_bottleneck(found).verdict == "consumer CPU"
