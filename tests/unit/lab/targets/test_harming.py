"""Faults on brokers that only pretend to be some."""

import time
from collections.abc import Callable
from typing import cast

import pytest

from headrace.lab.errors import LabError
from headrace.lab.faults import parse_fault
from headrace.lab.targets.harming import Harm
from headrace.lab.targets.member import Member
from headrace.lab.targets.proxy import Proxy
from headrace.lab.targets.running import Target
from headrace.lab.targets.spec import find_target


class Process:
    """A broker that notes what was done to it."""

    pid = 0

    def __init__(self) -> None:
        self.has_ended = False
        self.done: list[str] = []

    def start(self) -> None:
        self.has_ended = False
        self.done.append("start")

    def kill(self) -> None:
        self.has_ended = True
        self.done.append("kill")


def target(*processes: Process) -> Target:
    members = [Member(number, process=process) for number, process in enumerate(processes, 1)]
    return Target(spec=find_target("kafka-3"), settings={}, members=members)


def test_a_target_says_whether_there_are_proxies_before_its_brokers() -> None:
    assert not target(Process(), Process()).is_proxied
    one = Member(1, process=Process(), proxy=cast(Proxy, object()))
    assert Target(spec=find_target("kafka"), settings={}, members=[one]).is_proxied


def wait(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.001)


def test_each_fault_is_done_to_its_broker_at_its_time() -> None:
    one, other = Process(), Process()
    with Harm(target(one, other), [parse_fault("kill:broker2@0s+0s"), parse_fault("kill:1@0s")]) as harm:
        harm.start(time.time_ns())
        wait(lambda: len(harm.done) == 3)
    assert (one.done, other.done) == (["kill"], ["kill", "start"])
    assert harm.troubles == []


def test_what_is_still_to_come_is_left_out_at_the_end() -> None:
    one = Process()
    with Harm(target(one), [parse_fault("kill@1h")]) as harm:
        harm.start(time.time_ns())
    assert (one.done, harm.done) == ([], [])


def test_a_broker_that_there_is_not_is_told_before() -> None:
    with pytest.raises(LabError, match="there is no broker 'broker9'; there are broker1, broker2"):
        Harm(target(Process(), Process()), [parse_fault("kill:broker9@1s")])
    with pytest.raises(LabError, match=r"which broker\? There are broker1, broker2"):
        Harm(target(Process(), Process()), [parse_fault("kill@1s")])


def test_what_cannot_be_done_is_told() -> None:
    with Harm(target(Process()), [parse_fault("cut@0s")]) as harm:
        harm.start(time.time_ns())
        wait(lambda: bool(harm.troubles))
    assert harm.troubles[0] == "broker1: broker1 cannot be cut off: it has no proxy"


def test_a_death_that_was_asked_for_is_no_trouble_unless_it_was_the_last() -> None:
    one, other = Process(), Process()
    made = target(one, other)
    made.member("broker1").kill()
    assert made.trouble() is None
    assert made.pids == [0]
    made.member("broker2").kill()
    assert made.trouble() == "no broker is left"


def test_the_last_one_is_waited_for_where_it_is_to_come_back() -> None:
    one = Process()
    made = target(one)
    with Harm(made, [parse_fault("kill@0s+1h")]) as harm:
        harm.start(time.time_ns())
        wait(lambda: len(harm.done) == 1)
        assert not made.members[0].is_alive
        assert made.trouble() is None
    made.members[0].start_again()
    assert (one.done, made.trouble()) == (["kill", "start"], None)


def test_a_death_that_nobody_asked_for_is_trouble() -> None:
    one, other = Process(), Process()
    made = target(one, other)
    other.has_ended = True
    assert made.trouble() == "broker2 died"
    with pytest.raises(LabError, match="was not started here"):
        Member(7).kill()
