"""A run and its readings, in few numbers."""

from typing import Any

import numpy as np
import pytest

from headrace.lab.bottleneck import Counts
from headrace.lab.readings.glances import Glance, Queues
from headrace.lab.readings.machine import Disk, Interface, Machine, MachineCpu
from headrace.lab.readings.metrics_page import parse_page
from headrace.lab.readings.node_counts import NodeCounts
from headrace.lab.readings.process_tree import Thread
from headrace.lab.readings.reading import ProcessCounts, Reading, Snapshot, read_between
from headrace.lab.readings.sockets import Waiting
from headrace.lab.readings.summary import behind_s, side_of, summarise, summary_of
from headrace.lab.scenario import Scenario
from headrace.lab.senders import Outcome
from headrace.lab.sent import Flow, Sent
from headrace.lab.sides import Cores, Side
from headrace.lab.timeline import Second

START_UTC_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


def machine(second: int) -> Machine:
    return Machine(
        cpu=MachineCpu(second * 0.5, 0.0),
        switches=0,
        available_bytes=0,
        disks={"vda": Disk(0, 0, 0, 0.0, second * 0.25), "vdb": Disk(0, 0, 0, 0.0, 0.0)},
        interfaces={"lo": Interface(0, 0, second * 10**9, 0), "eth0": Interface(0, 0, second * 12_500_000, 0)},
        io_stalled_s=0.0,
    )


def page(second: int) -> str:
    produce = 'api="Produce",source="client"'
    stages = "".join(
        f"headrace_request_{stage}_seconds_sum{{{produce}}} {second * seconds}\n"
        f"headrace_request_{stage}_seconds_count{{{produce}}} {second * 10}\n"
        for stage, seconds in {"queue": 0.01, "local": 0.02, "parked": 0.06, "send": 0.01}.items()
    )
    return (
        f"headrace_requests_total{{{produce}}} {second * 10}\n{stages}"
        f"headrace_sync_seconds_total {second * 0.7}\nprocess_cpu_seconds_total {second * 0.3}\n"
    )


def snapshot(second: int, *, with_processes: bool = True) -> Snapshot:
    idle = Thread("main", second * 100_000_000, 0, 0)
    busy = Thread("rdk:broker1", second * 800_000_000, second * 100_000_000, 0)
    node, compiler = Thread("loop", second * 50_000_000, 0, 0), Thread("C2 CompilerThre", second * SECOND_NS, 0, 0)
    processes = [
        ProcessCounts("client", 1, "python", 0.0, 0, None, None, {1: idle, 2: busy}),
        ProcessCounts("broker", 3, "node", 0.2 * second, 0, None, None, {3: node, 5: compiler}),
        ProcessCounts("broker", 4, "helper", 0.0, 0, None, None, {4: Thread("sync", 0, 0, 0)}),
    ]
    mono_ns = second * SECOND_NS
    return Snapshot(
        START_UTC_NS + mono_ns, mono_ns, machine(second), 0.0, processes if with_processes else [],
        {"http://node": NodeCounts.of_page(parse_page(page(second)), mono_ns=mono_ns)},
    )  # fmt: skip


def readings(*, stopped: bool, with_processes: bool = True) -> list[Reading]:
    """Of ten seconds; the broker's helper is at a device half of the time."""
    state = "T" if stopped else "S"
    glances = [
        Glance({1: {1: "S"}, 3: {3: state}, 4: {4: disk}}, Queues(Waiting(100, 0), Waiting(0, unread)))
        for disk, unread in (("D", 0), ("S", 50), ("D", 0), ("S", 0))
    ]
    return [
        read_between(
            snapshot(second, with_processes=with_processes),
            snapshot(second + 1, with_processes=with_processes),
            glances,
            cores=2,
        )
        for second in range(10)
    ]


def sent_of(outcome: Outcome, **changes: Any) -> Sent:
    """A hundred planned a second, fifty sent and forty answered, each after 20 ms."""
    sent = Sent(Scenario(**{"rate_per_s": 100.0, "duration_s": 10.0, **changes}), target="there")
    for _ in range(10):
        row = Second(planned=100, sent=50, acknowledged=40)
        row.latency_sent.add(np.full(40, 20_000_000))
        sent.add(row)
    sent.end(outcome, start_utc_ns=START_UTC_NS)
    return sent


def test_behind_is_what_waits_at_the_ends_of_the_last_seconds_by_the_plan() -> None:
    flow = [Flow(100, 100, 100), Flow(100, 50, 40), Flow(100, 50, 40), Flow(100, 50, 40)]
    assert behind_s(flow) == pytest.approx(((100 + 150) / 2 / 100, (20 + 30) / 2 / 100))
    assert behind_s([]) == (0.0, 0.0)
    assert behind_s([Flow(100, 110, 110)]) == (0.0, 0.0)


def test_nobody_waits_for_what_has_failed() -> None:
    flow = [Flow(100, 100, 40, 60)] * 4
    assert behind_s(flow) == (0.0, 0.0)
    assert behind_s([Flow(100, 100, 40, 20)] * 2) == pytest.approx((0.0, 80 / 100))


def test_what_failed_is_apart_from_what_was_answered() -> None:
    sent = sent_of(Outcome(elapsed_s=10.0))
    for _ in range(10):
        sent.add(Second(planned=100, sent=100, acknowledged=40, failed=60))
    sent.end(Outcome(elapsed_s=20.0), start_utc_ns=START_UTC_NS)
    found = summary_of(sent, readings(stopped=False), links_bits_per_s={})
    assert (found.planned_per_s, found.answered_per_s, found.failed_per_s) == pytest.approx((100, 40, 30))
    assert found.whole is None


def test_of_less_than_a_second_there_are_no_rates() -> None:
    sent = Sent(Scenario(rate_per_s=100.0, messages=40), target="there")
    sent.add(Second(planned=40, sent=40, acknowledged=37, failed=3))
    sent.end(Outcome(elapsed_s=0.4), start_utc_ns=START_UTC_NS)
    assert summary_of(sent, readings(stopped=False), links_bits_per_s={}).whole == Counts(40, 37, 3)


def test_a_run_in_few_numbers() -> None:
    outcome = Outcome(elapsed_s=10.0, no_room_s=2.0, making_s=5.0, throttled_s=1.0)
    links_bits_per_s = {"eth0": 1_000_000_000, "lo": 1}
    found = summary_of(sent_of(outcome, processes=2), readings(stopped=False), links_bits_per_s=links_bits_per_s)
    assert (found.no_room_share, found.making_share, found.throttled_share) == pytest.approx((0.1, 0.25, 0.05))
    assert (found.planned_per_s, found.answered_per_s, found.answer_ms) == pytest.approx((100, 40, 20))
    assert found.in_broker_ms == pytest.approx(10)
    assert found.sync_share == pytest.approx(0.7)
    assert (found.link, found.link_share) == ("eth0", pytest.approx(0.1))
    assert (found.disk, found.disk_busy_share) == ("vda", pytest.approx(0.25))
    assert (found.underway_share, found.unread_share) == pytest.approx((0.75, 0.25))
    assert found.cores == Cores(busy=pytest.approx(0.25), others=pytest.approx(0.15), stolen=0.0)
    assert found.client == Side(thread="rdk:broker1", ran=pytest.approx(0.8), waited=pytest.approx(0.1))
    assert found.broker == Side(thread="loop", ran=pytest.approx(0.05), on_disk=pytest.approx(0.5))


def test_a_process_that_is_stopped_wants_all_of_its_time() -> None:
    found = side_of(readings(stopped=True), "broker")
    assert found is not None
    assert found.thread == "loop"
    assert (found.stopped, found.demand) == pytest.approx((1.0, 1.0))


def test_a_broker_elsewhere_is_seen_by_what_it_says() -> None:
    unseen = readings(stopped=False, with_processes=False)
    found = summary_of(sent_of(Outcome(elapsed_s=10.0)), unseen, links_bits_per_s={})
    assert found.client is None
    assert found.broker == Side(ran=pytest.approx(0.3))
    assert (found.link, found.link_share) == ("", None)


def test_only_readings_of_the_time_of_sending_count() -> None:
    outcome = Outcome(elapsed_s=5.0)
    during, after = readings(stopped=False)[:5], readings(stopped=True)[5:]
    found = summarise(sent_of(outcome), during + after)
    assert found.broker is not None
    assert found.broker.stopped == 0.0
    assert summarise(sent_of(outcome), after).broker is not None  # Better than nothing.
    assert summarise(sent_of(outcome), []).broker is None
