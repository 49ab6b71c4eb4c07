"""What the Java consumer reads, record by record, in the rows of `tests/clients/columnar_rows.py`."""

import base64
from collections.abc import Sequence
from typing import Any

from tests.clients.columnar_rows import Row
from tests.clients.scenario import Message
from tests.interop.clients import CLIENTS
from tests.interop.records import Record


def java_rows(bootstrap: str, *topics: str, isolation: str = "read_committed") -> list[list[Row]]:
    """Of each topic in turn, from the beginning up to the end that this isolation sees."""
    steps = [{"do": "read", "topic": topic, "isolation": isolation} for topic in topics]
    return [
        sorted(map(_row, report["rows"]), key=lambda row: row[:2])
        for report in CLIENTS["java"].administer(bootstrap, steps)
    ]


def rows_sent(records: Sequence[Record]) -> list[Row]:
    """What a reader must find of records that were sent into an empty topic."""
    rows = []
    ends: dict[int, int] = {}
    for record in records:
        offset = ends.setdefault(record.partition, 0)
        ends[record.partition] += 1
        assert record.timestamp_ms is not None
        message = Message(record.key, record.value, record.headers, record.timestamp_ms)
        rows.append(Row(record.partition, offset, 0, message))
    return sorted(rows, key=lambda row: row[:2])


def _row(found: dict[str, Any]) -> Row:
    headers = tuple((name, _bytes(content)) for name, content in found["headers"])
    message = Message(_bytes(found["key"]), _bytes(found["value"]), headers, found["timestamp"])
    return Row(found["partition"], found["offset"], found["timestamp_type"], message)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
