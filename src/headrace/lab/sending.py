"""One run of a scenario, from the first process to the last line of its result."""

from collections.abc import Callable
from typing import IO

from headrace.lab.client_statistics import INTERVAL_SETTING
from headrace.lab.clocks import clocks_text
from headrace.lab.crew import Crew, Processes
from headrace.lab.readings.sampler import BROKER, CLIENT, Sampler
from headrace.lab.scenario import Scenario
from headrace.lab.senders import Senders
from headrace.lab.sent import Sent, write_line
from headrace.lab.targets.running import Target
from headrace.lab.timeline import Second


def send(
    scenario: Scenario,
    target: Target,
    *,
    crew: Crew | None = None,
    timeout_s: float = 10.0,
    into: IO[str] | None = None,
    watch: Callable[[int, Second], None] = lambda second, row: None,
    is_stopped: Callable[[], bool] = lambda: False,
    sampler: Sampler | None = None,
) -> Sent:
    """Send, and tell what came of it.

    By processes on this machine, or at the far end of a link that the target has, unless there is a crew for it. `into`
    gets the lines of the result as they come. `watch` is shown every second once it is over; `is_stopped` is asked as
    often, and ends sending early where it says so. `sampler` reads what senders and target do meanwhile.
    """
    crew = crew or target.far or Processes()
    sent = Sent(scenario, target=target.name, where=crew.where)
    settings = dict(target.settings)
    if sampler is not None and scenario.engine == "librdkafka":
        settings = {**INTERVAL_SETTING, **settings}
    has_stopped = False
    with Senders(scenario, settings, timeout_s=timeout_s, crew=crew) as senders:
        senders.connect()
        sent.clocks = clocks_text(senders.clocks)
        if sampler is not None:
            sampler.start({CLIENT: senders.pids, BROKER: target.pids})
        senders.start()
        if into is not None:
            write_line(into, sent.run_json(senders.start_utc_ns))
        for second, row in senders.rows():
            sent.add(row)
            watch(second, row)
            if sampler is not None:
                sampler.note_clients(senders.pop_client_statistics())
            if into is not None:
                write_line(into, sent.second_json(senders.start_utc_ns, second, row))
            if not has_stopped and is_stopped():
                has_stopped = True
                senders.stop()
        if sampler is not None:
            sampler.stop()
        sent.end(senders.outcome, start_utc_ns=senders.start_utc_ns)
    if into is not None:
        write_line(into, sent.summary_json())
    return sent
