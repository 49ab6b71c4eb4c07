"""A consumer as a process of its own, that counts what it gets and how old that is.

It is told everything in lines of JSON on its standard input, and tells everything in such lines on its standard output:

    in   {"engine": ..., "settings": ..., "topic": ..., "group": ...,       what to do
          "index": 0, "members": 4, "timeout_s": 60}
    out  {"ready": true}                                                     it has partitions, or {"trouble": "..."}
    in   {"clock": true}                                                     any number of times, on another host
    out  {"utc_ns": ...}                                                     what time it is there
    in   {"start_utc_ns": ...}                                               what to count seconds from
    out  {"second": 0, "row": ..., "total": n}                               each second, once it is over
    in   {"stop": true}
    out  {"ending": {"ready_ns": ..., "last_ns": ...}}                       since the start; the last message's

One that is told the start from the beginning takes what there is as soon as it has partitions. One that is told to be
`behind_s` behind is ready at once, and joins its group so long after the start.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from headrace.lab.child import Pipe, run_child
from headrace.lab.clocks import answer
from headrace.lab.consumed import ConsumedTimeline
from headrace.lab.consumer_engines import (
    BehindConsumer,
    ColumnarConsumer,
    ConsumerEngine,
    LibrdkafkaConsumer,
    Taken,
)

_ASKED_AGAIN_S: Final = 0.1


def _engine(told: Mapping[str, Any]) -> ConsumerEngine:
    if told["engine"] == "columnar":
        return ColumnarConsumer(told["settings"], told["topic"], index=told["index"], members=told["members"])
    return LibrdkafkaConsumer(told["settings"], told["topic"], told["group"])


def run(pipe: Pipe) -> None:
    told = pipe.hear()
    if "behind_s" in told:
        _run_behind(pipe, told)
        return
    engine = _engine(told)
    try:
        early = engine.wait_ready(told["timeout_s"])
        pipe.say({"ready": True})
        start_utc_ns = told.get("start_utc_ns")
        if start_utc_ns is None:
            while not pipe.is_spoken_to():
                early += engine.take()
            while "clock" in (said := pipe.hear()):
                pipe.say(answer())
                # Who asks once asks again at once. It would be late for that if it looked for messages meanwhile.
                while not pipe.is_spoken_to(within_s=_ASKED_AGAIN_S):
                    early += engine.take()
            start_utc_ns = said["start_utc_ns"]
        _count(pipe, engine, early, start_utc_ns)
    finally:
        engine.close()


def _run_behind(pipe: Pipe, told: Mapping[str, Any]) -> None:
    pipe.say({"ready": True})
    while "clock" in (said := pipe.hear()):
        pipe.say(answer())
    start_utc_ns = said["start_utc_ns"]
    engine = BehindConsumer(lambda: _engine(told), begin_utc_ns=start_utc_ns + round(told["behind_s"] * 1e9))
    try:
        _count(pipe, engine, [], start_utc_ns)
    finally:
        engine.close()


def _count(pipe: Pipe, engine: ConsumerEngine, early: list[Taken], start_utc_ns: int) -> None:
    timeline, total, taken, throttled_ns = ConsumedTimeline(), 0, early, 0
    while True:
        throttled_before_ns, throttled_ns = throttled_ns, engine.throttled_ns
        timeline.add_throttled(throttled_ns - throttled_before_ns, now_ns=time.time_ns() - start_utc_ns)
        for utc_ns, stamps_ms, size_bytes in taken:
            timeline.add(stamps_ms, size_bytes, now_utc_ns=utc_ns, start_utc_ns=start_utc_ns)
            total += len(stamps_ms)
        for second, row in timeline.take(time.time_ns() - start_utc_ns):
            pipe.say({"second": second, "row": row.to_json(), "total": total})
        if pipe.is_spoken_to():
            break
        taken = engine.take()
    for second, row in timeline.take_all():
        pipe.say({"second": second, "row": row.to_json(), "total": total})
    pipe.say({"ending": {"ready_ns": engine.ready_utc_ns - start_utc_ns, "last_ns": timeline.last_ns}})


if __name__ == "__main__":
    run_child(run)
