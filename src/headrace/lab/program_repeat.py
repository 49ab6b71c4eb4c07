"""One repeat by programs: all that is to be sent, then all that is to be consumed, and what each cost the broker.

What happened within is the programs' to tell, and what it cost is read from outside. Linux only.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from headrace.lab.errors import LabError
from headrace.lab.gate import Thresholds, repeat_gate
from headrace.lab.load import NOBODY, Load
from headrace.lab.programs import PROGRAMS, Job, Outcome
from headrace.lab.readings import process_tree
from headrace.lab.readings.company import Company, CpuUse
from headrace.lab.results import RepeatLine
from headrace.lab.targets.running import Target
from headrace.lab.workload import Cell

_IDLE_S: Final = 1.0
_MIB: Final = 2**20
_MB: Final = 1e6
_GB: Final = 1e9


def run_programs(cell: Cell, repeat: int, target: Target, *, topic: str, thresholds: Thresholds) -> RepeatLine:
    """On a topic that is there."""
    load, phases = cell.load, []
    if load.engine == NOBODY:
        phases.append(_idle(target))
    else:
        job = job_of(load, target, topic)
        phases.append(_sending(load, job, target))
        if load.groups and load.consume == "after":
            phases.append(_consuming(load, job, target))
    found: dict[str, float] = {}
    gate: dict[str, str] = {}
    disturbance = 0.0
    for metrics, use in phases:
        meanwhile = use.disturbance(stall_share=None)
        found |= metrics
        gate |= repeat_gate(metrics, meanwhile, thresholds)
        disturbance = max(disturbance, meanwhile.excess(thresholds.disturbance))
    return RepeatLine(
        cell=cell.values,
        repeat=repeat,
        metrics={name: round(value, 3) for name, value in found.items()},
        gate=gate,
        disturbance=round(disturbance, 3),
    )


def job_of(load: Load, target: Target, topic: str) -> Job:
    rate_per_s = load.rate if isinstance(load.rate, float) else None
    messages = load.messages if rate_per_s is None else round(rate_per_s * load.send_s)
    assert messages is not None
    settings = {name: value for name, value in target.settings.items() if name != "bootstrap.servers"}
    return Job(
        bootstrap=target.bootstrap,
        topic=topic,
        partitions=load.partitions,
        messages=messages,
        size_bytes=int(load.size),
        senders=load.processes,
        readers=load.groups,
        rate_per_s=rate_per_s,
        warm_up_s=0.0 if rate_per_s is None else load.warm_up_s,
        terms=load.terms,
        client={**settings, **load.client},
        consumer_client={**settings, **load.consumer_client},
    )


class _Phase(NamedTuple):
    metrics: dict[str, float]
    use: CpuUse


def _sending(load: Load, job: Job, target: Target) -> _Phase:
    """With those that consume meanwhile, if there are any: then until the slowest of them has the last message."""
    program = PROGRAMS[load.engine]

    def run() -> Outcome:
        if load.is_exchange:
            assert program.exchange is not None
            return program.exchange(job)
        assert program.send is not None
        if not load.groups or load.consume == "after":
            return program.send(job)
        consuming = PROGRAMS[load.consumer_engine].consuming
        assert consuming is not None
        with consuming(job) as wait:
            sent = program.send(job)
            consumed = wait()
        return replace(sent, seconds=consumed.seconds - consumed.waited_s, course_ns=None)

    outcome, cost, use = _measured(target, run)
    rates = {
        "rate_per_s": outcome.messages / outcome.seconds,
        "mb_per_s": outcome.size_bytes / outcome.seconds / _MIB,
    }
    return _Phase(rates | dict(outcome.metrics) | {f"sending_{name}": value for name, value in cost.items()}, use)


def _consuming(load: Load, job: Job, target: Target) -> _Phase:
    consuming = PROGRAMS[load.consumer_engine].consuming
    assert consuming is not None

    def run() -> Outcome:
        with consuming(job) as wait:
            return wait()

    outcome, cost, use = _measured(target, run)
    rates = {
        "consumed_per_s": outcome.messages / outcome.seconds,
        "consumed_mb_per_s": outcome.size_bytes / outcome.seconds / _MIB,
    }
    return _Phase(rates | dict(outcome.metrics) | {f"consuming_{name}": value for name, value in cost.items()}, use)


def _idle(target: Target) -> _Phase:
    """Nothing but a fresh start: how long it took, and what it holds a moment later."""
    company = Company(brokers=lambda: target.pids, clients=list)
    time.sleep(_IDLE_S)
    held_bytes = sum(map(process_tree.resident_bytes, target.pids))
    started = {} if target.start_s is None else {"start_s": target.start_s}
    return _Phase({**started, "idle_memory_mb": held_bytes / _MB}, company.look())


def _measured(target: Target, run: Callable[[], Outcome]) -> tuple[Outcome, dict[str, float], CpuUse]:
    """What a program did, and what it cost the brokers."""
    pids = target.pids
    if not pids:
        raise LabError(f"the brokers of {target.name} are not on this machine, so what it costs them is not known")
    for pid in pids:
        process_tree.reset_peak(pid)
    company = Company(brokers=lambda: pids, clients=list)
    with process_tree.Course(pids[0]) as course:
        outcome = run()
    use = company.look()
    cost = {
        "cpu_s_per_gb": use.brokers_s / (outcome.size_bytes / _GB),
        "memory_mb_peak": sum(map(process_tree.peak_bytes, pids)) / _MB,
    }
    if outcome.course_ns is not None and len(pids) == 1:
        cost |= _halves(course, outcome.course_ns)
    return outcome, cost, use


def _halves(course: process_tree.Course, course_ns: tuple[int, int, int]) -> dict[str, float]:
    """What the second half of the work cost against the first."""
    begin, half, end = map(course.at, course_ns)
    found = {"memory_mb_growth": (end.resident_bytes - half.resident_bytes) / _MB}
    if half.cpu_s > begin.cpu_s:
        found["cpu_second_half_ratio"] = (end.cpu_s - half.cpu_s) / (half.cpu_s - begin.cpu_s)
    return found
