"""What passes the gate, and what does not and why."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.gate import Disturbance, Losses, Thresholds, cell_gate, repeat_gate
from headrace.lab.results import PASSED, RepeatLine

CALM = Disturbance(steal_share=0.0, stall_share=0.019, others_share=0.01)
METRICS = {
    "rate_per_s": 1000.0,
    "lateness_p99_ms": 1.0,
    "planned_latency_p50_ms": 5.0,
    "planned_latency_p99_ms": 20.0,
    "send_latency_p99_ms": 9.0,
}


def test_a_calm_machine_and_a_sender_in_time_let_everything_pass() -> None:
    assert set(repeat_gate(METRICS | {"lateness_p99_ms": 0.9}, CALM).values()) == {PASSED}


def test_a_late_sender_spoils_the_latencies_that_are_not_much_longer() -> None:
    gate = repeat_gate(METRICS, CALM)
    assert gate["rate_per_s"] == gate["planned_latency_p50_ms"] == gate["planned_latency_p99_ms"] == PASSED
    assert gate["send_latency_p99_ms"] == (
        "the sender itself was late by 1 ms at p99, more than 10% of the 9 ms measured"
    )
    spoilt = repeat_gate(METRICS, CALM, Thresholds(lateness=0.04))
    assert "more than 4%" in spoilt["planned_latency_p50_ms"]


@pytest.mark.parametrize(
    ("disturbance", "why"),
    [
        (Disturbance(steal_share=0.03), "the host took 3.0% of the CPU (at most 2%)"),
        (Disturbance(stall_share=0.5), "a busy thread was held off 50.0% of the time (at most 2%)"),
        (
            Disturbance(others_share=0.49, busiest="yes (process 17)"),
            "other processes took 49.0% of the CPU, most of it yes (process 17) (at most 2%)",
        ),
    ],
)
def test_a_disturbed_machine_spoils_everything(disturbance: Disturbance, why: str) -> None:
    assert set(repeat_gate(METRICS, disturbance).values()) == {why}


def missing(**losses: int) -> dict[str, str]:
    """What is said of latencies, of a thousand messages; nothing of those that passed."""
    metrics = {"rate_per_s": 1.0, "planned_latency_p99_ms": 20.0, "send_latency_p50_ms": 9.0, "end_to_end_p99_ms": 30.0}
    gate = repeat_gate(metrics, CALM, losses=Losses(planned=1000, **losses))
    return {name: why for name, why in gate.items() if why != PASSED}


def test_latencies_of_those_that_came_through_say_nothing_of_many_that_did_not() -> None:
    why = "33.3% of 1,000 messages have no latency: 300 failed, 33 were not answered (at most 1%)"
    assert missing(failed=300, unanswered=33) == dict.fromkeys(
        ("planned_latency_p99_ms", "send_latency_p50_ms", "end_to_end_p99_ms"), why
    )
    assert missing(failed=10) == {}
    assert missing(failed=5, unanswered=6).keys() == missing(failed=11).keys()


def test_a_disturbed_machine_takes_no_message_away() -> None:
    gate = repeat_gate(METRICS, Disturbance(steal_share=0.03), losses=Losses(planned=10, failed=4))
    assert gate["rate_per_s"] == "the host took 3.0% of the CPU (at most 2%)"
    assert (
        gate["send_latency_p99_ms"]
        == f"{gate['rate_per_s']}; 40.0% of 10 messages have no latency: 4 failed (at most 1%)"
    )


def test_what_was_never_sent_has_no_latency_from_the_plan_and_misses_none_from_sending() -> None:
    assert missing(unsent=200) == dict.fromkeys(
        ("planned_latency_p99_ms", "end_to_end_p99_ms"),
        "20.0% of 1,000 messages have no latency: 200 were never sent (at most 1%)",
    )
    assert missing(unsent=991, failed=1)["send_latency_p50_ms"].startswith("11.1% of 9 messages")


def test_what_no_group_consumed_has_no_latency_to_the_end() -> None:
    assert missing(unconsumed=20) == {
        "end_to_end_p99_ms": "2.0% of 1,000 messages have no latency: 20 were not consumed (at most 1%)"
    }


def test_how_much_may_be_missing_is_a_threshold() -> None:
    limits = Thresholds.from_json({"missing": 0.5})
    assert repeat_gate(METRICS, CALM, limits, losses=Losses(planned=10, failed=4))["planned_latency_p50_ms"] == PASSED
    assert "100.0% of 0 messages" in repeat_gate(METRICS, CALM, losses=Losses(failed=4))["planned_latency_p50_ms"]


def repeats(*rates: float, gate: str = PASSED, partial: str | None = None) -> list[RepeatLine]:
    return [
        RepeatLine(cell={}, repeat=number, metrics={"rate_per_s": rate}, gate={"rate_per_s": gate}, partial=partial)
        for number, rate in enumerate(rates)
    ]


def test_a_throughput_has_to_be_about_the_same_in_all_repeats() -> None:
    assert cell_gate(repeats(1000, 1001, 999)) == {"rate_per_s": PASSED}
    assert cell_gate(repeats(1000, 1100, 900))["rate_per_s"].startswith("its 95% interval over 3 repeats is ±24.8%")
    assert cell_gate(repeats(1000, 1100, 900), Thresholds(interval=0.25)) == {"rate_per_s": PASSED}


def test_one_repeat_is_too_few_and_a_partial_one_is_none() -> None:
    assert cell_gate(repeats(1000)) == {"rate_per_s": "one repeat alone does not tell how sure it is"}
    assert cell_gate([*repeats(1000), *repeats(1000, partial="killed")])["rate_per_s"].startswith("one repeat")
    assert cell_gate(repeats(1000, 1000, partial="killed")) == {}


def test_what_did_not_pass_in_a_repeat_does_not_pass_in_all() -> None:
    mixed = [*repeats(1000, 1000), *repeats(1000, gate="late")]
    assert cell_gate(mixed) == {"rate_per_s": "in 1 of 3 repeats: late"}


def test_a_gate_that_lets_nothing_pass_is_a_mistake() -> None:
    with pytest.raises(ConfigError, match="interval of 0"):
        Thresholds(interval=0)
