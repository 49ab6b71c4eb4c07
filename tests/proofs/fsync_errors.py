"""Syncs that fail: strace makes fsync and fdatasync of a running node, or of its disk helper, return EIO.

Three kinds of round in turn, all with `log.flush.interval.messages=1`:

- *one sync fails*: requests go one at a time, so the one under way when it happens is known. It is refused, so is
  everything that follows for that partition, and nobody else notices;
- *the device is gone*: every sync fails from some moment on, with many requests in flight. Not one of those
  sent since is acknowledged, topics created meanwhile included, yet the node answers and old data is served;
- *the node's own syncs fail*: those of checkpoints and of an orderly stop, which then is not one.

After a restart everything acknowledged is there, and all partitions take messages again.
"""

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from headrace.errors import ErrorCode
from headrace.protocol.records import Record, encode_batch
from headrace.protocol.schema import Value
from headrace.testing.node_process import NodeProcess, NodeProcessError
from tests.hostile.target import Wire
from tests.proofs.ledger import Anomaly, Ledger, Message, Place, encode_message
from tests.proofs.nodes import START_S_MAX, connect, running
from tests.proofs.proof import Facts, Slice
from tests.proofs.readback import Reading, create_topic, fetch, leader_epochs
from tests.proofs.tracing import Tracer, helper_pid

TOPIC: Final = "written"
SPARE: Final = Place("spare", 0)  # Nobody writes to it while syncs fail.
PLACES: Final = tuple(Place(TOPIC, partition) for partition in range(4))
SETTINGS: Final = {"log.flush.interval.messages": "1", "log.flush.offset.checkpoint.interval.ms": "200"}
_CALLS: Final = "fsync,fdatasync"
_PRODUCE: Final = 0
_PRODUCE_VERSION: Final = 8  # The first whose answers carry a text.
_ATTEMPTS_MAX: Final = 400
_CONNECTIONS: Final = 6
_IN_FLIGHT: Final = 8


def run(work: Slice) -> Facts:
    rounds = _FailingSyncs(work)
    kinds = (rounds.one_sync_fails, rounds.the_device_is_gone, rounds.own_syncs_fail)
    with running(rounds.node):
        rounds.create_topics()
        for number in work.each():
            chance = random.Random(f"fsync-errors {number}")
            kinds[number % len(kinds)](chance)
            rounds.verify()
        rounds.node.stop()
    return rounds.facts()


class _FailingSyncs:
    """One data directory and all that is known about it."""

    def __init__(self, work: Slice) -> None:
        self.node = NodeProcess(work.scratch / "data", settings=SETTINGS)
        self._trace = work.scratch / "strace.txt"
        self._ledger = Ledger()
        self._readings = {place: Reading(place) for place in (*PLACES, SPARE)}
        self._writers = itertools.count()
        self._topics = itertools.count()
        self._counts: Facts = dict.fromkeys(("syncs_failed", "refused", "stops_that_failed"), 0)

    def create_topics(self) -> None:
        with connect(self.node) as wire:
            assert create_topic(wire, TOPIC, partitions=len(PLACES), settings={}) == 0
            assert create_topic(wire, SPARE.topic, partitions=1, settings={}) == 0

    # --- The three kinds of round ----------------------------------------------------------------------------

    def one_sync_fails(self, chance: random.Random) -> None:
        writer = next(self._writers)
        with connect(self.node) as wire:
            self._warm_up(wire, writer)
            injection = f"{_CALLS}:error=EIO:when={chance.randrange(1, 12)}"
            with Tracer(helper_pid(self.node.pid), injection, output=self._trace, threads=True) as tracer:
                failed, text = self._write_until_refused(wire, writer)
            # strace counts for each thread, so a second one may fail meanwhile: a checkpoint's, which nobody notices.
            hit = tracer.paths_hit()
            if [path.parent.name for path in hit if path.parent != self.node.data] != [str(failed)]:
                raise Anomaly(f"{failed} was refused ({text}), and the syncs that failed were those of {hit}")
            self._counts["syncs_failed"] += len(hit)
            for place in PLACES * 3:
                code, text = self._write(wire, writer, place)
                expected = ErrorCode.KAFKA_STORAGE_ERROR if place == failed else ErrorCode.NONE
                if code != expected:
                    raise Anomaly(f"{place} answered {code} ({text}) after the sync of {failed} failed")
            for place in (*PLACES, SPARE):
                if place != failed:
                    self._readings[place].read(wire, lambda offset, value: None)
            row = fetch(wire, failed, 0)
            if row["error_code"] != ErrorCode.KAFKA_STORAGE_ERROR:
                raise Anomaly(f"a fetch from {failed}, of which nobody knows what the disk has, answered {row}")
        if chance.random() < 0.5:
            self.node.kill()
        else:
            self._stop_unclean()
        self.node.start(timeout_s=START_S_MAX)

    def the_device_is_gone(self, chance: random.Random) -> None:
        writer = next(self._writers)
        with connect(self.node) as wire:
            self._warm_up(wire, writer)
            injection = f"{_CALLS}:error=EIO:when=1+"
            with Tracer(helper_pid(self.node.pid), injection, output=self._trace, threads=True) as tracer:
                places = chance.sample(PLACES, 3)
                self._burst(places)
                topic = f"never-{next(self._topics)}"
                if create_topic(wire, topic, partitions=1, settings={}) == 0:
                    raise Anomaly(f"topic {topic} was created while no sync succeeded")
                self._readings[SPARE].read(wire, lambda offset, value: None)
            self._counts["syncs_failed"] += len(tracer.paths_hit())
            for place in PLACES:
                code, text = self._write(wire, writer, place)
                expected = ErrorCode.KAFKA_STORAGE_ERROR if place in places else ErrorCode.NONE
                if code != expected:
                    raise Anomaly(f"{place} answered {code} ({text}) once syncs succeeded again; {places} had failed")
        self.node.kill()
        self.node.start(timeout_s=START_S_MAX)

    def own_syncs_fail(self, chance: random.Random) -> None:
        writer = next(self._writers)
        with connect(self.node) as wire:
            self._warm_up(wire, writer)
            epochs = leader_epochs(wire, [TOPIC])
            with Tracer(self.node.pid, f"{_CALLS}:error=EIO:when=1+", output=self._trace) as tracer:
                # The helper's succeed; and so, by and by, checkpoints are tried and fail.
                for place in chance.choices(PLACES, k=100):
                    code, text = self._write(wire, writer, place)
                    if code != 0:
                        raise Anomaly(f"{place} answered {code} ({text}), and its syncs did not fail")
                self._stop_unclean()
            self._counts["syncs_failed"] += len(tracer.paths_hit())
        self.node.start(timeout_s=START_S_MAX)
        with connect(self.node) as wire:
            for place, epoch in leader_epochs(wire, [TOPIC]).items():
                if epoch <= epochs[place]:
                    raise Anomaly(f"{place}: a stop whose syncs failed was taken for a clean one")

    # --- What they have in common ----------------------------------------------------------------------------

    def verify(self) -> None:
        """After a restart: everything acknowledged is there, and all partitions take messages."""
        with connect(self.node) as wire:
            writer = next(self._writers)
            for place in (*PLACES, SPARE):
                code, text = self._write(wire, writer, place)
                if code != 0:
                    raise Anomaly(f"{place} answered {code} ({text}) after a restart")
            self._ledger.forget_found()
            for place in (*PLACES, SPARE):
                self._readings[place] = reading = Reading(place)
                reading.read(wire, partial(self._ledger.find, place))
                self._ledger.check_complete(place)

    def _warm_up(self, wire: Wire, writer: int) -> None:
        """Until every partition has its file open and synced, and the helper runs."""
        for place in PLACES * 3:
            code, text = self._write(wire, writer, place)
            if code != 0:
                raise Anomaly(f"{place} answered {code} ({text}) before any sync failed")

    def _write(self, wire: Wire, writer: int, place: Place) -> tuple[int, str | None]:
        message = self._ledger.send(writer, place)
        return self._judge(message, place, wire.call(_PRODUCE, _PRODUCE_VERSION, _request(message, place)))

    def _write_until_refused(self, wire: Wire, writer: int) -> tuple[Place, str | None]:
        for place in itertools.islice(itertools.cycle(PLACES), _ATTEMPTS_MAX):
            code, text = self._write(wire, writer, place)
            if code != 0:
                return place, text
        raise Anomaly(f"{_ATTEMPTS_MAX} messages were acknowledged, and a sync was to fail")

    def _burst(self, places: Sequence[Place]) -> None:
        """Many requests at once, of which none may succeed. Each connection is a writer: only it keeps its order."""
        wires = [connect(self.node) for _ in range(_CONNECTIONS)]
        sent: list[list[tuple[Message, Place]]] = []
        for wire in wires:
            writer = next(self._writers)
            requests = [(self._ledger.send(writer, place), place) for place in _cycled(places, _IN_FLIGHT)]
            for request in requests:
                wire.ask(_PRODUCE, _PRODUCE_VERSION, _request(*request))
            sent.append(requests)
        for wire, requests in zip(wires, sent, strict=True):
            for message, place in requests:
                code, text = self._judge(message, place, wire.answer(_PRODUCE, _PRODUCE_VERSION))
                if code != ErrorCode.KAFKA_STORAGE_ERROR:
                    raise Anomaly(f"{place} answered {code} ({text}) while no sync succeeded")
            wire.close()

    def _judge(self, message: Message, place: Place, answer: Value) -> tuple[int, str | None]:
        """Note what a writer was told; the error code and its text."""
        row = answer["responses"][0]["partition_responses"][0]
        code, text = row["error_code"], row["error_message"]
        if code == 0:
            self._ledger.acknowledge(message, place, row["base_offset"])
        elif code == ErrorCode.KAFKA_STORAGE_ERROR and text:
            self._counts["refused"] += 1
        else:
            raise Anomaly(f"{place} answered {code} ({text}), which tells a producer nothing of the disk")
        return code, text

    def _stop_unclean(self) -> None:
        try:
            self.node.stop(timeout_s=START_S_MAX)
        except NodeProcessError as error:
            if "exit status 1 " not in str(error):
                raise
            self._counts["stops_that_failed"] += 1
        else:
            raise Anomaly("a node stopped with status 0, and it could not know that its data was on disk")

    def facts(self) -> Facts:
        return self._counts | {
            "messages_acknowledged": self._ledger.acknowledged,
            "messages_found": self._ledger.found,
        }


def _cycled(places: Sequence[Place], count: int) -> Iterator[Place]:
    return itertools.islice(itertools.cycle(places), count)


def _request(message: Message, place: Place) -> Value:
    batch = encode_batch([Record(None, encode_message(message, size=100), (), 1_700_000_000_000)])
    data = [{"name": place.topic, "partition_data": [{"index": place.partition, "records": batch}]}]
    return {"acks": -1, "timeout_ms": 30_000, "topic_data": data}
