"""Topics with all that records can be, and files of rows to be compared with them."""

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq

from headrace import columnar
from headrace.cli.message_text import message_from
from headrace.columnar.schema import COLUMNS

BEGAN_MS = 1_760_000_000_000


def strange_rows(count: int, *, seed: int) -> pa.Table:
    """Nulls, empty values, bytes that are no text, quotes, line ends, headers of every kind; a second apart."""
    random_ = random.Random(seed)

    def data() -> bytes | None:
        size = random_.choice((0, 1, 10, 100))
        return random_.choice(
            (None, b"", random_.randbytes(size), b'a "quoted", word\r\n' * random_.randint(1, 4), "é\n\\".encode())
        )

    return pa.table(
        {
            "key": pa.array([data() for _ in range(count)], pa.binary()),
            "value": pa.array([data() for _ in range(count)], pa.binary()),
            "headers": pa.array(
                [
                    [{"key": random_.choice(("", "a", "ü,\n")), "value": data()} for _ in range(random_.randint(0, 3))]
                    for _ in range(count)
                ],
                COLUMNS["headers"],
            ),
            "timestamp": pa.array([BEGAN_MS + 1000 * row for row in range(count)], COLUMNS["timestamp"]),
        }
    )


def rows_of_topic(bootstrap: str, topic: str, **bounds: Any) -> list[dict[str, Any]]:
    return in_order(columnar.read(bootstrap, topic, **bounds).read_all().to_pylist())


def rows_of_file(path: Path) -> list[dict[str, Any]]:
    """Read by others as far as they can."""
    if path.suffix == ".parquet":
        return in_order(pq.read_table(path).to_pylist())
    if path.suffix == ".arrow":
        return in_order(pa.ipc.open_file(path).read_all().to_pylist())
    if path.suffix == ".arrows":
        return in_order(pa.ipc.open_stream(path).read_all().to_pylist())
    if path.suffix == ".jsonl":
        return in_order([_json_row(json.loads(line)) for line in path.read_bytes().splitlines()])
    assert path.suffix == ".csv"
    table = pa.csv.read_csv(
        path,
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types={**COLUMNS, "headers": pa.string()},
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    rows = table.to_pylist()
    for row in rows:
        row["headers"] = _headers({"headers": json.loads(row["headers"])})
    return in_order(rows)


def _json_row(fields: dict[str, Any]) -> dict[str, Any]:
    message = message_from(fields)
    timestamp = pa.scalar(message.timestamp_ms, COLUMNS["timestamp"]).as_py()
    return {
        "topic": fields["topic"],
        "partition": fields["partition"],
        "offset": fields["offset"],
        "timestamp": timestamp,
        "timestamp_type": 0,
        "key": message.key,
        "value": message.value,
        "headers": _headers(fields),
    }


def _headers(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in message_from(fields).headers]


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))
