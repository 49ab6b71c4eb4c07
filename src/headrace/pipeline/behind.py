"""How far a streaming query is behind, from its progress.

    for source in query.lastProgress["sources"]:
        print(offsets_behind(source["endOffset"], source["latestOffset"]))

The official connector adds three numbers to the progress of its source: minOffsetsBehindLatest, maxOffsetsBehindLatest
and avgOffsetsBehindLatest. Spark does not let a source in Python do so; these are the same three, from the two offsets
that it does let it report.
"""

import json
from typing import NamedTuple


class Behind(NamedTuple):
    """Offsets between what was read and the latest: of the partition with the fewest, with the most, and on average."""

    offsets_min: int
    offsets_max: int
    offsets_mean: float


def offsets_behind(end_offset: str | None, latest_offset: str | None) -> Behind | None:
    """Of a source's `endOffset` and `latestOffset`; None where there is nothing to tell yet."""
    if not end_offset or not latest_offset:
        return None
    read = json.loads(end_offset)
    latest = json.loads(latest_offset)
    behind = [
        max(0, offset - max(0, read.get(topic, {}).get(number, 0)))
        for topic, numbers in latest.items()
        for number, offset in numbers.items()
    ]
    return Behind(min(behind), max(behind), sum(behind) / len(behind)) if behind else None
