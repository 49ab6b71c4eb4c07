"""Much of a topic onto standard output, a column at a time: no message is ever an object, and it takes a fraction.

Only where nothing but the speed is another: an end is known, everything that the user said is understood, nobody wants
headers (whose names, where they are not UTF-8, the client library reads differently) or bytes in another shape, and
there is so much to print that it makes up for loading Arrow.
"""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from headrace.cli.connection import Connection
from headrace.cli.reading import Bounds
from headrace.errors import ConfigError
from headrace.ids import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.columnar.reading import Scan

_WORTHWHILE_MESSAGES: Final = 100_000
_COLUMNS: Final = {
    "topic": "topic",
    "partition": "partition",
    "offset": "offset",
    "timestamp_ms": "timestamp",
    "key": "key",
    "value": "value",
}


class Layout(NamedTuple):
    """How a message is printed: text, names of fields, what stands for a null, and what follows each message."""

    parts: Sequence[bytes | str]
    null: bytes
    ending: bytes


def print_by_columns(
    cluster: Connection, bounds: Mapping[TopicPartition, Bounds], layout: Layout, *, count: int | None
) -> bool:
    """Print what is between the bounds, no more than so many; false, and nothing, where it has to be done otherwise."""
    fields = [part for part in layout.parts if isinstance(part, str)]
    messages = sum(bound.end - bound.start for bound in bounds.values())
    if min(messages, messages if count is None else count) < _WORTHWHILE_MESSAGES:
        return False
    if not fields or not set(fields) <= _COLUMNS.keys() or importlib.util.find_spec("pyarrow") is None:
        return False
    scan = _scan(cluster, bounds, [column for field, column in _COLUMNS.items() if field in fields])
    if scan is None:
        return False
    out = sys.stdout.buffer
    with closing(scan):
        for batch in scan:
            shown = batch if count is None else batch.slice(0, count)
            out.write(render(shown, layout))
            out.flush()
            if count is not None:
                count -= shown.num_rows
                if count == 0:
                    break
    return True


def _scan(cluster: Connection, bounds: Mapping[TopicPartition, Bounds], columns: Sequence[str]) -> "Scan | None":
    from headrace.columnar.positions import OffsetsGone
    from headrace.columnar.reading import Scan

    starts: dict[str, dict[int, int]] = {}
    ends: dict[str, dict[int, int]] = {}
    for place, bound in bounds.items():
        starts.setdefault(place.topic, {})[place.partition] = bound.start
        ends.setdefault(place.topic, {})[place.partition] = bound.end
    places = {topic: list(numbers) for topic, numbers in starts.items()}
    try:
        settings = cluster.wire_settings()
        if settings.not_in_force:
            return None
        return Scan(settings, places, start=starts, end=ends, columns=columns)
    except (ConfigError, OffsetsGone):
        return None  # Not in our words, or in a transaction that is still open: the client library knows what to do.


def render(batch: "pa.RecordBatch", layout: Layout) -> memoryview:
    """All messages of a batch, as they are printed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = pa.large_binary()

    def column(field: str) -> pa.Array:
        values = batch.column(_COLUMNS[field])
        if pa.types.is_timestamp(values.type):
            values = values.view(pa.int64())
        if pa.types.is_integer(values.type):
            values = values.cast(pa.string())
        return pc.fill_null(values.cast(kind), pa.scalar(layout.null, kind))

    parts = [
        pa.scalar(part, kind) if isinstance(part, bytes) else column(part) for part in (*layout.parts, layout.ending)
    ]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", kind))
    # The texts of an array lie one after the other.
    _, offsets, data = joined.buffers()
    places = memoryview(offsets).cast("q")
    return memoryview(data)[places[joined.offset] : places[joined.offset + len(joined)]]
