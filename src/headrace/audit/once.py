"""Rows of a lake that were not there before: of each record, by life, partition and offset, the first that comes.

Remembers offsets alone, eight bytes a row, and compares a batch only with those before that reach into its range. Files
of a load do not, unless they tell of the same records.
"""

from collections import defaultdict
from collections.abc import Hashable
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

_OFFSET: Final = "offset"


class Once:
    def __init__(self) -> None:
        self._seen: defaultdict[tuple[Hashable, ...], list[npt.NDArray[np.int64]]] = defaultdict(list)

    def keep(self, rows: pa.Table) -> pa.Array:
        """Which of these are the first of their record. All columns but the offset say of which log it is."""
        is_first = np.zeros(rows.num_rows, np.bool_)
        names = [name for name in rows.column_names if name != _OFFSET]
        all_offsets = rows[_OFFSET].to_numpy()
        for log in rows.group_by(names).aggregate([]).to_pylist():
            mine = np.flatnonzero(_is_of(rows, log))
            offsets, index = np.unique(all_offsets[mine], return_index=True)
            seen = self._seen[tuple(log.values())]
            is_new = np.ones(len(offsets), np.bool_)
            for before in seen:
                if before[0] <= offsets[-1] and offsets[0] <= before[-1]:
                    is_new &= ~np.isin(offsets, before, assume_unique=True)
            if is_new.any():
                is_first[mine[index[is_new]]] = True
                seen.append(offsets[is_new])
        return pa.array(is_first)


def _is_of(rows: pa.Table, log: dict[str, Hashable]) -> npt.NDArray[np.bool_]:
    found = np.ones(rows.num_rows, np.bool_)
    for name, value in log.items():
        is_equal = pc.is_null(rows[name]) if value is None else pc.fill_null(pc.equal(rows[name], value), False)
        found &= np.asarray(is_equal)
    return found
