"""The lab put to the test: rates that its senders have to hold, a limit to find, a neighbour to notice.

In a round it is counted what either engine sends to a sink that keeps nothing, each rate is sent by either engine to a
node in a process of its own on the same machine, a sink that takes 37,000 messages a second is searched for what it
takes, and a rate is measured beside a busy loop. Every message that was sent is accounted for. A rate is held if an
engine sends all of it: the other may need more of the machine than the node leaves it, and its figures say so. What
falls short while somebody else had the machine, by the lab's own gate, is measured again, and that is counted. So is
what the search tries: its trials are long enough to be steady or not, and the gate is the usual one. A share of the
proof sends a tenth of the highest and does not search: only the whole says what a calm machine holds.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from headrace.lab.results import RepeatLine
from headrace.lab.running import run_workload
from headrace.lab.search import Trial
from headrace.lab.targets.spec import TargetSpec, find_target, parse_target
from headrace.lab.workload import parse_workload
from tests.interop.plants import busy_neighbour
from tests.proofs.proof import Facts, Slice, merge_facts

RATES_PER_S: Final = (100_000, 250_000, 420_000)
PROCESSES: Final = {"librdkafka": 2, "columnar": 2}
HELD_MIN: Final = 0.99
ATTEMPTS_MAX: Final = 5
CALM_DOWN_S: Final = 20
LIMIT_PER_S: Final = 37_000
LIMIT_ERROR_MAX: Final = 0.03
_PASSED: Final = "passed"


def run(work: Slice) -> Facts:
    facts: Facts = {}
    node, null, limited = (
        find_target("node"),
        find_target("null"),
        parse_target({"kind": "null", "limit": LIMIT_PER_S}, name="limited"),
    )
    for unit in work.each():
        out = work.scratch / str(unit)
        facts = merge_facts(facts, find_ceilings(null, out, is_full=work.is_full))
        for found in hold_rates(node, out, is_full=work.is_full):
            facts = merge_facts(facts, found)
        if work.is_full:
            facts = merge_facts(facts, find_limit(limited, out))
        facts = merge_facts(facts, notice_neighbour(node, out))
    return facts


def find_ceilings(null: TargetSpec, out: Path, *, is_full: bool) -> Facts:
    """Of each engine by itself, with one process and with two. How high they are is the machine's; that there is one is
    ours."""
    seconds, warm_up = ("5s", "2s") if is_full else ("1s", "1s")
    facts: Facts = {}
    for engine, processes in itertools.product(PROCESSES, (1, 2)):
        name = f"ceiling_{engine}_{processes}"
        line = measure(
            null, out / name, rate="max", duration=seconds, warm_up=warm_up, engine=engine, processes=processes
        )
        assert line.metrics["rate_per_s"] > 0
        facts[f"{name}_per_s_min"] = round(line.metrics["rate_per_s"])
    return facts


def hold_rates(node: TargetSpec, out: Path, *, is_full: bool) -> Iterator[Facts]:
    rates_per_s = RATES_PER_S if is_full else RATES_PER_S[-1:]
    share, seconds, warm_up = (1, "10s", "2s") if is_full else (0.1, "2s", "1s")
    passed = 0
    for full_per_s in rates_per_s:
        rate_per_s = share * full_per_s
        held: dict[str, float] = {}
        for engine, processes in PROCESSES.items():
            name = f"{full_per_s // 1000}K_{engine}"
            attempts = hold_rate(
                node,
                out / name,
                rate_per_s,
                attempts_max=ATTEMPTS_MAX if is_full else 1,
                duration=seconds,
                warm_up=warm_up,
                engine=engine,
                processes=processes,
            )
            line = attempts[-1]
            held[engine] = line.metrics["rate_per_s"] / rate_per_s
            passed += line.gate["rate_per_s"] == _PASSED
            yield {
                f"held_percent_{name}_min": round(100 * held[engine], 2),
                f"lateness_p99_ms_{name}_max": round(line.metrics["lateness_p99_ms"], 1),
                "measured_again": len(attempts) - 1,
            }
        assert max(held.values()) >= HELD_MIN or not is_full, f"of {rate_per_s} messages a second there were {held}"
    assert passed or not is_full, "nothing has passed the gate: is the machine calm?"
    yield {"gate_judged": len(rates_per_s) * len(PROCESSES), "gate_passed": passed}


def hold_rate(
    node: TargetSpec, out: Path, rate_per_s: float, *, attempts_max: int, **settings: Any
) -> list[RepeatLine]:
    """All attempts. The last one counts: it held the rate, or nobody else had the machine, or there were enough."""
    attempts: list[RepeatLine] = []
    while True:
        line = measure(node, out / str(len(attempts)), rate=rate_per_s, **settings)
        attempts.append(line)
        is_held = line.metrics["rate_per_s"] >= HELD_MIN * rate_per_s
        if is_held or line.gate["rate_per_s"] == _PASSED or len(attempts) == attempts_max:
            return attempts
        time.sleep(CALM_DOWN_S)


def find_limit(limited: TargetSpec, out: Path) -> Facts:
    """On a machine that is calm now and then; one that never is leaves the proof without an answer, and is told."""
    trials: list[Trial] = []
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            time.sleep(CALM_DOWN_S)
        line = measure(
            limited, out / f"limit-{attempt}", rate=40_000, duration="20s", warm_up="5s", tell_trial=trials.append
        )
        if line.gate["max_rate_per_s"] == _PASSED:
            break
    else:
        raise AssertionError(f"the search was given up {ATTEMPTS_MAX} times: {line.gate['max_rate_per_s']}")
    error = abs(line.metrics["max_rate_per_s"] / LIMIT_PER_S - 1)
    assert error <= LIMIT_ERROR_MAX, f"{line.metrics['max_rate_per_s']} instead of {LIMIT_PER_S}"
    return {
        "limit_missed_percent_max": round(100 * error, 2),
        "limit_trials": len(trials),
        "limit_trials_disturbed": sum(trial.is_disturbed for trial in trials),
    }


def notice_neighbour(node: TargetSpec, out: Path) -> Facts:
    with busy_neighbour():
        line = measure(node, out / "neighbour", rate=2000, duration="3s", warm_up="1s")
    assert _PASSED not in line.gate.values(), line.gate
    assert "other processes took" in line.gate["rate_per_s"]
    return {"neighbours_noticed": 1}


def measure(
    target: TargetSpec, out: Path, *, tell_trial: Callable[[Trial], None] | None = None, **settings: Any
) -> RepeatLine:
    """One repeat, in which every message that was sent was acknowledged; or a search, if trials are to be told."""
    workload = parse_workload({"repeats": 1, "payload": "sensor", **settings}, name=out.name)
    is_search = tell_trial is not None
    results = run_workload(
        workload, target, out=out, is_search=is_search, tell_trial=tell_trial or (lambda trial: None)
    )
    (line,) = results.repeats
    assert line.partial is None, line.partial
    if not is_search:
        sent, acknowledged, failed = (
            sum(getattr(second, name) for second in results.seconds) for name in ("sent", "acknowledged", "failed")
        )
        assert (acknowledged, failed) == (sent, 0), f"of {sent} {acknowledged} were acknowledged, {failed} failed"
    return line
