"""One repeat of one cell on a target that runs: topic, consumers, senders, faults, and the end of all of them."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError
from headrace.lab.client_statistics import INTERVAL_SETTING
from headrace.lab.consumers import Consumers
from headrace.lab.course import Course
from headrace.lab.crew import Crew
from headrace.lab.gate import Thresholds
from headrace.lab.host.stalls import measure_stalls
from headrace.lab.readings.company import Company
from headrace.lab.readings.sampler import BROKER, CLIENT, Sampler, can_read
from headrace.lab.results import Bottleneck, RepeatLine, SecondLine
from headrace.lab.schedule import SECOND_NS
from headrace.lab.senders import Senders
from headrace.lab.sent import Sent
from headrace.lab.targets.harming import Harm
from headrace.lab.targets.running import Target
from headrace.lab.timeline import Second
from headrace.lab.topics import create_topic, delete_topic
from headrace.lab.workload import UNPACED, Cell

STOPPED: Final = "stopped before its time"
_STALLS_S: Final = 0.3
_CONSUMER: Final = "consumer"  # What the readings call them.

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
) -> RepeatLine:
    """`tell` gets every second, in order; `watch` is shown each as soon as it is over. `readings` is the file that
    what was read meanwhile goes to; without one nothing is read, and there is no verdict on what held it up. `crew` is
    who sends and consumes, where that is not for processes on this machine."""
    load = cell.load
    stall_share = measure_stalls(duration_s=_STALLS_S).share  # Before anything of ours runs.
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
        running = _Repeat(cell, repeat, target, topic=topic, tell=tell, watch=watch, is_stopped=is_stopped, crew=crew)
        return running.run(stall_share=stall_share, thresholds=thresholds, timeout_s=timeout_s, readings=readings)
    finally:
        # Where the brokers are gone, so is the topic.
        if target.keeps_messages and target.trouble() is None:
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
        self._course = Course(
            cell=cell.values,
            repeat=repeat,
            warm_up_s=load.warm_up_s,
            has_plan=load.rate != UNPACED,
            has_consumers=self._has_groups,
            consumes_after=self._is_after,
        )

    def run(self, *, stall_share: float, thresholds: Thresholds, timeout_s: float, readings: Path | None) -> RepeatLine:
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
                crew=self._crew,
            ) as consumers,
            _sampling(self._target, readings) as sampler,
            Senders(
                scenario,
                self._sender_settings(is_read=sampler is not None),
                timeout_s=timeout_s,
                crew=self._crew or self._target.senders,
            ) as senders,
            Harm(self._target, load.faults) as harm,
        ):
            if self._has_groups and not self._is_after:
                consumers.join(is_stopped=self._is_stopped)
            senders.connect()
            company = Company(brokers=lambda: self._target.pids, clients=lambda: [*senders.pids, *consumers.pids])
            if sampler is not None:
                sampler.start({CLIENT: senders.pids, BROKER: self._target.pids, _CONSUMER: consumers.pids})
            senders.start()
            self._course.start_utc_ns = senders.start_utc_ns
            harm.start(senders.start_utc_ns)
            if not self._is_after:
                consumers.start(senders.start_utc_ns)
            sent = Sent(scenario, target=self._target.name)
            self._send(senders, consumers, company, sent, sampler)
            bottleneck = _conclude(sampler, sent) if self._partial is None else None
            if self._has_groups and self._partial is None:
                self._consume(senders.start_utc_ns, consumers, company)
            consumers.stop()
            self._note_consumed(consumers, before=None)
        for line in self._course.lines():
            self._tell(line)
        self._course.events += map(str, harm.done)
        self._note_troubles([*senders.outcome.troubles, *consumers.troubles, *harm.troubles])
        return self._course.repeat_line(
            # Where every sender died, it was for as long as they told of.
            sending_s=senders.outcome.elapsed_s or float(len(self._course.sent)),
            consuming_s=_seconds_between(consumers.ready_ns, consumers.last_ns),
            stall_share=stall_share,
            thresholds=thresholds,
            bottleneck=bottleneck,
            partial=self._partial,
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
            told = consumers.told_seconds if self._has_groups and not self._is_after else second + 1
            if told is not None:
                before = min(told, second + 1)
                self._note_consumed(consumers, before=before)
                for line in self._course.lines(before):
                    self._tell(line)
            self._watch(second, row)
            if self._partial is None and (why := self._reason_to_stop()) is not None:
                self._partial = why
                senders.stop()
        if sampler is not None:
            sampler.stop()
        sent.end(senders.outcome, start_utc_ns=senders.start_utc_ns)

    def _reason_to_stop(self) -> str | None:
        if (trouble := self._target.trouble()) is not None:
            return trouble
        return STOPPED if self._is_stopped() else None

    def _consume(self, start_utc_ns: int, consumers: Consumers, company: Company) -> None:
        """What is left: the last messages of a stream, or all of a backlog."""
        if self._is_after:
            company.look()  # What happened in between is nobody's.
            consumers.join(start_utc_ns=start_utc_ns, is_stopped=self._is_stopped)
        consumers.drain(expected=self._course.delivered * self._load.groups, is_stopped=self._stop_draining)
        if self._is_after:
            self._course.add_cpu((time.time_ns() - start_utc_ns) // SECOND_NS, company.look())
        if self._partial is None:
            self._partial = self._reason_to_stop()

    def _stop_draining(self) -> bool:
        return self._reason_to_stop() is not None

    def _note_consumed(self, consumers: Consumers, *, before: int | None) -> None:
        for second, row in consumers.rows(before):
            self._course.add_consumed(second, row)

    def _note_troubles(self, troubles: list[str]) -> None:
        if troubles:
            told = "; ".join(troubles)
            self._partial = told if self._partial is None else f"{self._partial}; {told}"


@contextmanager
def _sampling(target: Target, readings: Path | None) -> Iterator[Sampler | None]:
    if readings is None or not can_read():
        yield None
        return
    with readings.open("w", encoding="utf-8") as into, Sampler(metrics=target.metrics, into=into) as sampler:
        yield sampler


def _conclude(sampler: Sampler | None, sent: Sent) -> Bottleneck | None:
    """None where nothing was read: a repeat that was over at once."""
    if sampler is None or not sampler.readings:
        return None
    found = sampler.conclude(sent)
    return Bottleneck(verdict=found.verdict.value, evidence=list(found.evidence))


def _seconds_between(first_ns: int | None, last_ns: int | None) -> float | None:
    return None if first_ns is None or last_ns is None or last_ns <= first_ns else (last_ns - first_ns) / SECOND_NS
