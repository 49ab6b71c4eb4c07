"""Whose CPU it was: the brokers', the clients', nobody's, or others'."""

import pytest

from headrace.lab.readings.company import CpuUse, Snapshot, compare
from headrace.lab.readings.process_tree import Process

OWN, BROKER, CLIENT, HELPER, STRANGER = 10, 20, 30, 31, 40


def snapshot(at_s: float, *, steal_s: float = 0.0, **cpu_s: float) -> Snapshot:
    places = {
        "init": (1, 0),
        "kthreadd": (2, 0),
        "ksoftirqd": (3, 2),
        "own": (OWN, 1),
        "broker": (BROKER, OWN),
        "client": (CLIENT, OWN),
        "helper": (HELPER, CLIENT),
        "stranger": (STRANGER, 1),
        "child": (41, STRANGER),
    }
    return Snapshot(
        at_s,
        steal_s,
        {places[name][0]: Process(places[name][0], name, places[name][1], used, 0.0) for name, used in cpu_s.items()},
    )


def between(before: Snapshot, after: Snapshot) -> CpuUse:
    return compare(before, after, brokers=[BROKER], clients=[CLIENT], own=OWN)


def test_everybody_has_what_is_theirs() -> None:
    before = snapshot(0, init=5, kthreadd=0, ksoftirqd=1, own=1, broker=2, client=3, helper=0, stranger=7)
    after = snapshot(10, steal_s=0.5, init=5, kthreadd=0, ksoftirqd=9, own=2, broker=6, client=4, helper=1, stranger=8)
    use = between(before, after)
    assert (use.brokers_s, use.clients_s, use.others_s, use.elapsed_s) == (4, 2, 1, 10)
    assert use.busiest == "stranger (process 40)"
    assert use.percent_of_core(use.brokers_s) == 40
    disturbance = use.disturbance(stall_share=0.001, machine_cores=2)
    assert (disturbance.steal_share, disturbance.others_share) == (0.025, 0.05)


def test_the_time_of_a_child_that_ended_is_not_counted_twice() -> None:
    before = snapshot(0, init=0, own=0, stranger=1, child=100)
    after = snapshot(1, init=0, own=0, stranger=101.5)  # It has waited for the child, whose time is its own now.
    assert between(before, after).others_s == pytest.approx(0.5)
    assert between(before, after).busiest_s == pytest.approx(0.5)
    inherited = between(before, snapshot(1, init=101.25, own=0))
    assert (inherited.busiest, inherited.busiest_s) == ("init (process 1)", 0.25)


def test_one_that_vanished_with_its_time_is_no_negative_use() -> None:
    assert between(snapshot(0, own=0, stranger=5), snapshot(1, own=0)).others_s == 0


def test_uses_add_up() -> None:
    one = CpuUse(elapsed_s=1, brokers_s=1, others_s=0.1, busiest="a", busiest_s=0.1)
    other = CpuUse(elapsed_s=2, clients_s=1, others_s=0.9, busiest="b", busiest_s=0.9)
    assert one.plus(other) == CpuUse(elapsed_s=3, brokers_s=1, clients_s=1, others_s=1.0, busiest="b", busiest_s=0.9)
    assert CpuUse().disturbance(stall_share=None).others_share is None
