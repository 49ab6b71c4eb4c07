"""How long events take to the lake: from a record's own time to the commit that made it a row.

The ledger says which commit brought which offsets, and when; the rows have their offsets and times. What was
loaded again counts by its first load: a replay corrects, it does not bring.
"""

import numpy as np
import pyarrow as pa

from headrace.pipeline.delta import Delta, LakeError
from headrace.pipeline.ledger import read_ledger
from headrace.pipeline.location import Location

_SOURCE = ["topic_id", "partition", "offset", "timestamp"]


def read_delays_ms(lake: Location) -> np.ndarray:
    """Of every row of a table that has a time, in no order."""
    table = Delta.open(lake)
    if table is None:
        raise LakeError(f"{lake}: no table is there")
    return delays_ms(table.read().select(_SOURCE), read_ledger(lake))


def delays_ms(rows: pa.Table, ledger: pa.Table) -> np.ndarray:
    """Rows that the ledger does not know of, as somebody else may have written, are left out."""
    entries: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for entry in ledger.to_pylist():
        if entry["kind"] == "load":
            place = (entry["topic_id"], entry["partition"])
            committed_ms = round(entry["committed_at"].timestamp() * 1000)
            entries.setdefault(place, []).append((entry["first"], entry["end"], committed_ms))
    known = rows.filter(rows["timestamp"].is_valid())
    offsets = known["offset"].to_numpy()
    times_ms = known["timestamp"].cast(pa.int64()).to_numpy() // 1000
    topics = known["topic_id"].to_numpy(zero_copy_only=False)
    partitions = known["partition"].to_numpy()
    found = [np.empty(0, np.int64)]
    for (topic_id, partition), ranges in entries.items():
        firsts, ends, committed_ms = (np.array(column) for column in zip(*sorted(ranges), strict=True))
        here = (partitions == partition) & (topics == topic_id)
        index = np.searchsorted(firsts, offsets[here], side="right") - 1
        is_inside = (index >= 0) & (offsets[here] < ends[index])
        found.append((committed_ms[index] - times_ms[here])[is_inside])
    return np.concatenate(found)
