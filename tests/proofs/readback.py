"""Reading partitions back over the bare protocol, byte by byte as they are served.

No client library stands between: every batch's CRC is checked here, offsets must run without a gap (but in a compacted
log), and leader epochs must not fall. What was read once must be the same bytes when it is read again.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from headrace.errors import CorruptBatch
from headrace.protocol.batch import BatchHeader, whole_batches
from headrace.protocol.records import decode_records
from headrace.protocol.schema import Value
from tests.hostile.target import Wire
from tests.proofs.ledger import Anomaly, Place

FETCH_BYTES: Final = 4 << 20
DEADLINE_S: Final = 60.0

OnRecord = Callable[[int, bytes | None], object]


def fetch(wire: Wire, place: Place, offset: int, *, bytes_max: int = FETCH_BYTES) -> Value:
    """The answer's row for the partition, whatever it says."""
    asked = [{"partition": place.partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}]
    request = {
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "session_epoch": -1,
        "topics": [{"topic": place.topic, "partitions": asked}],
    }
    row: Value = wire.call(1, 11, request)["responses"][0]["partitions"][0]
    return row


def batches(wire: Wire, place: Place, *, is_compacted: bool = False) -> Iterator[tuple[BatchHeader, bytes]]:
    """Every batch that is visible, whole and in order; Anomaly where one should never have been served.

    Only compaction may leave gaps between them.
    """
    offset, epoch = 0, -1
    while True:
        row = fetch(wire, place, offset)
        if row["error_code"] != 0:
            raise Anomaly(f"{place}: error {row['error_code']} at offset {offset}")
        start = offset
        records = row["records"] or b""
        try:
            for position, header in whole_batches(records):
                if header.base_offset < offset or (header.base_offset > offset and not is_compacted):
                    raise Anomaly(f"{place}: a batch at offset {header.base_offset} where {offset} was due")
                if header.leader_epoch < epoch:
                    raise Anomaly(f"{place}: epoch {header.leader_epoch} at offset {offset}, behind {epoch}")
                offset, epoch = header.last_offset + 1, header.leader_epoch
                yield header, records[position : position + header.size_bytes]
        except CorruptBatch as error:
            raise Anomaly(f"{place}: a bad batch was served after offset {offset}: {error}") from error
        if offset == start:
            if offset < row["high_watermark"]:
                raise Anomaly(f"{place}: nothing is served at {offset}, below {row['high_watermark']}")
            return


class Reading:
    """One partition, read again and again as it grows."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.end_offset = 0
        self.batches = 0  # Of all readings together, as are the bytes.
        self.bytes = 0
        self.epoch = -1
        self._digest = hashlib.blake2b().digest()

    def read(self, wire: Wire, on_record: OnRecord) -> None:
        """From the start: what was read before is compared, what is new is given out record by record."""
        known_end, end_offset = self.end_offset, 0
        digest = hashlib.blake2b()
        for header, batch in batches(wire, self.place):
            if end_offset == known_end:
                self._check_known(digest.digest())
            digest.update(batch)
            end_offset = header.last_offset + 1
            self.batches += 1
            self.bytes += len(batch)
            self.epoch = header.leader_epoch
            if header.base_offset >= known_end:
                for record in decode_records(batch):
                    on_record(record.offset, record.value)
        if end_offset < known_end:
            raise Anomaly(f"{self.place}: ends at {end_offset}, and was read up to {known_end} before")
        if end_offset == known_end:
            self._check_known(digest.digest())
        self.end_offset, self._digest = end_offset, digest.digest()

    def _check_known(self, digest: bytes) -> None:
        if digest != self._digest:
            raise Anomaly(f"{self.place}: what was read before offset {self.end_offset} has changed")


def leader_epochs(wire: Wire, topics: Sequence[str]) -> dict[Place, int]:
    answer = wire.call(3, 9, {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False})
    return {
        Place(topic["name"], partition["partition_index"]): partition["leader_epoch"]
        for topic in answer["topics"]
        for partition in topic["partitions"]
    }


def wait_visible(wire: Wire, ends: Mapping[Place, int], *, deadline_s: float = DEADLINE_S) -> None:
    """Until consumers are shown everything before these offsets."""
    give_up_s = time.monotonic() + deadline_s
    for place, end_offset in ends.items():
        while (shown := fetch(wire, place, 0, bytes_max=1)["high_watermark"]) < end_offset:
            if time.monotonic() > give_up_s:
                raise Anomaly(f"{place}: {shown} messages are shown where {end_offset} were sent")
            time.sleep(0.02)


def create_topic(wire: Wire, topic: str, *, partitions: int, settings: Mapping[str, str]) -> int:
    """The error code."""
    row = {
        "name": topic,
        "num_partitions": partitions,
        "replication_factor": 1,
        "configs": [{"name": name, "value": value} for name, value in settings.items()],
    }
    answer = wire.call(19, 5, {"topics": [row], "timeout_ms": 60_000})
    code: int = answer["topics"][0]["error_code"]
    return code
