"""A sender as a process of its own: threads of one process would wait for each other, and it would look like latency.

The process is begun for it (`crew`), or is that of a task on somebody's cluster (`fleet_task`). It is told everything
in lines of JSON on its standard input, and tells everything in such lines on its standard output:

    in   {"scenario": ..., "index": 0, "settings": ..., "timeout_s": 10}      what to do
    out  {"ready": true}                                                        connected, or {"trouble": "..."}
    in   {"clock": true}                                                        any number of times, on another host
    out  {"utc_ns": ...}                                                        what time it is there
    in   {"start_utc_ns": ...}                                                  when to start
    out  {"second": 0, "row": ...}                                              each second, once it is over
    out  {"client": ...}                                                        what librdkafka says, if it is asked to
    out  {"ending": ..., "failures": ...}                                       the end

Anything more on its standard input, its end included, stops it.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from headrace.lab.child import Pipe, run_child
from headrace.lab.clocks import answer
from headrace.lab.scenario import Scenario
from headrace.lab.sender import Sender
from headrace.lab.timeline import Second


def run(pipe: Pipe) -> None:
    told = pipe.hear()
    sender = Sender(Scenario.from_json(told["scenario"]), told["index"], told["settings"], timeout_s=told["timeout_s"])

    def tell(second: int, row: Second) -> None:
        pipe.say({"second": second, "row": row.to_json()})
        for told in sender.pop_statistics():
            pipe.say({"client": told})

    with _no_collections():
        pipe.say({"ready": True})
        while "clock" in (start := pipe.hear()):
            pipe.say(answer())
        ending = sender.run(start["start_utc_ns"], tell=tell, is_stopped=pipe.is_spoken_to)
    pipe.say({"ending": asdict(ending), "failures": dict(sender.failures)})


@contextmanager
def _no_collections() -> Iterator[None]:
    """What lives now lives until the end, and nothing meanwhile makes cycles: a collection would be a stall of ours."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


if __name__ == "__main__":
    run_child(run)
