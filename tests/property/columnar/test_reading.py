"""Whatever a batch holds, both kernels read what the plain decoder reads, or refuse it as it does."""

from itertools import accumulate

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from headrace.columnar import vectorised
from headrace.columnar.decoding import decode
from headrace.columnar.kernel import Kernel, Malformed
from headrace.columnar.opening import open_batches
from headrace.columnar.schema import COLUMNS
from headrace.errors import CorruptBatch
from headrace.protocol.batch import make_batch, parse_header
from headrace.protocol.compression import Codec
from headrace.protocol.primitives import write_varint, write_varlong
from headrace.protocol.records import Record, decode_records, encode_batch
from tests.columnar_values import COMPILED, KERNELS_HERE, both_kernels, decoded_rows, plain_rows
from tests.record_values import records

few = settings(max_examples=40, deadline=None, derandomize=True)
codecs = st.sampled_from(Codec)
some_records = st.lists(records() | st.just(Record(key=None, value=b"no time")), max_size=8)


@st.composite
def batch_lists(draw: st.DrawFn) -> list[bytes]:
    """Batches with gaps within and between them, some of them empty; or so many that they are walked in step."""
    made = []
    offset = draw(st.integers(0, 1 << 60))
    for written in draw(st.lists(some_records, max_size=4)):
        gaps = draw(st.lists(st.sampled_from((1, 1, 1, 2, 1 << 15)), min_size=len(written), max_size=len(written)))
        ends = list(accumulate(gaps, initial=offset))
        placed = [record._replace(offset=end - 1) for record, end in zip(written, ends[1:], strict=True)]
        made.append(
            encode_batch(
                placed,
                base_offset=offset,
                codec=draw(codecs),
                append_time_ms=draw(st.none() | st.integers(0, 1 << 45)),
                keep_offsets=True,
                last_offset_delta=max(0, ends[-1] - 1 - offset),
            )
        )
        offset = ends[-1] + 1
    return made * draw(st.sampled_from((1, 1, 1, 40)))


@both_kernels
@few
@given(batches=batch_lists(), cut_bytes=st.integers(0, 60))
def test_rows_are_the_plain_decoders(kernel: Kernel, batches: list[bytes], cut_bytes: int) -> None:
    rest = batches[-1][:cut_bytes] if batches else b""
    assert decoded_rows(b"".join(batches) + rest, kernel) == plain_rows(batches)


@both_kernels
@few
@given(batches=batch_lists(), data=st.data())
def test_offsets_and_columns_choose(kernel: Kernel, batches: list[bytes], data: st.DataObject) -> None:
    everything = plain_rows(batches)
    offsets = st.sampled_from([int(str(row["offset"])) for row in everything] or [0]).flatmap(
        lambda offset: st.integers(offset - 1, offset + 1)
    )
    first_offset, end_offset = data.draw(offsets), data.draw(st.none() | offsets)
    columns = tuple(data.draw(st.permutations(list(COLUMNS)))[: data.draw(st.integers(1, len(COLUMNS)))])
    expected = [
        {name: row[name] for name in columns}
        for row in everything
        if first_offset <= int(str(row["offset"])) and (end_offset is None or int(str(row["offset"])) < end_offset)
    ]
    assert (
        decoded_rows(b"".join(batches), kernel, columns=columns, first_offset=first_offset, end_offset=end_offset)
        == expected
    )


def _with_payload(payload: bytes, *, count: int, base_timestamp: int = 0) -> bytes:
    """A batch at offset 5 that is right outside, whatever is inside."""
    header = parse_header(encode_batch([Record(key=None, value=None)], base_offset=5))
    return make_batch(header._replace(record_count=count, base_timestamp=base_timestamp), payload)


def _outcome(batch: bytes, kernel: Kernel, columns: tuple[str, ...]) -> object:
    try:
        return decoded_rows(batch, kernel, columns=columns)
    except CorruptBatch as error:
        return CorruptBatch if "offset 5" in str(error) else f"does not say where: {error}"


def _plain_outcome(batch: bytes, columns: tuple[str, ...]) -> object:
    try:
        decode_records(batch)
        rows = plain_rows([batch])
    except CorruptBatch:
        return CorruptBatch
    for row in rows:
        for name in ("offset", "timestamp"):
            if not -(1 << 63) <= int(str(row[name] or 0)) < 1 << 63:
                return CorruptBatch
    return [{name: row[name] for name in columns} for row in rows]


@st.composite
def odd_payloads(draw: st.DrawFn) -> tuple[bytes, int]:
    """Records with anything in place of their numbers: too large, negative, in more bytes than needed."""
    count = draw(st.integers(1, 3))
    payload = bytearray()
    for _ in range(count):
        body = bytearray(1)
        for field in ("timestamp", "offset", "key", "value", "headers"):
            content = b"content"[: draw(st.integers(0, 7))] if field in ("key", "value") else b""
            oddity = draw(st.sampled_from(("none",) * 12 + ("null", "padded", "large", "varlong", "noise")))
            match oddity:
                case "none":
                    body += _varint(len(content))
                case "null":
                    body += _varint(draw(st.sampled_from((-1, -(1 << 31)))))
                    content = b""
                case "padded":
                    body += _padded_varint(len(content), draw(st.integers(1, 6)))
                case "large":
                    body += _varint(draw(st.sampled_from((1, 64, 9000, 1 << 21, (1 << 31) - 1))))
                case "varlong":
                    body += _varlong(draw(st.sampled_from((1 << 32, 1 << 50, (1 << 63) - 1, -(1 << 63)))))
                case _:
                    body += draw(st.binary(max_size=11))
            body += content
        size = len(body) + draw(st.sampled_from((0,) * 12 + (1, -1, -1000)))
        payload += _padded_varint(size, draw(st.sampled_from((0, 0, 2, 4))))
        payload += body
    return bytes(payload), count


def _varint(value: int) -> bytes:
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def _varlong(value: int) -> bytes:
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def _padded_varint(value: int, more_bytes: int) -> bytes:
    """The same number, written in more bytes than it needs."""
    out = bytearray(_varint(value))
    for _ in range(more_bytes):
        out[-1] |= 0x80
        out.append(0)
    return bytes(out)


@settings(few, max_examples=300)
@given(
    odd=odd_payloads(),
    base_timestamp=st.sampled_from((0, 0, (1 << 63) - 5, -(1 << 63))),
    columns=st.sampled_from((tuple(COLUMNS), ("offset",), ("headers",), ("value", "timestamp"))),
    batch_count=st.sampled_from((1, 1, 40)),
)
def test_odd_records_are_read_or_refused_as_by_the_plain_decoder(
    odd: tuple[bytes, int], base_timestamp: int, columns: tuple[str, ...], batch_count: int
) -> None:
    batch = _with_payload(odd[0], count=odd[1], base_timestamp=base_timestamp)
    plain = _plain_outcome(batch, columns)
    expected = plain * batch_count if isinstance(plain, list) else plain
    event("read" if isinstance(plain, list) else "refused")
    for kernel in KERNELS_HERE:
        assert _outcome(batch * batch_count, kernel, columns) == expected


@settings(few, max_examples=200)
@given(
    written=st.lists(records(), min_size=1, max_size=6),
    at=st.floats(0, 1, exclude_max=True),
    byte=st.integers(0, 255),
    cut_bytes=st.integers(0, 3),
    count_change=st.sampled_from((0, 0, 0, 1, -1, 1000)),
)
def test_damaged_payloads_are_read_or_refused_as_by_the_plain_decoder(
    written: list[Record], at: float, byte: int, cut_bytes: int, count_change: int
) -> None:
    payload = bytearray(encode_batch(written)[61:])
    payload[int(at * len(payload))] = byte
    batch = _with_payload(bytes(payload[: len(payload) - cut_bytes]), count=len(written) + count_change)
    columns = ("offset", "timestamp", "key", "value")  # Names of headers may be no text by now.
    for kernel in KERNELS_HERE:
        assert _outcome(batch, kernel, columns) == _plain_outcome(batch, columns)


@pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
@few
@given(batches=batch_lists())
def test_both_kernels_locate_alike(batches: list[bytes]) -> None:
    assert COMPILED is not None
    opened = open_batches(b"".join(batches), aborted=None, decompressed_bytes_max=1 << 26)
    for headers in (False, True):
        in_numpy = vectorised.locate(opened.data, opened.batches, headers=headers)
        in_c = COMPILED.locate(opened.data, opened.batches, headers=headers)
        pairs = [(in_numpy.offsets, in_c.offsets), (in_numpy.timestamps, in_c.timestamps)]
        pairs += [(in_numpy.header_counts, in_c.header_counts)]
        for mine, other in (
            (in_numpy.keys, in_c.keys),
            (in_numpy.values, in_c.values),
            (in_numpy.header_names, in_c.header_names),
            (in_numpy.header_values, in_c.header_values),
        ):
            assert (mine is None) == (other is None)
            if mine is not None and other is not None:
                pairs += [(mine.starts, other.starts), (mine.sizes, other.sizes)]
        for one, two in pairs:
            assert one.dtype == two.dtype
            assert np.array_equal(one, two)


@both_kernels
@settings(few, max_examples=200)
@given(noise=st.binary(max_size=200), count=st.integers(1, 30))
def test_noise_never_leaves_the_data(kernel: Kernel, noise: bytes, count: int) -> None:
    batch = _with_payload(noise, count=count)
    try:
        opened = open_batches(batch, aborted=None, decompressed_bytes_max=1 << 20)
    except CorruptBatch:
        return  # Too short for so many.
    try:
        kernel.locate(opened.data, opened.batches, headers=True)
    except Malformed:
        with pytest.raises(CorruptBatch, match="offset 5"):
            decode(opened, topic="t", partition=0, columns=["offset"], first_offset=0, end_offset=None, kernel=kernel)
    else:
        decode_records(batch)
