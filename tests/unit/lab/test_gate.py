"""What passes the gate, and what does not and why."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.gate import Disturbance, Thresholds, cell_gate, repeat_gate
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
