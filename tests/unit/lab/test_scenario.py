"""A scenario is checked when it is made, is the same run from any number of processes, and goes through JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headrace.errors import ConfigError
from headrace.lab.engines import Terms
from headrace.lab.scenario import PROFILES, Payload, Scenario
from headrace.lab.schedule import SECOND_NS, Plan, Unpaced

FAR_NS = 10**15


def scenario(**changes: Any) -> Scenario:
    return Scenario(**{"rate_per_s": 100.0, "duration_s": 2.0, **changes})


def planned(made: Scenario, index: int = 0) -> list[int]:
    plan, _ = made.plan(index)
    found: list[int] = []
    while plan.next_ns is not None:
        due = plan.due(FAR_NS, limit=100_000)
        found += due.tolist()
        plan.take(len(due))
    return found


def test_json_there_and_back() -> None:
    made = scenario(
        schedule="bursts",
        payload=Payload(generator="random", size="10-20", compressible=0.5),
        terms=Terms(acks="1", batch_messages=50),
    )
    assert Scenario.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"engine": "warp"}, "engine 'warp' is none of librdkafka, columnar"),
        ({"schedule": "sometimes"}, "schedule 'sometimes' is none of"),
        ({"rate_per_s": None}, "a constant schedule needs a rate"),
        ({"rate_per_s": -3.0}, "sends nothing"),
        ({"schedule": "unpaced"}, "has no rate"),
        ({"duration_s": None}, "needs an end"),
        ({"duration_s": 0.0}, "ends at once"),
        ({"messages": 0}, "ends at once"),
        ({"processes": 0}, "0 sender processes"),
        ({"speed": 0.0}, "more than nothing"),
        ({"schedule": "replay", "payload": {"in_ram": False}}, "a log that ends"),
        ({"payload": {"generator": "poems"}}, "payload 'poems' is none of"),
        ({"payload": {"compressible": 2.0}}, "share from 0 to 1"),
        ({"payload": {"size": "huge"}}, "size 'huge'"),
        ({"terms": {"acks": "2"}}, "acks '2' is none of 0, 1, all"),
        ({"terms": {"compression": "rar"}}, "compression 'rar'"),
        ({"terms": {"batch_bytes": 10}}, "a batch of 10 bytes"),
        ({"terms": {"batch_messages": 0}}, "a batch of 0 messages"),
        ({"terms": {"buffer_bytes": 10}}, "a buffer of 10 bytes"),
        ({"terms": {"linger_ms": -1.0}}, "in the past"),
    ],
)
def test_what_cannot_be_is_told(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Scenario.from_json(
            {"rate_per_s": 100.0, "duration_s": 2.0, **changes}
            | {"payload": changes.get("payload", {}), "terms": changes.get("terms", {})}
        )


@pytest.mark.parametrize("schedule", ["constant", "poisson", "bursts"])
def test_processes_share_one_plan(schedule: str) -> None:
    whole = planned(scenario(schedule=schedule, rate_per_s=5_000.0))
    shared = scenario(schedule=schedule, rate_per_s=5_000.0, processes=3)
    assert sorted(moment for index in range(3) for moment in planned(shared, index)) == whole
    assert max(whole) < 2 * SECOND_NS


def test_a_number_of_messages_ends_it_for_all_processes_together() -> None:
    shared = scenario(messages=11, processes=2)
    assert [len(planned(shared, index)) for index in range(2)] == [6, 5]


def test_unpaced_there_is_nothing_to_count_by() -> None:
    plan, count = scenario(schedule="unpaced", rate_per_s=None, messages=11, processes=2).plan(1)
    assert isinstance(plan, Unpaced)
    assert count is None
    assert len(plan.due(0, limit=100)) == 5


def test_a_web_log_is_replayed_by_its_own_times() -> None:
    made = scenario(schedule="replay", rate_per_s=None, payload=Payload(generator="weblog"), duration_s=30.0)
    plan, count = made.plan(0)
    assert isinstance(plan, Plan)
    assert count is not None
    # It was made for 40 lines a second, each second between half and half as many again.
    assert 30 * 30 < count.before(30 * SECOND_NS) < 30 * 50


def test_a_file_is_sent_line_by_line_in_ram_or_not(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"one\ntwo\nthree\n")
    for in_ram in (True, False):
        made = scenario(payload=Payload(file=str(path), in_ram=in_ram), processes=2)
        assert made.payloads(1).take(4) == [b"two", b"one", b"three", b"two"]


@pytest.mark.parametrize("generator", ["sensor", "weblog", "random"])
def test_generators_are_seeded(generator: str) -> None:
    payload = Payload(generator=generator, in_ram=False)
    one, again, other = (scenario(payload=payload, seed=seed).payloads(0).take(50) for seed in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize(
    ("given", "different"),
    [
        ({"messages": 30}, 30),
        ({"rate_per_s": 20.0, "duration_s": 2.0}, 40),
        ({"rate_per_s": 1e6, "duration_s": 60.0}, 64),
        ({"schedule": "unpaced", "rate_per_s": None}, 64),
    ],
)
def test_what_is_generated_goes_to_a_file_of_what_is_needed_and_no_more_than_so_much(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], different: int
) -> None:
    monkeypatch.setattr("headrace.lab.scenario.DISK_MESSAGES", 64)
    taken = scenario(payload=Payload(in_ram=False), **given).payloads(0).take(different + 3)
    assert len(set(taken)) == different
    assert taken[different:] == taken[:3]


def test_the_defaults_of_s0() -> None:
    terms = Terms(**PROFILES["s0"])
    assert (terms.acks, terms.batch_bytes, terms.buffer_bytes, terms.linger_ms) == ("0", 16_384, 32 << 20, 0)
    assert terms.with_changes({"acks": "1", "batch_bytes": None}) == Terms(**{**PROFILES["s0"], "acks": "1"})
    assert Payload().in_ram


def test_what_was_planned_is_counted_by_the_same_plan() -> None:
    made = scenario(schedule="poisson", processes=2)
    _, count = made.plan(1)
    assert count is not None
    assert count.before(FAR_NS) == len(planned(made, 1)) == np.size(planned(made, 1))


def test_senders_that_start_later_join_in_the_plan() -> None:
    whole = scenario(processes=2)
    staggered = scenario(processes=2, stagger_s=0.5)
    assert planned(staggered, 0) == planned(whole, 0)
    assert planned(staggered, 1) == [moment for moment in planned(whole, 1) if moment >= 0.5 * SECOND_NS]
    assert 0 < len(planned(staggered, 1)) < len(planned(whole, 1))
    plan, _ = scenario(processes=2, stagger_s=0.5, schedule="unpaced", rate_per_s=None).plan(1)
    assert plan.next_ns == 0.5 * SECOND_NS


def test_a_sender_that_would_start_after_the_end_is_told() -> None:
    with pytest.raises(ConfigError, match="the last of 3 processes would start after the end"):
        scenario(processes=3, stagger_s=1.0)
