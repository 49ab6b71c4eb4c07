"""Whatever the columns hold, both kernels write the very bytes that the plain encoder writes of the same rows."""

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.columnar.encoding import encode_batches, stamp
from headrace.columnar.kernel import Kernel
from headrace.columnar.partitioning import murmur2, partition_by_key
from headrace.columnar.record_columns import RecordColumns, as_columns
from headrace.columnar.schema import COLUMNS
from headrace.protocol.compression import Codec
from headrace.protocol.records import Record, encode_batch
from tests.columnar_values import KERNELS_HERE, both_kernels
from tests.record_values import records

few = settings(max_examples=40, deadline=None, derandomize=True)
some_records = st.lists(records() | st.just(Record(key=b"k", value=b"no time")), max_size=30)
byte_types = st.sampled_from((pa.binary(), pa.large_binary()))


def columns_of(written: list[Record], *, key_type: pa.DataType, spare: int) -> RecordColumns:
    """The records as columns; `spare` rows before and behind them are cut off again, to leave slices."""
    filler = [Record(key=b"spare", value=b"spare", headers=(("spare", b"spare"),))] * spare
    rows = filler + written + filler

    def cut(array: pa.Array) -> pa.Array:
        return array.slice(spare, len(written))

    headers = [[{"key": name, "value": value} for name, value in record.headers] for record in rows]
    return as_columns(
        key=cut(pa.array([record.key for record in rows], key_type)),
        value=cut(pa.array([record.value for record in rows], pa.binary())),
        headers=cut(pa.array(headers, COLUMNS["headers"])),
        timestamps=np.array([record.timestamp_ms for record in written], np.int64),
    )


@both_kernels
@few
@given(
    written=some_records,
    key_type=byte_types,
    spare=st.integers(0, 2),
    batch_bytes=st.sampled_from((1, 200, 1000, 16_384, 1 << 20)),
    codec=st.sampled_from(Codec),
    data=st.data(),
)
def test_batches_are_the_plain_encoders(
    kernel: Kernel,
    written: list[Record],
    key_type: pa.DataType,
    spare: int,
    batch_bytes: int,
    codec: Codec,
    data: st.DataObject,
) -> None:
    columns = columns_of(written, key_type=key_type, spare=spare)
    rows = data.draw(st.none() | st.lists(st.sampled_from(range(len(written) or 1)), max_size=2 * len(written)))
    chosen = None if rows is None else np.array(rows, np.int64)
    expected = written if rows is None else [written[row] for row in rows]

    batches = encode_batches(columns, chosen, batch_bytes=batch_bytes, codec=codec, kernel=kernel)
    done = 0
    for batch in batches:
        assert batch.first_row == done
        part = expected[done : done + batch.record_count]
        plain = encode_batch(part, codec=codec)
        assert bytes(batch.data) == plain
        assert batch.record_count == 1 or len(encode_batch(part)) <= batch_bytes
        done += batch.record_count
        stamp(batch, producer_id=4_000, producer_epoch=3, base_sequence=done)
        assert bytes(batch.data) == encode_batch(
            part, codec=codec, producer_id=4_000, producer_epoch=3, base_sequence=done
        )
    assert done == len(expected)


@both_kernels
@few
@given(sizes=st.lists(st.integers(0, 400), min_size=1, max_size=200), batch_bytes=st.integers(200, 4_000))
def test_batches_are_nearly_full(kernel: Kernel, sizes: list[int], batch_bytes: int) -> None:
    written = [Record(key=None, value=bytes(size), timestamp_ms=7) for size in sizes]
    columns = columns_of(written, key_type=pa.binary(), spare=0)
    batches = encode_batches(columns, None, batch_bytes=batch_bytes, codec=Codec.NONE, kernel=kernel)
    for batch in batches[:-1]:
        following = sizes[batch.first_row + batch.record_count]
        assert len(batch.data) + following + 10 + 4 * batch.record_count > batch_bytes


def plain_murmur2(key: bytes) -> int:
    """From the definition, one key at a time."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    value = 0x9747B28C ^ len(key)
    words = len(key) // 4
    for index in range(words):
        word = int.from_bytes(key[4 * index : 4 * index + 4], "little") * factor & mask
        value = (value * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if tail := key[4 * words :]:
        value = (value ^ int.from_bytes(tail, "little")) * factor & mask
    value = (value ^ value >> 13) * factor & mask
    value ^= value >> 15
    return value - (1 << 32) if value >> 31 else value


@few
@given(
    keys=st.lists(
        st.none() | st.binary(max_size=40) | st.builds(lambda byte: byte * 1_001, st.binary(max_size=2)), max_size=60
    ),
    spare=st.integers(0, 2),
    partition_count=st.integers(1, 5_000),
)
def test_every_key_is_hashed_as_by_the_definition(keys: list[bytes | None], spare: int, partition_count: int) -> None:
    array = pa.array([b"spare"] * spare + keys + [b"spare"], pa.binary()).slice(spare, len(keys))
    hashes = [plain_murmur2(key or b"") for key in keys]
    for kernel in KERNELS_HERE:
        assert murmur2(array, kernel=kernel).tolist() == hashes
        assert partition_by_key(array, partition_count, kernel=kernel).tolist() == [
            -1 if key is None else (value & 0x7FFFFFFF) % partition_count
            for key, value in zip(keys, hashes, strict=True)
        ]
