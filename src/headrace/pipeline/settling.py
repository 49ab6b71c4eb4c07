"""Dead letters made to fit the rows, where a commit of the one may have gone without the other.

No commit spans two tables. So a load adds its dead letters first, and notes in the same commit where; rows and offsets
follow; and only then are dead letters taken out that are no more. Whatever is killed in between, a record may be both a
row and a dead letter for a while, and is never neither. Which of the two it is, the rows decide, whatever schema they
were decoded with:

- a record that is a row is no dead letter,
- nor is one that the table has not come to yet: it will be loaded, and be what it is then,
- and of several dead letters of one record the newest is meant.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.delta import Delta, LiveFile
from headrace.pipeline.origins import Origin
from headrace.pipeline.replacing import Mask, files_with, inside, read_file, write_without
from headrace.pipeline.splitting import OffsetRange

_Offsets = npt.NDArray[np.int64]

_PLACE: Final = ("cluster_id", "topic", "topic_id", "partition", "offset")


def settle(
    dead: Delta,
    table: Delta,
    origins: Mapping[TopicName, Origin],
    ranges: Sequence[OffsetRange],
    ends: Mapping[TopicPartition, int],
    *,
    replaced: Sequence[OffsetRange] = (),
    written: Collection[str] = (),
) -> list[AddAction | RemoveAction]:
    """What takes the dead letters of these ranges out that are none, given where the table ends.

    Of ranges that were `replaced` only what was `written` in their place stays: what they had before may be of records
    that are not there any more.
    """
    # Files that were written last first, and with them the newest of several dead letters.
    lives = sorted(files_with(dead, [*ranges, *replaced]), key=lambda live: -live.modified_ms)
    if not lives:
        return []
    places = [read_file(dead, live, _PLACE) for live in lives]
    settled = {each: _rows_among(table, places, origins[each.place.topic], each) for each in ranges}

    def keep(live: LiveFile, letters: pa.Table) -> Mask:
        kept = np.ones(letters.num_rows, np.bool_)
        offsets = np.asarray(letters["offset"])
        if live.path not in written:
            for each in replaced:
                kept &= ~inside(letters, origins[each.place.topic], each)
        for each in ranges:
            mine = kept & inside(letters, origins[each.place.topic], each)
            kept &= ~mine
            stays, first_index = np.unique(offsets[mine], return_index=True)
            is_dead = (stays < ends.get(each.place, 0)) & ~np.isin(stays, settled[each])
            kept[np.flatnonzero(mine)[first_index[is_dead]]] = True
            settled[each] = np.union1d(settled[each], stays[is_dead])
        return kept

    return write_without(dead, lives, keep)


def _rows_among(table: Delta, letters: Sequence[pa.Table], origin: Origin, range_: OffsetRange) -> _Offsets:
    """The offsets of a range that these dead letters have, and rows as well."""
    asked = np.unique(np.concatenate([np.asarray(part["offset"])[inside(part, origin, range_)] for part in letters]))
    found: list[Any] = [asked[:0]]
    for live in files_with(table, [range_]) if len(asked) else []:
        least, greatest = live.bounds.get("offset", (None, None))
        if least is not None and greatest is not None and not np.any((asked >= least) & (asked <= greatest)):
            continue
        rows = read_file(table, live, _PLACE)
        offsets = np.asarray(rows["offset"])[inside(rows, origin, range_)]
        found.append(offsets[np.isin(offsets, asked)])
    return np.concatenate(found)
