"""One sender: a process's share of a scenario, from the first connection to the last answer.

It is made, which connects it; then it is told when to start, together with the others; then it runs. Whoever runs it
decides where its seconds go: a process of its own (`sender_process`), or a task on somebody's cluster.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from headrace.lab.driving import Driver, Ending
from headrace.lab.engines import Engine
from headrace.lab.payloads import Timed
from headrace.lab.scenario import Scenario
from headrace.lab.sender_clock import SenderClock
from headrace.lab.timeline import Second, Timeline

ANSWERS_S: Final = 10.0  # How long the last messages are waited for.


class Sender:
    def __init__(self, scenario: Scenario, index: int, settings: Mapping[str, str], *, timeout_s: float = 10.0) -> None:
        """Number `index` of the scenario's processes. `settings` are librdkafka's, of the cluster and whatever else."""
        self._scenario = scenario
        self._clock = SenderClock()
        self._timeline = Timeline()
        self._plan, self._planned = scenario.plan(index)
        self._engine = self._connect(index, settings, timeout_s)

    def _connect(self, index: int, settings: Mapping[str, str], timeout_s: float) -> Engine:
        scenario = self._scenario
        payloads = self._payloads = Timed(scenario.payloads(index), time.monotonic_ns)
        if scenario.engine == "columnar":
            from headrace.lab.columnar_engine import ColumnarEngine
            from headrace.wire.settings import client_settings

            return ColumnarEngine(
                client_settings(config=settings),
                scenario.topic,
                scenario.terms,
                payloads,
                self._timeline,
                self._clock,
                partition=scenario.partition,
            )
        from headrace.lab.librdkafka_engine import LibrdkafkaEngine

        return LibrdkafkaEngine(
            settings,
            scenario.topic,
            scenario.terms,
            payloads,
            self._timeline,
            self._clock,
            partition=scenario.partition,
            timeout_s=timeout_s,
        )

    @property
    def failures(self) -> Mapping[str, int]:
        """Why messages failed, and how many for each reason."""
        return self._timeline.failures

    def pop_statistics(self) -> list[dict[str, Any]]:
        """What the client has said of itself since; nothing unless its settings ask for it."""
        return self._engine.pop_statistics()

    def run(
        self,
        start_utc_ns: int,
        *,
        tell: Callable[[int, Second], None],
        is_stopped: Callable[[], bool],
        answers_s: float = ANSWERS_S,
    ) -> Ending:
        self._clock.start_at(start_utc_ns)
        driver = Driver(
            self._plan,
            self._engine,
            self._timeline,
            self._clock,
            planned=self._planned,
            end_ns=self._scenario.end_ns,
            tell=tell,
            is_stopped=is_stopped,
        )
        try:
            self._clock.wait_start()
            ending = driver.run(answers_ns=round(answers_s * 1e9))
        finally:
            self._engine.close()
        ending = replace(ending, making_ns=self._payloads.making_ns, throttled_ns=self._engine.throttled_ns)
        end_ns = self._scenario.end_ns
        if end_ns is not None and self._scenario.messages is None and not ending.is_stopped:
            # It was there all the time, though the last message was due a little before the end of it.
            ending = replace(ending, elapsed_ns=max(ending.elapsed_ns, end_ns))
        return ending
