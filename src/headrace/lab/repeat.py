"""One repeat of one cell on a target that runs: topic, consumers, senders, faults, and the end of all of them."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError
from headrace.lab.bottleneck import Finding
from headrace.lab.client_statistics import INTERVAL_SETTING
from headrace.lab.clocks import clocks_text
from headrace.lab.consumers import IDLE_S, Consumers
from headrace.lab.course import Course
from headrace.lab.crew import Apart, Crew, Processes
from headrace.lab.errors import LabError
from headrace.lab.gate import Thresholds
from headrace.lab.host.stalls import measure_stalls
from headrace.lab.load import NOBODY, UNPACED, Load
from headrace.lab.program_repeat import run_programs
from headrace.lab.readings import process_tree
from headrace.lab.readings.company import Company
from headrace.lab.readings.machine_metrics import machine_metrics
from headrace.lab.readings.recorder import RECORDED
from headrace.lab.readings.sampler import BROKER, CLIENT, CONSUMER, Sampler, can_read
from headrace.lab.results import Bottleneck, RepeatLine, SecondLine
from headrace.lab.schedule import SECOND_NS
from headrace.lab.sender_places import LOCAL, REMOTE
from headrace.lab.senders import Senders
from headrace.lab.sent import Sent
from headrace.lab.shortfall import find_shortfall, may_lose
from headrace.lab.targets.harming import Harm
from headrace.lab.targets.running import Target
from headrace.lab.timeline import Second
from headrace.lab.topics import count_deleted, create_topic, delete_topic
from headrace.lab.workload import Cell

STOPPED: Final = "stopped before its time"
_STALLS_S: Final = 0.3
# Brokers that use no more than this are calm. After the longest wait the gate has its say all the same.
_CALM_CORES: Final = 0.1
_SETTLE_LOOK_S: Final = 0.2
_SETTLE_S_MAX: Final = 10.0
_AFTER_FAULT_S: Final = 30.0  # So much longer it may take until a group is led again, and its members get anything.

Watch = Callable[[int, Second], None]
Told = Callable[[SecondLine], None]


def run_repeat(
    cell: Cell,
    repeat: int,
    target: Target,
    *,
    topic: str,
    tell: Told,
    thresholds: Thresholds,
    watch: Watch = lambda second, row: None,
    is_stopped: Callable[[], bool] = lambda: False,
    timeout_s: float = 10.0,
    readings: Path | None = None,
    crew: Crew | None = None,
    keeps_topic: bool = False,
) -> RepeatLine:
    """`tell` gets every second, in order; `watch` is shown each as soon as it is over. `readings` is the file that
    what was read meanwhile goes to; without one nothing is read, and there is no verdict on what held it up. `crew` is
    who sends and consumes, where that is not for processes on this machine. `keeps_topic` is for a target that will be
    gone with it."""
    load = cell.load
    if load.record and (readings is None or not target.recorders):
        raise LabError("record: nothing is read here, so there is nothing to record")
    if load.engine == NOBODY:
        return run_programs(cell, repeat, target, topic=topic, thresholds=thresholds)
    _settle(target, is_stopped)
    # Before any sender runs. What is done by programs has no moments that a stall could spoil.
    stall_share = None if load.is_by_program else measure_stalls(duration_s=_STALLS_S).share
    if target.keeps_messages:
        create_topic(
            target.settings,
            topic,
            partitions=load.partitions,
            replication=load.replication,
            leader=None if load.broker is None else target.member(load.broker).node_id,
            config=load.topic_config,
        )
    try:
        if load.is_by_program:
            line = run_programs(cell, repeat, target, topic=topic, thresholds=thresholds)
        else:
            running = _Repeat(
                cell, repeat, target, topic=topic, tell=tell, watch=watch, is_stopped=is_stopped, crew=crew
            )
            line = running.run(stall_share=stall_share, thresholds=thresholds, timeout_s=timeout_s, readings=readings)
        if load.restart and line.partial is None and (restart_s := target.restart(answer_from=topic)) is not None:
            line = replace(line, metrics={**line.metrics, "restart_s": round(restart_s, 3)})
        return line
    finally:
        # Where the brokers are gone, so is the topic.
        if target.keeps_messages and not keeps_topic and target.trouble() is None:
            with suppress(HeadraceError):
                delete_topic(target.settings, topic)


class _Repeat:
    def __init__(
        self,
        cell: Cell,
        repeat: int,
        target: Target,
        *,
        topic: str,
        tell: Told,
        watch: Watch,
        is_stopped: Callable[[], bool],
        crew: Crew | None,
    ) -> None:
        self._load = load = cell.load
        self._crew = crew
        self._repeat = repeat
        self._target = target
        self._topic = topic
        self._tell = tell
        self._watch = watch
        self._is_stopped = is_stopped
        self._has_groups = load.groups > 0
        self._is_after = load.consume == "after"
        self._partial: str | None = None
        self._unconsumed = 0
        self._course = Course(
            cell=cell.values,
            repeat=repeat,
            warm_up_s=load.warm_up_s,
            has_plan=load.rate != UNPACED,
            has_consumers=self._has_groups,
            consumes_after=self._is_after,
            is_counted=load.messages is not None,
        )

    def run(
        self, *, stall_share: float | None, thresholds: Thresholds, timeout_s: float, readings: Path | None
    ) -> RepeatLine:
        load = self._load
        scenario = load.scenario(topic=self._topic, seed=load.seed + self._repeat)
        groups = [f"{self._topic}-group{number}" for number in range(load.groups)]
        with (
            Consumers(
                {**self._target.settings, **load.consumer_client},
                self._topic,
                groups=groups,
                members=load.consumers,
                engine=load.consumer_engine,
                stagger_s=load.consumer_stagger,
                behind_s=load.behind,
                crew=self._crew,
            ) as consumers,
            _sampling(self._target, readings) as sampler,
            Senders(
                scenario,
                self._sender_settings(is_read=sampler is not None),
                timeout_s=timeout_s,
                crew=self._crew or _crew_of(load, self._target),
            ) as senders,
            Harm(self._target, load.faults) as harm,
        ):
            if self._has_groups and not self._is_after:
                consumers.join(is_stopped=self._is_stopped)
            senders.connect()
            company = Company(brokers=lambda: self._target.pids, clients=lambda: [*senders.pids, *consumers.pids])
            if sampler is not None:
                sampler.start({CLIENT: senders.pids, BROKER: self._target.pids, CONSUMER: consumers.pids})
            senders.start()
            self._course.start_utc_ns = senders.start_utc_ns
            harm.start(senders.start_utc_ns)
            if not self._is_after:
                consumers.start(senders.start_utc_ns)
            sent = Sent(scenario, target=self._target.name)
            self._send(senders, consumers, company, sent, sampler)
            if self._has_groups and self._partial is None:
                self._consume(senders.start_utc_ns, consumers, company, sampler)
            if sampler is not None:
                sampler.stop()
            consumers.stop()
            self._note_consumed(consumers, before=None)
            bottlenecks = self._conclude(sampler, sent, consumers)
            consumed = consumers.totals
        for line in self._course.lines():
            self._tell(line)
        self._course.events += [RECORDED] if self._target.recorders else []
        self._course.events += map(str, harm.done)
        self._course.events += [f"{count:,} messages failed: {why}" for why, count in senders.outcome.failures.items()]
        self._note_troubles([*senders.outcome.troubles, *consumers.troubles, *harm.troubles])
        if self._partial is None:
            self._note_shortfall([*consumed.values()])
        told = self._course.repeat_line(
            # Where every sender died, it was for as long as they told of.
            sending_s=senders.outcome.elapsed_s or float(len(self._course.sent)),
            answered_s=senders.outcome.answered_s,
            consumed_s=None if consumers.last_ns is None else consumers.last_ns / SECOND_NS,
            consuming_s=_seconds_between(consumers.ready_ns, consumers.last_ns),
            stall_share=stall_share,
            thresholds=thresholds,
            machine=self._machine(sampler, senders),
            losses=self._course.losses(
                unsent=senders.outcome.unsent, unanswered=senders.outcome.lost_sight, unconsumed=self._unconsumed
            ),
            **bottlenecks,
            partial=self._partial,
        )
        return replace(told, clocks=clocks_text([*senders.clocks, *consumers.clocks]))

    def _conclude(self, sampler: Sampler | None, sent: Sent, consumers: Consumers) -> dict[str, Bottleneck | None]:
        """What held senders and consumers up; nothing where nothing was read, in a repeat that was over at once."""
        if self._partial is not None or sampler is None or not sampler.readings:
            return {}
        found = {"bottleneck": _told(sampler.conclude(sent, is_proxied=self._target.is_proxied))}
        begin_ns, end_ns = 0, round(sent.outcome.elapsed_s * SECOND_NS)
        if self._is_after:
            begin_ns, end_ns = consumers.ready_ns or 0, consumers.last_ns or 0
        if self._has_groups and end_ns > begin_ns:
            consuming = self._course.consuming(groups=self._load.groups, elapsed_s=(end_ns - begin_ns) / SECOND_NS)
            begin_utc_ns, end_utc_ns = (sent.start_utc_ns + each for each in (begin_ns, end_ns))
            told = sampler.conclude_consuming(consuming, begin_utc_ns=begin_utc_ns, end_utc_ns=end_utc_ns)
            found["consumer_bottleneck"] = _told(told)
        return found

    def _machine(self, sampler: Sampler | None, senders: Senders) -> dict[str, float]:
        if sampler is None:
            return {}
        return machine_metrics(
            sampler.readings,
            begin_utc_ns=senders.start_utc_ns + self._load.warm_up_s * SECOND_NS,
            end_utc_ns=senders.start_utc_ns + round(senders.outcome.elapsed_s * SECOND_NS),
        )

    def _sender_settings(self, *, is_read: bool) -> dict[str, str]:
        told = INTERVAL_SETTING if is_read and self._load.engine == "librdkafka" else {}
        return {**told, **self._target.settings, **self._load.client}

    def _send(
        self, senders: Senders, consumers: Consumers, company: Company, sent: Sent, sampler: Sampler | None
    ) -> None:
        for second, row in senders.rows():
            self._course.add_sent(second, row)
            sent.add(row)
            if sampler is not None:
                sampler.note_clients(senders.pop_client_statistics())
            self._course.add_cpu(second, company.look())
            consumers.listen()
            # A backlog may be consumed in the very second in which the last of it was sent: that one is not told yet.
            told = second if self._is_after else consumers.told_seconds if self._has_groups else second + 1
            if told is not None:
                before = min(told, second + 1)
                self._note_consumed(consumers, before=before)
                for line in self._course.lines(before):
                    self._tell(line)
            self._watch(second, row)
            if self._partial is None and (why := self._reason_to_stop()) is not None:
                self._partial = why
                senders.stop()
        sent.end(senders.outcome, start_utc_ns=senders.start_utc_ns)

    def _reason_to_stop(self) -> str | None:
        if (trouble := self._target.trouble()) is not None:
            return trouble
        return STOPPED if self._is_stopped() else None

    def _consume(self, start_utc_ns: int, consumers: Consumers, company: Company, sampler: Sampler | None) -> None:
        """What is left: the last messages of a stream, or all of a backlog."""
        if self._is_after:
            company.look()  # What happened in between is nobody's.
            consumers.join(start_utc_ns=start_utc_ns, is_stopped=self._is_stopped)
            if sampler is not None:
                sampler.watch(CONSUMER, consumers.pids)
        consumers.drain(expected=self._course.delivered, is_stopped=self._stop_draining, idle_s=_idle_s(self._load))
        if self._is_after:
            self._course.add_cpu((time.time_ns() - start_utc_ns) // SECOND_NS, company.look())
        if self._partial is None:
            self._partial = self._reason_to_stop()

    def _stop_draining(self) -> bool:
        return self._reason_to_stop() is not None

    def _note_consumed(self, consumers: Consumers, *, before: int | None) -> None:
        for second, row in consumers.rows(before):
            self._course.add_consumed(second, row)

    def _note_shortfall(self, totals: list[int]) -> None:
        """Where groups did not get all that was there for them: what they got is no rate of theirs."""
        found = find_shortfall(
            totals,
            self._course.delivered,
            is_acknowledged=self._load.terms.acks != "0",
            may_lose=may_lose(self._load, brokers=len(self._target.members)),
            settings=self._load.consumer_client,
            count_deleted=self._count_deleted,
        )
        if found is None:
            return
        self._unconsumed = found.unconsumed
        if found.excuse is None:
            self._partial = str(found)
        else:
            self._course.events.append(str(found))

    def _count_deleted(self) -> int:
        try:
            return count_deleted(self._target.settings, self._topic)
        except HeadraceError:
            return 0  # Nobody who could say is left.

    def _note_troubles(self, troubles: list[str]) -> None:
        if troubles:
            told = "; ".join(troubles)
            self._partial = told if self._partial is None else f"{self._partial}; {told}"


def _settle(target: Target, is_stopped: Callable[[], bool]) -> None:
    """Let brokers end what they have to do still for the last repeat: it is no neighbour's, and not of the next one."""
    deadline_s = time.monotonic() + _SETTLE_S_MAX
    used_s = math.inf
    while used_s > _CALM_CORES * _SETTLE_LOOK_S and time.monotonic() < deadline_s and not is_stopped():
        before_s = _cpu_s(target)
        time.sleep(_SETTLE_LOOK_S)
        used_s = _cpu_s(target) - before_s


def _idle_s(load: Load) -> float:
    """Without a message, after which none is expected any more."""
    longest_s = max((fault.length_s or 0.0 for fault in load.faults), default=0.0)
    return IDLE_S + (longest_s + _AFTER_FAULT_S if load.faults else 0.0)


def _cpu_s(target: Target) -> float:
    return sum(map(process_tree.cpu_s, target.pids))


def _crew_of(load: Load, target: Target) -> Crew | None:
    """Each sender where the workload has it; None for processes on this machine."""
    if target.far is None:
        return None
    crews: dict[str, Crew] = {LOCAL: Processes(), REMOTE: target.far}
    return Apart([crews[place] for place in load.places])


@contextmanager
def _sampling(target: Target, readings: Path | None) -> Iterator[Sampler | None]:
    if readings is None or not can_read():
        yield None
        return
    with (
        readings.open("w", encoding="utf-8") as into,
        Sampler(metrics=target.metrics, into=into, recorders=target.recorders) as sampler,
    ):
        yield sampler


def _told(found: Finding | None) -> Bottleneck | None:
    if found is None:
        return None
    return Bottleneck(verdict=found.verdict.value, evidence=list(found.evidence), is_held_up=found.is_held_up)


def _seconds_between(first_ns: int | None, last_ns: int | None) -> float | None:
    return None if first_ns is None or last_ns is None or last_ns <= first_ns else (last_ns - first_ns) / SECOND_NS
