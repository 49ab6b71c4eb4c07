import pytest

from headrace.errors import ApiError, ErrorCode
from headrace.protocol.batch import sequence_after
from headrace.storage.producers import Producers

LAST = 2**31 - 1


class Sender:
    """One producer, whose batches are numbered by the offsets they get."""

    def __init__(self, producers: Producers | None = None) -> None:
        self.producers = producers or Producers()
        self.offset = 0

    def send(
        self, sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 7, timestamp: int = 1000
    ) -> int | None:
        """The offset of an earlier writing, or None where it was written now."""
        last_sequence = sequence_after(sequence, count - 1)
        known = self.producers.check(
            producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, last_sequence=last_sequence
        )
        if known is not None:
            return known.base_offset
        self.producers.note(
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            last_sequence=last_sequence,
            last_offset=self.offset + count - 1,
            offset_delta=count - 1,
            timestamp=timestamp,
        )
        self.offset += count
        return None

    def refused(self, sequence: int, count: int = 1, **more: int) -> ErrorCode:
        with pytest.raises(ApiError) as caught:
            self.send(sequence, count, **more)
        return caught.value.code


def test_five_batches_are_remembered() -> None:
    sender = Sender()
    for sequence in range(0, 14, 2):
        assert sender.send(sequence, 2) is None
    for sequence in range(4, 14, 2):
        assert sender.send(sequence, 2) == sequence
    assert sender.refused(2, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_part_of_a_batch_is_no_retry_of_it() -> None:
    sender = Sender()
    sender.send(0, 4)
    assert sender.refused(0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.refused(2, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.refused(0, 5) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_gap_is_refused() -> None:
    sender = Sender()
    sender.send(0)
    assert sender.refused(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.send(1) is None


@pytest.mark.parametrize("first", [LAST - 3, LAST - 2, LAST - 1, LAST])
def test_sequences_wrap(first: int) -> None:
    sender = Sender()
    assert sender.send(first, 2) is None
    following = sequence_after(first, 2)
    assert sender.refused(sequence_after(following, 1)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.send(following, 3) is None
    assert sender.send(first, 2) == 0
    assert sender.send(following, 3) == 2
    again = Sender(Producers.decode(sender.producers.encode()))
    assert again.send(first, 2) == 0
    assert again.send(following, 3) == 2
    assert again.send(sequence_after(following, 3)) is None


def test_who_is_not_remembered_may_begin_anywhere() -> None:
    assert Sender().send(4711) is None


def test_epochs_fence() -> None:
    sender = Sender()
    sender.send(0, epoch=3)
    assert sender.refused(1, epoch=2) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert sender.refused(5, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert sender.send(0, epoch=4) is None
    assert sender.refused(1, epoch=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    # What the older epoch wrote is no longer known.
    assert sender.refused(0, 2, epoch=4) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_producers_do_not_know_each_other() -> None:
    sender = Sender()
    sender.send(0, producer_id=1)
    assert sender.send(0, producer_id=2) is None
    assert len(sender.producers) == 2


def test_the_silent_are_forgotten() -> None:
    sender = Sender()
    sender.send(0, producer_id=1, timestamp=1000)
    sender.send(0, producer_id=2, timestamp=1500)
    assert sender.producers.expire(now_ms=2000, expiration_ms=1001) == 0
    assert sender.producers.expire(now_ms=2000, expiration_ms=1000) == 1
    assert list(sender.producers.statistics()) == [2]
    assert sender.send(99, producer_id=1) is None


def test_a_snapshot_remembers_all_that_is_remembered() -> None:
    sender = Sender()
    for sequence in range(8):
        sender.send(sequence, producer_id=1)
    sender.send(5, 3, epoch=2, producer_id=2)
    again = Sender(Producers.decode(sender.producers.encode()))
    assert again.producers.encode() == sender.producers.encode()
    assert again.producers.statistics() == {1: (0, 7, 7), 2: (2, 7, 10)}
    for sequence in range(3, 8):
        assert again.send(sequence, producer_id=1) == sequence
    assert again.refused(2, producer_id=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_snapshot_cut_or_changed_anywhere_is_refused() -> None:
    sender = Sender()
    sender.send(0)
    sender.send(1)
    data = sender.producers.encode()
    for size in range(len(data)):
        with pytest.raises(ValueError, match="snapshot"):
            Producers.decode(data[:size])
    for byte in range(len(data)):
        changed = bytearray(data)
        changed[byte] ^= 1
        with pytest.raises(ValueError, match="snapshot"):
            Producers.decode(bytes(changed))
    with pytest.raises(ValueError, match="snapshot"):
        Producers.decode(data + b"\0")
    assert len(Producers.decode(Producers().encode())) == 0
