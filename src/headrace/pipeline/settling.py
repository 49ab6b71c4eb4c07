"""Dead letters made to fit the rows, where a commit of the one may have gone without the other.

No commit spans two tables. So a load adds its dead letters first, and notes in the same commit where; rows and offsets
follow; and only then are dead letters taken out that are no more. Whatever is killed in between, a record may be both a
row and a dead letter for a while, and is never neither. Which of the two it is, the rows decide, whatever schema they
were decoded with:

- a record that is a row is no dead letter,
- nor is one that the table has not come to yet: it will be loaded, and be what it is then,
- and of several dead letters of one record that of the youngest file is meant, by the clock of whoever wrote it. Where
  a compaction has put them into one file, nothing tells them apart, and any of them stays.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.delta import Delta, LiveFile
from headrace.pipeline.origins import Origin
from headrace.pipeline.replacing import Mask, files_with, inside, may_hold, read_file, write_without
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
    settled = _rows_among(table, origins, _letters_of(dead, lives, origins, ranges))

    def keep(live: LiveFile, letters: pa.Table) -> Mask:
        kept = np.ones(letters.num_rows, np.bool_)
        offsets = np.asarray(letters["offset"])
        if live.path not in written:
            for each in replaced:
                kept &= ~inside(letters, origins[each.place.topic], each)
        for each in (each for each in ranges if may_hold(live, each)):
            mine = kept & inside(letters, origins[each.place.topic], each)
            kept &= ~mine
            stays, first_index = np.unique(offsets[mine], return_index=True)
            is_dead = (stays < ends.get(each.place, 0)) & ~np.isin(stays, settled[each])
            kept[np.flatnonzero(mine)[first_index[is_dead]]] = True
            settled[each] = np.union1d(settled[each], stays[is_dead])
        return kept

    return write_without(dead, lives, keep)


def _letters_of(
    dead: Delta, lives: Sequence[LiveFile], origins: Mapping[TopicName, Origin], ranges: Sequence[OffsetRange]
) -> dict[OffsetRange, _Offsets]:
    """The offsets of each range that have dead letters in these files."""
    found: dict[OffsetRange, list[_Offsets]] = {each: [np.empty(0, np.int64)] for each in ranges}
    for live in lives:
        letters = read_file(dead, live, _PLACE)
        for each in (each for each in ranges if may_hold(live, each)):
            found[each].append(np.asarray(letters["offset"])[inside(letters, origins[each.place.topic], each)])
    return {each: np.unique(np.concatenate(parts)) for each, parts in found.items()}


def _rows_among(
    table: Delta, origins: Mapping[TopicName, Origin], letters: Mapping[OffsetRange, _Offsets]
) -> dict[OffsetRange, _Offsets]:
    """Which of these offsets have rows. Each file of rows is read once, however many of the ranges it may have."""
    found: dict[OffsetRange, list[_Offsets]] = {each: [asked[:0]] for each, asked in letters.items()}
    for live in files_with(table, [each for each, asked in letters.items() if len(asked)]):
        least, greatest = live.bounds.get("offset", (None, None))
        if least is None or greatest is None:
            least, greatest = 0, np.iinfo(np.int64).max
        concerned = [
            each
            for each, asked in letters.items()
            if may_hold(live, each) and np.any((asked >= least) & (asked <= greatest))
        ]
        if not concerned:
            continue
        rows = read_file(table, live, _PLACE)
        for each in concerned:
            offsets = np.asarray(rows["offset"])[inside(rows, origins[each.place.topic], each)]
            found[each].append(offsets[np.isin(offsets, letters[each])])
    return {each: np.concatenate(parts) for each, parts in found.items()}
