"""Reading back notices a bad batch, a gap, a falling epoch and anything that changed."""

import pytest

from headrace.protocol.records import Record, encode_batch
from tests.proofs import readback
from tests.proofs.ledger import Anomaly, Place
from tests.proofs.readback import Reading

PLACE = Place("topic", 0)


def batch(base_offset: int, *values: bytes, epoch: int = 0) -> bytes:
    return encode_batch([Record(None, value) for value in values], base_offset=base_offset, leader_epoch=epoch)


class FakeLog:
    """Serves its batches two at a time."""

    def __init__(self, *batches: bytes, high_watermark: int | None = None) -> None:
        self.batches = list(batches)
        self._high_watermark = high_watermark

    def fetch(self, wire: object, place: Place, offset: int, **_: object) -> dict[str, object]:
        starts = [int.from_bytes(one[:8], "big") for one in self.batches]
        served = [one for start, one in zip(starts, self.batches, strict=True) if start >= offset]
        end = self._high_watermark if self._high_watermark is not None else max(starts, default=-1) + 1
        return {"error_code": 0, "high_watermark": end, "records": b"".join(served[:2])}


def read(monkeypatch: pytest.MonkeyPatch, reading: Reading, log: FakeLog) -> list[tuple[int, bytes | None]]:
    monkeypatch.setattr(readback, "fetch", log.fetch)
    found: list[tuple[int, bytes | None]] = []
    reading.read(None, lambda offset, value: found.append((offset, value)))  # type: ignore[arg-type]
    return found


def test_what_is_new_is_given_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog(batch(0, b"a"), batch(1, b"b"), batch(2, b"c"))
    reading = Reading(PLACE)
    assert read(monkeypatch, reading, log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    log.batches.append(batch(3, b"d"))
    assert read(monkeypatch, reading, log) == [(3, b"d")]
    assert read(monkeypatch, reading, log) == []
    assert reading.end_offset == 4


def test_a_change_of_what_was_read_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    log = FakeLog(batch(0, b"a"), batch(1, b"b"))
    for more in ([], [batch(2, b"c")]):
        reading = Reading(PLACE)
        read(monkeypatch, reading, log)
        with pytest.raises(Anomaly, match="has changed"):
            read(monkeypatch, reading, FakeLog(batch(0, b"a"), batch(1, b"B"), *more))


def test_a_log_that_became_shorter_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(PLACE)
    read(monkeypatch, reading, FakeLog(batch(0, b"a"), batch(1, b"b")))
    with pytest.raises(Anomaly, match="ends at 1"):
        read(monkeypatch, reading, FakeLog(batch(0, b"a")))


def test_a_wrong_crc_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = bytearray(batch(0, b"a"))
    bad[-1] ^= 1
    with pytest.raises(Anomaly, match="CRC"):
        read(monkeypatch, Reading(PLACE), FakeLog(bytes(bad)))


def test_a_gap_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Anomaly, match="offset 2 where 1 was due"):
        read(monkeypatch, Reading(PLACE), FakeLog(batch(0, b"a"), batch(2, b"c")))


def test_a_falling_epoch_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Anomaly, match="epoch 3"):
        read(monkeypatch, Reading(PLACE), FakeLog(batch(0, b"a", epoch=4), batch(1, b"b", epoch=3)))


def test_silence_below_the_high_watermark_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Anomaly, match="nothing is served at 1"):
        read(monkeypatch, Reading(PLACE), FakeLog(batch(0, b"a"), high_watermark=2))
