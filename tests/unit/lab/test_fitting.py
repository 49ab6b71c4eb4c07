"""What a target cannot do is told before it is started."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.errors import LabError
from headrace.lab.fitting import check_load, check_room, lack_of, written_bytes
from headrace.lab.gate import Thresholds
from headrace.lab.load import Load
from headrace.lab.presets import find_preset, workloads_of
from headrace.lab.programs import PROGRAMS, Program
from headrace.lab.repeat import run_repeat
from headrace.lab.targets.running import Target, check_remote
from headrace.lab.targets.spec import TargetSpec, find_target
from headrace.lab.workload import parse_load, parse_workload


def load(**given: Any) -> Load:
    return parse_load({"rate": "10K", "duration": "10s", "warm_up": "0s", **given})


@pytest.mark.parametrize(
    ("target", "given", "why"),
    [
        ("node", {"replication": 2}, "replication: 2 replicas need as many brokers, and node has 1"),
        ("kafka-3", {"replication": 4}, "and kafka-3 has 3"),
        ("node", {"broker": "broker1"}, "there is no broker 'broker1'; there are node"),
        ("kafka-3", {"broker": "broker4"}, "there are broker1, broker2, broker3"),
        ("kafka-3", {"faults": "kill@1s"}, "which broker? There are broker1, broker2, broker3"),
        ("kafka-3", {"faults": ["kill:brocker1@1s"]}, "there is no broker 'brocker1'"),
        ("h:1", {"faults": "kill@1s"}, "h:1 is no broker that is started here"),
        ("null", {"faults": "kill@1s"}, "null is no broker that is started here"),
        ("null", {"groups": 1}, "a null sink keeps nothing"),
        ("node", {"sender": "remote", "faults": "cut@1s+1s"}, "no part of a remote sender's link"),
        ("h:1", {"record": True}, "record: clients of h:1 go where its brokers tell them to"),
        ("null", {"record": True}, "record: clients of null go where"),
        ("node", {"record": True, "sender": "remote"}, "record: what counts requests is no part of a remote"),
        (
            "node",
            {"sender": "local+remote", "processes": 2, "faults": "cut@1s+1s"},
            "no part of a remote sender's link",
        ),
    ],
)
def test_what_does_not_fit(target: str, given: dict[str, Any], why: str) -> None:
    with pytest.raises(LabError, match=f".*{why.replace('?', chr(92) + '?')}"):
        check_load(load(**given), find_target(target))


@pytest.mark.parametrize(
    ("target", "given"),
    [
        ("kafka-3", {"replication": 3, "broker": "broker2", "faults": "pause:3@1s"}),
        ("node", {"faults": "kill@1s", "broker": "node", "groups": 2}),
        ("kafka", {"record": True, "faults": "cut@1s+1s"}),
        ("h:1", {"replication": 3, "broker": "17"}),
        ("null", {}),
    ],
)
def test_what_fits(target: str, given: dict[str, Any]) -> None:
    check_load(load(**given), find_target(target))


def told(*addresses: str) -> Callable[[TargetSpec], None]:
    """Brokers say that they are there."""
    return partial(check_remote, advertised=lambda spec: addresses)


def test_a_cluster_on_this_host_has_no_remote_senders() -> None:
    away = find_target("192.0.2.1:9092")
    assert lack_of(load(sender="remote"), away, check=told("192.0.2.1:9092")) is None
    assert "127.0.0.1:9093 is on this host" in (
        lack_of(load(sender="remote"), away, check=told("192.0.2.1:9092", "127.0.0.1:9093")) or ""
    )
    assert "127.0.0.1:9092 is on this host" in (lack_of(load(sender="remote"), find_target("127.0.0.1:9092")) or "")
    assert lack_of(load(), find_target("127.0.0.1:9092")) is None


def test_there_is_no_sender_beside_a_broker_elsewhere() -> None:
    mixed = load(sender="local+remote", processes=2)
    away = find_target("192.0.2.1:9092")
    assert "no sender can be started from here" in (lack_of(mixed, away, check=told("192.0.2.1:9092")) or "")
    assert "127.0.0.1:9092 is on this host" in (lack_of(mixed, find_target("127.0.0.1:9092")) or "")


def test_where_no_link_can_be_made_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert lack_of(load(sender="remote"), find_target("node"))
    assert lack_of(load(sender="local+remote", processes=2), find_target("node"))
    assert lack_of(load(), find_target("node")) is None


def test_a_search_goes_by_time_and_has_a_rate_of_its_own() -> None:
    for given, why in (
        ({"messages": 5}, "messages"),
        ({"schedule": "replay", "payload": "weblog"}, "schedule"),
        ({"record": True}, "record"),
    ):
        with pytest.raises(LabError, match=f"^{why}:"):
            check_load(load(**given), find_target("node"), is_search=True)


def test_a_repeat_that_would_fill_the_disk_is_refused() -> None:
    given: dict[str, Any] = {"payload": "random", "size": "1000"}  # 10,000/s x 10 s x 1,000 B are 100 MB.
    check_room(load(**given), find_target("node"), free_bytes=120_000_000)
    with pytest.raises(LabError, match=r"some 0\.1 GiB .* or set topic_config: \{retention\.bytes: \.\.\.\}"):
        check_room(load(**given), find_target("node"), free_bytes=100_000_000)
    with pytest.raises(LabError):
        check_room(load(**given, replication=3), find_target("kafka-3"), free_bytes=120_000_000)
    for target, more in (("null", {}), ("h:1", {}), ("node", {"topic_config": {"retention.bytes": 1}})):
        check_room(load(**given, **more), find_target(target), free_bytes=0)


def test_a_number_of_messages_that_would_fill_the_disk_is_refused_at_full_speed_too() -> None:
    (large,) = (
        cell
        for workload in workloads_of(find_preset("s4-fig9"), scale="full", changes={})
        for cell in workload.cells
        if cell.values["size"] == 10_000
    )
    check_room(large.load, find_target("kafka-3"), free_bytes=25_000_000_000)
    with pytest.raises(LabError, match=r"some 18\.6 GiB"):
        check_room(large.load, find_target("kafka-3"), free_bytes=20_000_000_000)


def test_what_will_be_written_is_known_of_a_rate_and_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "fake", Program(send=lambda job: pytest.fail("nobody is to send")))
    assert written_bytes(load(payload="random", size="1000")) == pytest.approx(100_000_000)
    assert written_bytes(load(engine="fake", rate="max", messages=50, size="1000")) == 50_000
    assert written_bytes(load(rate="max")) is None
    counted: dict[str, Any] = {"payload": "random", "size": "1000", "messages": 50}
    for more in ({"rate": "max"}, {"rate": "max", "duration": None}, {}, {"duration": None}, {"warm_up": "3s"}):
        assert written_bytes(load(**counted, **more)) == 50_000
    # What ends first counts; and a program that has a rate goes by that alone.
    assert written_bytes(load(**{**counted, "messages": 10_000_000})) == pytest.approx(100_000_000)


def test_where_nothing_is_read_nothing_can_be_recorded() -> None:
    """As in a race, or on a target without proxies."""
    [cell] = parse_workload({"rate": "10K", "record": True}, name="w").cells
    target = Target(spec=find_target("node"), settings={}, members=[])
    for readings in (None, Path("readings")):
        with pytest.raises(LabError, match=r"^record: nothing is read here"):
            run_repeat(cell, 0, target, topic="t", tell=lambda line: None, thresholds=Thresholds(), readings=readings)


def test_a_share_of_another_rate_is_for_a_race() -> None:
    with pytest.raises(LabError, match=r"^rate: 50% of bulk is known in a race alone"):
        check_load(load(rate="50% of bulk"), find_target("node"))


def test_a_program_needs_a_broker_and_no_disturbance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROGRAMS, "fake", Program(send=lambda job: pytest.fail("nobody is to send")))
    given: dict[str, Any] = {"engine": "fake", "rate": "max", "messages": 5}
    check_load(load(**given), find_target("node"))
    for target, more in (("null", {}), ("node", {"faults": "kill@1s"}), ("node", {"sender": "remote"})):
        with pytest.raises(LabError, match=r"^engine:"):
            check_load(load(**given, **more), find_target(target))
    with pytest.raises(LabError, match=r"^restart:"):
        check_load(load(restart=True), find_target("h:1"))
