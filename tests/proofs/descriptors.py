"""A thousand partitions inside the 1,024 descriptors that many systems give a process.

Soft and hard limit are the same, so the node cannot raise it; fewer partitions get fewer, so that they do not all fit.
Every partition is written several times over, with a sync each time, while idle clients hold descriptors too;
everything is read by one consumer of all partitions; and again after a kill, and after a clean stop.
"""

import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition

from headrace.protocol.records import Record, encode_batch
from headrace.testing.node_process import NodeProcess
from tests.hostile.target import Wire
from tests.proofs.ledger import Anomaly, Ledger, Place, encode_message
from tests.proofs.metrics import SETTING, read_metrics
from tests.proofs.nodes import START_S_MAX, connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import create_topic
from tests.proofs.writer import CLIENT, Watch

TOPIC: Final = "many"
IDLE_CLIENTS: Final = 100
PASSES: Final = 3
PARTITIONS_PER_REQUEST: Final = 50
_WRITER: Final = 0


def descriptors_for(partitions: int) -> int:
    """1,024 for a thousand. What a node keeps for clients and itself, it keeps in any case."""
    return max(1024 * partitions // 1000, 512)


def run(work: Slice) -> Facts:
    many = _Many(work)
    with running(many.node):
        many.create()
        for restart in (many.node.kill, partial(many.node.stop, timeout_s=START_S_MAX)):
            many.write()
            many.read()
            many.note()
            restart()
            many.node.start(timeout_s=START_S_MAX)
            many.read()
            many.note()
        many.node.stop(timeout_s=START_S_MAX)
        many.check_log()
    work.advance(len(work.units))
    return many.facts()


class _Many:
    def __init__(self, work: Slice) -> None:
        settings = {**SETTING, "log.flush.interval.messages": "1"}
        limit = ("sh", "-c", f'ulimit -n {descriptors_for(len(work.units))}; exec "$@"', "sh")
        self.node = NodeProcess(work.scratch / "data", settings=settings, wrapper=limit)
        self._places = [Place(TOPIC, partition) for partition in work.units]
        self._ledger = Ledger()
        self._descriptors_max = 0
        self._evictions = 0.0
        self._start_s_max = 0.0
        self._files = 0

    def create(self) -> None:
        with connect(self.node) as wire:
            code = create_topic(wire, TOPIC, partitions=len(self._places), settings={})
            assert code == 0, f"{len(self._places)} partitions were not created: error {code}"

    def write(self) -> None:
        idle = [connect(self.node) for _ in range(IDLE_CLIENTS)]
        with connect(self.node) as wire:
            for _ in range(PASSES):
                for places in _batched(self._places, PARTITIONS_PER_REQUEST):
                    self._write(wire, places)
                    self._look()
            for client in idle:
                client.call(18, 0, {})  # Still served, every one.
                client.close()

    def _write(self, wire: Wire, places: list[Place]) -> None:
        messages = [self._ledger.send(_WRITER, place) for place in places]
        rows = [
            {
                "index": message.partition,
                "records": encode_batch([Record(None, encode_message(message, size=200), (), 1_700_000_000_000)]),
            }
            for message in messages
        ]
        data = [{"name": TOPIC, "partition_data": rows}]
        answer = wire.call(0, 8, {"acks": -1, "timeout_ms": 30_000, "topic_data": data})
        answers = answer["responses"][0]["partition_responses"]
        for message, place, row in zip(messages, places, answers, strict=True):
            if row["error_code"] != 0:
                raise Anomaly(f"{place} answered {row['error_code']}: {row['error_message']}")
            self._ledger.acknowledge(message, place, row["base_offset"])

    def read(self) -> None:
        """With one consumer of everything."""
        self._ledger.forget_found()
        left = self._ledger.count_sent()
        settings = {"group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        consumer = Consumer({**CLIENT, **settings, "bootstrap.servers": self.node.bootstrap})
        watch = Watch("read")
        try:
            consumer.assign([TopicPartition(*place, 0) for place in self._places])
            while any(left.values()):
                for message in consumer.consume(1000, 0.1):
                    left[self._found(message)] -= 1
                watch.saw(self._ledger.found)
        finally:
            consumer.close()

    def _found(self, message: Any) -> Place:
        if (error := message.error()) is not None:
            raise Anomaly(f"the consumer was told: {error.str()}")
        place = Place(message.topic(), message.partition())
        self._ledger.find(place, message.offset(), message.value())
        return place

    def _look(self) -> None:
        count = sum(1 for _ in Path(f"/proc/{self.node.pid}/fd").iterdir())
        self._descriptors_max = max(self._descriptors_max, count)

    def note(self) -> None:
        self._look()
        self._start_s_max = max(self._start_s_max, self.node.ready_s)
        self._evictions = max(self._evictions, read_metrics(self.node)["headrace_files_evicted_total"])
        self._files = sum(1 for _ in self.node.data.glob(f"{TOPIC}-*/*"))

    def check_log(self) -> None:
        """It went well, and not by failing and trying again."""
        for line in self.node.log_text().splitlines():
            if "Too many open files" in line:
                raise Anomaly(f"the node ran out of descriptors: {line}")
        # Otherwise everything fitted, and nothing was shown.
        assert self._evictions > 0, f"{self._files} files, and none had to give way to another"

    def facts(self) -> Facts:
        return {
            "files": self._files,
            "descriptors_max": self._descriptors_max,
            "files_closed_for_others": int(self._evictions),
            "messages_acknowledged": self._ledger.acknowledged,
            "messages_found": self._ledger.found,
            "start_s_max": self._start_s_max,
        }


def _batched(places: list[Place], size: int) -> Iterator[list[Place]]:
    rest = iter(places)
    while some := list(itertools.islice(rest, size)):
        yield some
