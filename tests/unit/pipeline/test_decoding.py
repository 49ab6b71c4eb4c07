"""A record is a row or a dead letter, never neither and never both."""

import pyarrow as pa

from headrace.columnar.schema import COLUMNS, schema_of
from headrace.ids import TopicName
from headrace.pipeline.columns import DEAD_LETTERS, RAW
from headrace.pipeline.decoding import RawDecoder
from headrace.pipeline.origins import Origin

ORIGIN = Origin("cluster", TopicName("clicks"), "id-1")


def batch(*times_ms: int | None, first: int = 0) -> pa.RecordBatch:
    count = len(times_ms)
    columns = {
        "topic": ["clicks"] * count,
        "partition": [3] * count,
        "offset": list(range(first, first + count)),
        "timestamp": pa.array(times_ms, pa.int64()).cast(COLUMNS["timestamp"]),
        "timestamp_type": [0] * count,
        "key": [None] * count,
        "value": [b"v%d" % index for index in range(count)],
        "headers": [[{"key": "h", "value": None}]] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=schema_of(list(COLUMNS)))


def test_a_raw_row_is_the_record_and_where_it_comes_from() -> None:
    rows, dead = RawDecoder().decode(batch(1_763_208_000_123, None), ORIGIN)
    assert rows.schema.equals(RAW)
    assert dead.num_rows == 0
    first, second = rows.to_pylist()
    assert first["timestamp"].isoformat() == "2025-11-15T12:00:00.123000+00:00"
    assert {name: first[name] for name in ("topic", "partition", "offset", "value", "cluster_id", "topic_id")} == {
        "topic": "clicks",
        "partition": 3,
        "offset": 0,
        "value": b"v0",
        "cluster_id": "cluster",
        "topic_id": "id-1",
    }
    assert (second["timestamp"], second["headers"]) == (None, [{"key": "h", "value": None}])


def test_times_that_no_table_can_hold_are_dead_letters() -> None:
    least, greatest = -62_135_596_800_000, 253_402_300_799_999
    times = [least - 1, least, None, greatest, greatest + 1, 2**63 - 1]
    rows, dead = RawDecoder().decode(batch(*times, first=10), ORIGIN)
    assert rows["offset"].to_pylist() == [11, 12, 13]
    assert dead.schema.equals(DEAD_LETTERS)
    assert dead["offset"].to_pylist() == [10, 14, 15]
    assert dead["timestamp_ms"].to_pylist() == [least - 1, greatest + 1, 2**63 - 1]
    assert dead["value"].to_pylist() == [b"v0", b"v4", b"v5"]
    assert dead["reason"].to_pylist()[1] == f"timestamp {greatest + 1} ms is not in the years 1 to 9999"


def test_an_empty_batch_is_nothing() -> None:
    rows, dead = RawDecoder().decode(batch(), ORIGIN)
    assert (rows.num_rows, dead.num_rows) == (0, 0)
