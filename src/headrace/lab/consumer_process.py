"""A consumer as a process of its own: a member of a group, that counts what it gets and how old that is.

It is told everything in lines of JSON on its standard input, and tells everything in such lines on its standard output:

    in   {"settings": ..., "topic": ..., "group": ..., "timeout_s": 60}     what to do
    out  {"ready": true}                                                     it has partitions, or {"trouble": "..."}
    in   {"start_utc_ns": ...}                                               what to count seconds from
    out  {"second": 0, "row": ..., "total": n}                               each second, once it is over
    in   {"stop": true}
    out  {"ending": {"first_ns": ..., "last_ns": ...}}

librdkafka's, and as people use it: what is there is taken at once, many messages at a time, and offsets are committed
now and then. One that is told the start from the beginning takes what there is as soon as it has partitions.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from headrace.lab.child import Pipe, run_child
from headrace.lab.consumed import ConsumedTimeline
from headrace.lab.errors import LabError

_MESSAGES_MAX: Final = 2000
_WAIT_S: Final = 0.05
# Of these no wait will make an end; of any other, a broker that comes back may.
_HOPELESS: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class _Member:
    def __init__(self, settings: Mapping[str, Any], topic: str, group: str) -> None:
        self.is_assigned = False
        try:
            self._consumer = Consumer(
                {
                    "log_level": 0,
                    "auto.offset.reset": "earliest",
                    # By default a consumer whose queue is full fetches nothing for a second, however soon it is empty.
                    "fetch.queue.backoff.ms": 20,
                    **settings,
                    "group.id": group,
                }
            )
            self._consumer.subscribe([topic], on_assign=self._note_assigned)
        except KafkaException as error:
            raise LabError(f"librdkafka does not take these settings: {error.args[0].str()}") from error

    def _note_assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.is_assigned = True

    def wait_assigned(self, timeout_s: float) -> list[Message]:
        """What came with the assignment, which is nothing where nothing was sent before."""
        deadline_s = time.monotonic() + timeout_s
        while not self.is_assigned:
            first = self._consumer.poll(_WAIT_S)
            if first is not None:
                return [first]
            if time.monotonic() > deadline_s:
                raise LabError(f"no partitions within {timeout_s:g} s of joining the group")
        return []

    def take(self) -> list[Message]:
        """What is there, at once; where nothing is, the first that comes. librdkafka's own batches wait to be full."""
        found = self._consumer.consume(_MESSAGES_MAX, 0)
        if found:
            return found
        first = self._consumer.poll(_WAIT_S)
        return [] if first is None else [first]

    def close(self) -> None:
        self._consumer.close()


def _count(timeline: ConsumedTimeline, messages: list[Message], start_utc_ns: int) -> int:
    """How many of them were messages, and not news of trouble."""
    now_utc_ns = time.time_ns()
    stamps_ms, size_bytes = [], 0
    for message in messages:
        error = message.error()
        if error is None:
            stamps_ms.append(message.timestamp()[1])
            size_bytes += len(message)
        elif error.fatal() or error.code() in _HOPELESS:
            raise LabError(f"a consumer cannot go on: {error.str()}")
    timeline.add(np.array(stamps_ms, np.int64), size_bytes, now_utc_ns=now_utc_ns, start_utc_ns=start_utc_ns)
    return len(stamps_ms)


def run(pipe: Pipe) -> None:
    told = pipe.hear()
    member = _Member(told["settings"], told["topic"], told["group"])
    early = member.wait_assigned(told["timeout_s"])
    pipe.say({"ready": True})
    start_utc_ns = told.get("start_utc_ns")
    if start_utc_ns is None:
        while not pipe.is_spoken_to():
            early += member.take()
        start_utc_ns = pipe.hear()["start_utc_ns"]
    timeline = ConsumedTimeline()
    total = _count(timeline, early, start_utc_ns)
    while not pipe.is_spoken_to():
        total += _count(timeline, member.take(), start_utc_ns)
        for second, row in timeline.take(time.time_ns() - start_utc_ns):
            pipe.say({"second": second, "row": row.to_json(), "total": total})
    for second, row in timeline.take_all():
        pipe.say({"second": second, "row": row.to_json(), "total": total})
    pipe.say({"ending": {"first_ns": timeline.first_ns, "last_ns": timeline.last_ns}})
    member.close()


if __name__ == "__main__":
    run_child(run)
