"""A race of two nodes, with a program that sends a little: what is in its results, going on with it, and a failure."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headrace.lab import racing
from headrace.lab.errors import LabError
from headrace.lab.programs import PROGRAMS, Job, Outcome, Program, Wait
from headrace.lab.race import Race, Turn
from headrace.lab.racing import run_race
from headrace.lab.results import Results
from headrace.lab.targets.spec import parse_target
from headrace.lab.topics import wait_kept
from headrace.lab.workload import Workload, parse_workload

SENT: list[Job] = []
# The bystanders' group forms at once.
NODE = {"kind": "node", "properties": {"group.initial.rebalance.delay.ms": 0}}


def send(job: Job) -> Outcome:
    SENT.append(job)
    producer = Producer({"bootstrap.servers": job.bootstrap, "acks": job.terms.acks})
    for _ in range(job.messages):
        producer.produce(job.topic, bytes(job.size_bytes))
    assert producer.flush(30) == 0
    now_ns = time.monotonic_ns()
    course_ns = (now_ns - 2_000_000_000, now_ns - 1_000_000_000, now_ns)
    return Outcome(messages=job.messages, size_bytes=job.messages * job.size_bytes, seconds=2.0, course_ns=course_ns)


@contextmanager
def consuming(job: Job) -> Iterator[Wait]:
    def wait() -> Outcome:
        wait_kept({"bootstrap.servers": job.bootstrap}, job.topic, messages=job.messages)
        size_bytes = job.readers * job.messages * job.size_bytes
        return Outcome(messages=job.readers * job.messages, size_bytes=size_bytes, seconds=3.0, waited_s=1.0)

    yield wait


def exchange(job: Job) -> Outcome:
    sent = send(job)
    return replace(sent, metrics={"end_to_end_p99_ms": 1.0, "lateness_p99_ms": 0.5})


def fail(job: Job) -> Outcome:
    raise LabError("a message was lost")


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    SENT.clear()
    monkeypatch.setattr(racing, "MEMORY_MARGIN_BYTES", 0)  # To have it ready takes a while.
    monkeypatch.setitem(PROGRAMS, "fake", Program(send=send, consuming=consuming, exchange=exchange))
    monkeypatch.setitem(PROGRAMS, "broken", Program(send=fail))


def workload(name: str, **given: Any) -> Workload:
    # A busy machine is no reason to measure anything again here.
    return parse_workload({"engine": "fake", "repeats": 1, "gate": {"disturbance": 100}, **given}, name=name)


def race_of(*workloads: Workload, targets: tuple[str, ...] = ("one", "other")) -> Race:
    return Race(
        name="small",
        targets=[parse_target(NODE, name=name) for name in targets],
        warm_up=[workload("warm-up", rate="max", messages=10)],
        workloads=workloads,
        smoke=(),
        given={},
    )


def run(race: Race, out: Path, failures: list[str] | None = None) -> dict[str, Results]:
    def tell_failure(turn: Turn, why: str) -> None:
        assert failures is not None, why
        failures.append(f"{turn}: {why}")

    return run_race(race, out=out, node_version="1", host={"java": "none"}, tell_failure=tell_failure)


def test_each_target_has_results_of_every_row(tmp_path: Path) -> None:
    results = run(
        race_of(
            workload("start", engine="none", cold=True),
            workload(
                "bulk", rate="max", messages=1000, groups=2, consume="after", consumer_engine="fake", restart=True
            ),
            workload("fan-out", rate="max", messages=100, groups=3, consumer_engine="fake"),
        ),
        tmp_path,
    )
    assert list(results) == ["one", "other"]
    for found in results.values():
        assert found.partial is None
        start, bulk, fan_out = found.repeats
        assert 0 < start.metrics["start_s"] < 20
        assert 10 < start.metrics["idle_memory_mb"] < 200
        assert bulk.cell == {"workload": "bulk"}
        assert (bulk.metrics["rate_per_s"], bulk.metrics["consumed_per_s"]) == (500.0, pytest.approx(2000 / 3, abs=1))
        assert bulk.metrics["sending_cpu_s_per_gb"] >= 0
        assert {"sending_cpu_second_half_ratio", "sending_memory_mb_growth"} & bulk.metrics.keys()
        assert 0 < bulk.metrics["restart_s"] < 20
        assert fan_out.metrics["rate_per_s"] == 50.0  # From when the first message came.
    # Both were warmed up, but not for the start.
    assert [job.messages for job in SENT] == [10, 1000, 10, 1000, 10, 100, 10, 100]


def test_a_share_is_of_what_the_rival_reached(tmp_path: Path) -> None:
    both = {"groups": 1, "consumer_engine": "fake"}
    results = run(
        race_of(
            workload("fast", rate="max", messages=200, **both),
            workload("half", rate="50% of fast", duration="1s", warm_up="1s", **both),
        ),
        tmp_path,
    )
    assert [job.rate_per_s for job in SENT if job.rate_per_s is not None] == [50.0, 50.0]
    half = results["one"].repeats[-1]
    assert half.gate["rate_per_s"] == "passed"
    assert "late" in half.gate["end_to_end_p99_ms"]


def test_a_race_goes_on_from_what_there_is(tmp_path: Path) -> None:
    once = race_of(workload("bulk", rate="max", messages=100, repeats=1), targets=("one",))
    run(once, tmp_path)
    before = len(SENT)
    assert len(run(once, tmp_path)["one"].repeats) == 1
    assert len(SENT) == before
    assert len(run(once.repeated(repeats=2, attempts=None), tmp_path)["one"].repeats) == 2
    assert len(SENT) == before + 2  # One more repeat, and its warm-up.
    with pytest.raises(LabError, match="results of another workload"):
        run(once.scaled(0.5), tmp_path)


def test_a_turn_that_fails_costs_its_figures_and_no_more(tmp_path: Path) -> None:
    broken = workload("broken", rate="max", cases={"well": {"messages": 5}, "ill": {"messages": 5, "engine": "broken"}})
    race = race_of(broken, workload("bulk", rate="max", messages=100), targets=("one",))
    failures: list[str] = []
    results = run(race, tmp_path, failures)["one"]
    assert failures == ["broken on one, repeat 1: a message was lost"]
    assert [line.partial for line in results.repeats] == ["a message was lost", "a message was lost", None]
    assert results.values({"workload": "broken", "case": "well"}, "rate_per_s") == []
    run(race, tmp_path, failures)
    assert len(failures) == 2  # It is tried again.
