"""What a table's ledger tells an audit of one topic: how far loads have come, and how many rows they brought.

Offsets mean something within one life of a topic: deleted and made anew, or on another cluster, a topic of the same
name begins again at 0. Where the ledger and the rows say of which life they are, as those of `headrace load` do, only
those of the life that the audit reads the log of say how far the lake has come in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

REQUIRED: Final = ("partition", "first", "end", "missing")
LIFE: Final = ("cluster_id", "topic_id")
COUNTED: Final = ("version", "kind", "rows")
TIMED: Final = ("committed_at",)
_REPLAY: Final = "replay"


class Life(NamedTuple):
    """Which topic of its name."""

    cluster_id: str
    topic_id: str


@dataclass(frozen=True, slots=True)
class LoadedTopic:
    """What loads have told of a topic in this life; in any, where it is not known which is which."""

    life: Life | None = None
    begins: Mapping[int, int] = field(default_factory=dict)  # Where the first load of a partition began.
    ends: Mapping[int, int] = field(default_factory=dict)
    begun_ms: Mapping[int, int] = field(default_factory=dict)  # When that was; no word where it is not told.
    rows: Mapping[int, int] = field(default_factory=dict)  # That should be there; no word on what cannot be told.

    def gone(self, found: Mapping[int, int]) -> int:
        """How many rows were loaded and are not there any more, given how many there are before each end."""
        return sum(max(0, told - found.get(partition, 0)) for partition, told in self.rows.items())


def read_entries(entries: Sequence[Mapping[str, Any]], life: Life | None) -> LoadedTopic:
    """The ledger's rows of one topic. `missing` offsets from its first on were deleted before they could be read."""
    entries = [entry for entry in entries if life is None or _is_of(entry, life)]
    begins: dict[int, int] = {}
    begun_ms: dict[int, int] = {}
    ends: dict[int, int] = {}
    # A replay or a retry may begin where the first load did, and be told of before it.
    for entry in sorted(entries, key=lambda each: (each["first"], -each["missing"], each.get("version") or 0)):
        partition = entry["partition"]
        if partition not in begins:
            begins[partition] = entry["first"] + entry["missing"]
            if (committed_at := entry.get("committed_at")) is not None:
                begun_ms[partition] = int(1000 * committed_at.timestamp())
        ends[partition] = max(ends.get(partition, 0), entry["end"])
    is_counted = all(entry.get(name) is not None for entry in entries for name in COUNTED)
    return LoadedTopic(life, begins, ends, begun_ms, _rows(entries) if is_counted else {})


def _is_of(entry: Mapping[str, Any], life: Life) -> bool:
    """One that does not say of which life it is may be of this one."""
    return all(entry.get(name) in (None, own) for name, own in zip(LIFE, life, strict=True))


def _rows(entries: Iterable[Mapping[str, Any]]) -> dict[int, int]:
    """By partition, what all commits together brought.

    A replay has put its rows in the place of those of its range. How many these were is known only of whole commits, so
    of a partition in which one was replayed in part nothing is said.
    """
    standing: dict[int, list[tuple[int, int, int]]] = {}
    unknown: set[int] = set()
    for entry in sorted(entries, key=lambda entry: entry["version"]):
        partition, first, end = entry["partition"], entry["first"], entry["end"]
        known = standing.setdefault(partition, [])
        if entry["kind"] == _REPLAY:
            touched = [each for each in known if each[0] < end and each[1] > first]
            if any(each[0] < first or each[1] > end for each in touched):
                unknown.add(partition)
            known[:] = [each for each in known if each not in touched]
        known.append((first, end, entry["rows"]))
    return {
        partition: sum(rows for _, _, rows in known)
        for partition, known in standing.items()
        if partition not in unknown
    }
