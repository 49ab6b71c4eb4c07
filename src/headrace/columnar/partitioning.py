"""Which partition a key belongs to: Kafka's own rule, so that keys land where the Java client puts them."""

from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from headrace.columnar.kernel import KERNEL, Int32s, Kernel
from headrace.columnar.record_columns import ByteColumn, as_byte_column

NO_PARTITION: Final = -1

Keys: TypeAlias = pa.Array | pa.ChunkedArray | ByteColumn


def murmur2(keys: Keys, *, kernel: Kernel = KERNEL) -> Int32s:
    """The hash of each key, as Java's signed int. A null is hashed as if empty; nobody should ask."""
    return kernel.murmur2(_column(keys))


def partition_by_key(keys: Keys, partition_count: int, *, kernel: Kernel = KERNEL) -> Int32s:
    """The partition of each key, NO_PARTITION for a null: those are the caller's to spread."""
    column = _column(keys)
    positive = kernel.murmur2(column) & np.int32(0x7FFFFFFF)
    partitions = positive % np.int32(partition_count)
    if column.valid is not None:
        partitions[~column.valid] = NO_PARTITION
    return partitions


def _column(keys: Keys) -> ByteColumn:
    return keys if isinstance(keys, ByteColumn) else as_byte_column(keys, what="key")
