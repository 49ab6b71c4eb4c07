import pytest

from headrace.columnar.opening import AbortedTransactions, Opened, open_batches
from headrace.errors import CorruptBatch
from headrace.protocol.batch import make_batch, parse_header
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch

ROOM_BYTES = 1 << 20


def batch(base_offset: int = 0, *, count: int = 2, codec: Codec = Codec.NONE, **fields: int | bool) -> bytes:
    records = [Record(key=b"key", value=b"value %d" % index, timestamp_ms=7) for index in range(count)]
    return encode_batch(records, base_offset=base_offset, codec=codec, **fields)  # type: ignore[arg-type]


def transactional(base_offset: int, *, producer_id: int) -> bytes:
    return batch(base_offset, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def marker(offset: int, *, producer_id: int, abort: bool) -> bytes:
    record = Record(key=b"\0\0\0\0" if abort else b"\0\0\0\1", value=bytes(6))
    return encode_batch(
        [record], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True, control=True
    )


def opened(data: bytes, aborted: AbortedTransactions | None = None, *, room_bytes: int = ROOM_BYTES) -> Opened:
    return open_batches(data, aborted=aborted, decompressed_bytes_max=room_bytes)


def offsets(one: Opened) -> list[int]:
    return [int(offset) for offset in one.batches["base_offset"]]


def payloads(one: Opened) -> list[bytes]:
    return [one.data[int(row["start"]) : int(row["end"])].tobytes() for row in one.batches]


def test_uncompressed_payloads_stay_where_they_were_fetched() -> None:
    first, second = batch(5), batch(7, count=3)
    result = opened(first + second)
    assert payloads(result) == [first[61:], second[61:]]
    assert result.data.tobytes() == first + second
    assert result.batches["record_count"].tolist() == [2, 3]
    assert result.record_count == 5
    assert result.next_offset == 10
    assert not len(result.unopened)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec_beside_no_compression(codec: Codec) -> None:
    result = opened(batch(0, codec=codec) + batch(2))
    assert payloads(result) == [batch(0)[61:], batch(2)[61:]]


@pytest.mark.parametrize("data", [b"", b"\0" * 16])
def test_nothing_to_open(data: bytes) -> None:
    result = opened(data)
    assert (len(result.batches), result.next_offset, result.record_count) == (0, None, 0)


def test_a_batch_cut_anywhere_is_left_out() -> None:
    whole, cut = batch(0), batch(2)
    for size in range(len(cut)):
        result = opened(whole + cut[:size])
        assert offsets(result) == [0]
        assert result.next_offset == 2


def test_next_offset_counts_what_compaction_took() -> None:
    emptied = encode_batch([], base_offset=4, last_offset_delta=9, producer_id=3, producer_epoch=0, base_sequence=0)
    result = opened(batch(0) + emptied)
    assert offsets(result) == [0]
    assert result.next_offset == 14


def test_control_batches_are_skipped_and_count() -> None:
    result = opened(batch(0) + marker(2, producer_id=9, abort=False))
    assert offsets(result) == [0]
    assert result.next_offset == 3


def test_a_flipped_bit_anywhere_under_the_crc_is_found() -> None:
    whole = batch(30)
    for position in range(17, len(whole)):
        broken = bytearray(batch(0) + whole)
        broken[len(batch(0)) + position] ^= 0x10
        with pytest.raises(CorruptBatch, match="CRC of the batch at offset 30"):
            opened(bytes(broken))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"magic": 0}, "offset 30 is of the old format 0"),
        ({"magic": 1}, "offset 30 is of the old format 1"),
        ({"magic": 3}, "offset 30 is of an unknown format: magic 3"),
        ({"record_count": -1}, "offset 30 has a record_count of -1"),
        ({"record_count": 50}, "offset 30 is too short for its 50 records"),
        ({"last_offset_delta": -2}, "offset 30 has a last_offset_delta of -2"),
        ({"attributes": 5}, "offset 30: there is no compression codec 5"),
        ({"attributes": 4}, "offset 30: records do not decompress"),
    ],
)
def test_wrong_headers(change: dict[str, int], complaint: str) -> None:
    whole = batch(30)
    changed = make_batch(parse_header(whole)._replace(**change), whole[61:])
    with pytest.raises(CorruptBatch, match=complaint):
        opened(batch(0) + changed)


def test_a_batch_that_is_shorter_than_its_header() -> None:
    broken = bytearray(batch(30))
    broken[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptBatch, match="offset 30 says it has 48 bytes"):
        opened(bytes(broken))


def test_an_old_message_shorter_than_a_header_is_named_too() -> None:
    message = (30).to_bytes(8, "big") + (14).to_bytes(4, "big") + bytes(4) + b"\1" + bytes(21)
    with pytest.raises(CorruptBatch, match="offset 30 is of the old format 1"):
        opened(message)


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_refused_within_its_room(codec: Codec) -> None:
    bomb = encode_batch([Record(key=None, value=bytes(4 << 20))], base_offset=30, codec=codec)
    with pytest.raises(CorruptBatch, match="the batch at offset 30: records do not decompress within 65536 bytes"):
        opened(bomb, room_bytes=65_536)


def test_what_does_not_fit_is_left_for_another_opening() -> None:
    parts = [encode_batch([Record(key=None, value=bytes(400))], base_offset=n, codec=Codec.GZIP) for n in range(5)]
    rest: bytes | memoryview = b"".join(parts)
    seen, next_offsets = [], []
    while len(rest):
        result = open_batches(rest, aborted=None, decompressed_bytes_max=1_000)
        seen.append(offsets(result))
        next_offsets.append(result.next_offset)
        rest = result.unopened
    assert seen == [[0, 1], [2, 3], [4]]
    assert next_offsets == [2, 4, 5]


def test_a_corrupt_batch_behind_others_is_not_taken_for_one_without_room() -> None:
    whole = encode_batch([Record(key=None, value=bytes(400))], base_offset=30)
    broken = make_batch(parse_header(whole)._replace(attributes=int(Codec.ZSTD)), whole[61:])
    with pytest.raises(CorruptBatch, match="the batch at offset 30: records do not decompress"):
        opened(batch(0, codec=Codec.GZIP) + broken)


# Transactions.


def aborted(*entries: tuple[int, int]) -> AbortedTransactions:
    return AbortedTransactions([{"producer_id": producer, "first_offset": first} for producer, first in entries])


def test_aborted_records_are_skipped_until_the_marker() -> None:
    data = (
        transactional(0, producer_id=1)
        + transactional(2, producer_id=2)
        + batch(4)
        + transactional(6, producer_id=1)
        + marker(8, producer_id=1, abort=True)
        + marker(9, producer_id=2, abort=False)
        + transactional(10, producer_id=1)
        + marker(12, producer_id=1, abort=False)
    )
    result = opened(data, aborted((1, 0)))
    assert offsets(result) == [2, 4, 10]
    assert result.next_offset == 13
    assert offsets(opened(data)) == [0, 2, 4, 6, 10]
    assert offsets(opened(data, AbortedTransactions(None))) == [0, 2, 4, 6, 10]


def test_a_producer_may_abort_again() -> None:
    data = (
        transactional(0, producer_id=1)
        + marker(2, producer_id=1, abort=True)
        + transactional(3, producer_id=1)
        + marker(5, producer_id=1, abort=False)
        + transactional(6, producer_id=1)
        + marker(8, producer_id=1, abort=True)
    )
    assert offsets(opened(data, aborted((1, 6), (1, 0)))) == [3]


def test_a_transaction_that_began_before_the_fetch() -> None:
    data = transactional(50, producer_id=1) + marker(52, producer_id=1, abort=True) + transactional(53, producer_id=1)
    assert offsets(opened(data, aborted((1, 3)))) == [53]


def test_what_is_not_transactional_is_nobodys_to_abort() -> None:
    plain = batch(0, producer_id=1, producer_epoch=0, base_sequence=0)
    assert offsets(opened(plain, aborted((1, 0)))) == [0]


def test_an_emptied_marker_ends_nothing() -> None:
    emptied = encode_batch(
        [], base_offset=2, last_offset_delta=0, producer_id=1, producer_epoch=0, transactional=True, control=True
    )
    data = transactional(0, producer_id=1) + emptied + transactional(3, producer_id=1)
    assert offsets(opened(data, aborted((1, 0)))) == []


def test_state_carries_over_what_was_left_unopened() -> None:
    def large(offset: int, producer_id: int) -> bytes:
        return encode_batch(
            [Record(key=None, value=bytes(400))],
            base_offset=offset, codec=Codec.GZIP, producer_id=producer_id, producer_epoch=0, base_sequence=0,
            transactional=True,
        )  # fmt: skip

    data: bytes | memoryview = (
        large(0, 2) + large(1, 1) + large(2, 2) + large(3, 2) + large(4, 1) + marker(5, producer_id=1, abort=True)
        + large(6, 1) + large(7, 2)
    )  # fmt: skip
    transactions, seen = aborted((1, 1)), []
    while len(data):
        result = open_batches(data, aborted=transactions, decompressed_bytes_max=500)
        seen += offsets(result)
        data = result.unopened
    assert seen == [0, 2, 3, 6, 7]


def test_a_marker_without_a_type_is_corrupt() -> None:
    odd = encode_batch(
        [Record(key=b"\0\0", value=None)],
        base_offset=2, producer_id=1, producer_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    with pytest.raises(CorruptBatch, match="offset 2: a control record with a key of 2 bytes"):
        opened(transactional(0, producer_id=1) + odd, aborted((1, 0)))
