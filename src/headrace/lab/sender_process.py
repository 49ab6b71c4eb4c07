"""A sender as a process of its own: threads of one process would wait for each other, and it would look like latency.

It is told everything in lines of JSON on its standard input, and tells everything in such lines on its standard output:

    in   {"scenario": ..., "index": 0, "settings": ..., "timeout_s": 10}      what to do
    out  {"ready": true}                                                        connected, or {"trouble": "..."}
    in   {"start_utc_ns": ...}                                                  when to start
    out  {"second": 0, "row": ...}                                              each second, once it is over
    out  {"client": ...}                                                        what librdkafka says, if it is asked to
    out  {"ending": ..., "failures": ...}                                       the end

Anything more on its standard input, its end included, stops it.
"""

import gc
import json
import select
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any, BinaryIO

from headrace.errors import HeadraceError
from headrace.lab.scenario import Scenario
from headrace.lab.sender import Sender
from headrace.lab.timeline import Second


class _Pipe:
    def __init__(self, incoming: BinaryIO, outgoing: BinaryIO) -> None:
        self._incoming = incoming
        self._outgoing = outgoing

    def hear(self) -> Any:
        line = self._incoming.readline()
        if not line:
            raise EOFError
        return json.loads(line)

    def say(self, message: Mapping[str, Any]) -> None:
        self._outgoing.write(json.dumps(message).encode() + b"\n")
        self._outgoing.flush()

    def is_spoken_to(self) -> bool:
        return bool(select.select([self._incoming], [], [], 0)[0])


def run(pipe: _Pipe) -> None:
    told = pipe.hear()
    sender = Sender(Scenario.from_json(told["scenario"]), told["index"], told["settings"], timeout_s=told["timeout_s"])
    # What lives now lives until the end, and nothing in the loop makes cycles: a collection would be a stall of ours.
    gc.collect()
    gc.freeze()
    gc.disable()
    pipe.say({"ready": True})
    start = pipe.hear()

    def tell(second: int, row: Second) -> None:
        pipe.say({"second": second, "row": row.to_json()})
        for told in sender.pop_statistics():
            pipe.say({"client": told})

    ending = sender.run(start["start_utc_ns"], tell=tell, is_stopped=pipe.is_spoken_to)
    pipe.say({"ending": asdict(ending), "failures": dict(sender.failures)})


def main() -> None:
    # Unbuffered, so that what select sees is what is left to read.
    incoming = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115
    pipe = _Pipe(incoming, sys.stdout.buffer)
    try:
        run(pipe)
    except (HeadraceError, OSError) as error:
        with suppress(OSError):  # Whoever started it may have gone.
            pipe.say({"trouble": str(error)})
        sys.exit(1)
    except EOFError:
        sys.exit(1)


if __name__ == "__main__":
    main()
