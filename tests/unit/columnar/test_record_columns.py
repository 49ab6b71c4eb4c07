import numpy as np
import pyarrow as pa
import pytest

from headrace.columnar.record_columns import ByteColumn, as_byte_column, as_columns
from headrace.errors import ConfigError

WORDS = [b"one", None, b"", b"three", b"four"]
PAIRS = [("key", pa.string()), ("value", pa.binary())]


def cells(column: ByteColumn) -> list[bytes | None]:
    data = column.data.tobytes()
    return [
        None
        if column.valid is not None and not column.valid[row]
        else data[column.offsets[row] : column.offsets[row + 1]]
        for row in range(len(column))
    ]


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_every_type_of_bytes_whole_sliced_and_in_chunks(kind: pa.DataType) -> None:
    array = pa.array([word if word is None or "binary" in str(kind) else word.decode() for word in WORDS], kind)
    assert cells(as_byte_column(array, what="key")) == WORDS
    assert cells(as_byte_column(array[1:4], what="key")) == WORDS[1:4]
    assert cells(as_byte_column(array[:0], what="key")) == []
    chunks = pa.chunked_array([array[3:], array[:0], array[:2]])
    assert cells(as_byte_column(chunks, what="key")) == WORDS[3:] + WORDS[:2]
    assert cells(as_byte_column(pa.chunked_array([], kind), what="key")) == []
    assert as_byte_column(array, what="key").sizes().tolist() == [3, -1, 0, 5, 4]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_string()], ids=str)
def test_dictionaries(kind: pa.DataType) -> None:
    words = [b"a", None, b"b", b"a"]
    array = pa.array([word if word is None or "binary" in str(kind) else word.decode() for word in words], kind)
    encoded = array.dictionary_encode()
    assert cells(as_byte_column(encoded[1:], what="value")) == words[1:]
    assert cells(as_byte_column(pa.chunked_array([encoded, encoded]), what="value")) == words * 2


def test_fixed_sizes_and_nothing_at_all() -> None:
    fixed = pa.array([b"abc", None, b"def"], pa.binary(3))
    assert cells(as_byte_column(fixed[1:], what="key")) == [None, b"def"]
    assert cells(as_byte_column(pa.nulls(2), what="key")) == [None, None]


def test_bytes_are_not_copied() -> None:
    array = pa.array([b"one", b"two"])
    column = as_byte_column(array, what="key")
    assert column.data.ctypes.data == array.buffers()[2].address


def test_what_is_hidden_behind_a_null_stays_hidden() -> None:
    whole = pa.array([b"seen", b"hidden"])
    valid = pa.py_buffer(bytes([0b01]))
    half = pa.Array.from_buffers(pa.binary(), 2, [valid, *whole.buffers()[1:]])
    column = as_byte_column(half, what="key")
    assert cells(column) == [b"seen", None]
    assert column.to_arrow().to_pylist() == [b"seen", None]


@pytest.mark.parametrize(
    ("column", "complaint"),
    [
        ({"key": pa.array([1, 2])}, "the key of a record is bytes, .* not int64"),
        ({"value": pa.array([[b"a"], [b"b"]])}, "the value of a record is bytes, .* not list"),
        ({"value": pa.array([1.5, 2.5]).dictionary_encode()}, "the value of a record is bytes"),
        ({"headers": pa.array([b"a", b"b"])}, "headers are a list of structs"),
        ({"headers": pa.array([["a"], ["b"]])}, "headers are a list of structs"),
        ({"headers": pa.array([[{"name": "a", "value": b""}], []])}, "headers are a list of structs"),
        ({"headers": pa.array([[{"key": 1, "value": b""}], []])}, "the key of a header of a record is bytes"),
        ({"headers": pa.array([[{"key": None, "value": b""}], []], pa.list_(pa.struct(PAIRS)))}, "header has no key"),
        ({"key": pa.array([b"a"])}, "1 rows of key, but 2 timestamps"),
    ],
)
def test_what_no_record_can_hold(column: dict[str, pa.Array], complaint: str) -> None:
    given: dict[str, pa.Array | None] = {"key": None, "value": None, "headers": None} | column
    with pytest.raises(ConfigError, match=complaint):
        as_columns(key=given["key"], value=given["value"], headers=given["headers"], timestamps=np.zeros(2, np.int64))


HEADERS = [[("a", b"1")], None, [("b", None), ("b", b"")], []]


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.binary()),
        pa.list_(pa.struct(PAIRS)),
        pa.large_list(pa.struct(PAIRS)),
        pa.list_(pa.struct(list(reversed(PAIRS)))),
    ],
    ids=str,
)
@pytest.mark.parametrize("start", [0, 1, 2])
def test_headers_of_every_type(kind: pa.DataType, start: int) -> None:
    rows = [
        row if row is None or pa.types.is_map(kind) else [{"key": name, "value": value} for name, value in row]
        for row in HEADERS
    ]
    array = pa.array(rows, kind)[start:]
    for given in (array, pa.chunked_array([array[:1], array[1:]])):
        headers = as_columns(key=None, value=None, headers=given, timestamps=np.zeros(len(array), np.int64)).headers
        assert headers is not None
        pairs = list(zip(cells(headers.names), cells(headers.values), strict=True))
        found = [
            pairs[first : first + count]
            for first, count in zip(headers.firsts.tolist(), headers.counts.tolist(), strict=True)
        ]
        assert found == [[(name.encode(), value) for name, value in row or []] for row in HEADERS[start:]]
