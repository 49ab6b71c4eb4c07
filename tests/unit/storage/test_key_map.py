"""The last offset of each key, in bounded memory."""

import tracemalloc

from headrace.protocol.batch import HEADER_BYTES
from headrace.protocol.records import Record, encode_batch
from headrace.storage.key_map import KEY_BYTES, KeyMap


def mapped(*keys: bytes, start_offset: int = 0) -> KeyMap:
    made = KeyMap(start_offset=start_offset, bytes_max=1 << 20)
    assert put(made, *keys, base_offset=start_offset)
    return made


def put(into: KeyMap, *keys: bytes | None, base_offset: int = 0) -> bool:
    return into.put(base_offset, payload_of(*keys), len(keys))


def payload_of(*keys: bytes | None) -> bytes:
    return encode_batch([Record(key, b"value") for key in keys])[HEADER_BYTES:]


def test_the_last_offset_of_a_key_counts() -> None:
    keys = mapped(b"a", b"b", b"a")
    assert not keys.is_last(b"a", 0)
    assert keys.is_last(b"a", 2)
    assert keys.is_last(b"b", 1)
    assert len(keys) == 2


def test_a_key_that_was_not_seen_has_no_later_record() -> None:
    assert mapped(b"a").is_last(b"other", 0)


def test_long_keys_are_told_apart() -> None:
    long, longer = bytes(1000), bytes(1001)
    keys = mapped(long, longer, long)
    assert not keys.is_last(long, 0)
    assert keys.is_last(longer, 1)


def test_a_key_of_as_many_bytes_as_a_digest_is_no_digest() -> None:
    """Were short keys and digests of one length, a key could pass for another's digest."""
    keys = mapped(b"x" * 100)
    (stored,) = keys._last
    assert not keys.is_last(b"x" * 100, -1)
    assert keys.is_last(stored, -1)


def test_offsets_of_a_range_need_no_keys() -> None:
    keys = mapped(b"a", b"b", b"a", b"c", b"b", start_offset=10)
    assert list(keys.last_offsets(10, 11)) == []
    assert list(keys.last_offsets(10, 12)) == [12]
    assert list(keys.last_offsets(13, 20)) == [13, 14]


def test_it_is_full_by_the_number_of_keys() -> None:
    keys = KeyMap(start_offset=0, bytes_max=3 * KEY_BYTES)
    assert put(keys, b"a", b"b", b"a", b"c")
    assert not put(keys, b"d", base_offset=4)
    assert len(keys) == 3


def test_records_without_a_key_and_those_before_the_start_do_not_count() -> None:
    keys = KeyMap(start_offset=11, bytes_max=1 << 20)
    assert put(keys, b"a", None, b"b", base_offset=10)
    assert keys.is_last(b"a", 0)
    assert not keys.is_last(b"b", 11)
    assert len(keys) == 1


def test_it_takes_no_more_memory_than_it_says() -> None:
    """However many keys there are: the table doubles at some of these numbers."""
    payloads = [
        (offset, payload_of(*[b"%016d" % (offset + number) for number in range(1000)]))
        for offset in range(0, 100_000, 1000)
    ]
    tracemalloc.start()
    try:
        keys = KeyMap(start_offset=0, bytes_max=1 << 30)
        for offset, payload in payloads:
            assert keys.put(2**40 + offset, payload, 1000)
            if offset >= 25_000:
                assert tracemalloc.get_traced_memory()[1] <= offset * KEY_BYTES
        keys.last_offsets(0, 1)
        assert tracemalloc.get_traced_memory()[1] <= len(keys) * KEY_BYTES
    finally:
        tracemalloc.stop()
