import pyarrow as pa
import pytest

from headrace.columnar.kernel import Kernel
from headrace.columnar.partitioning import NO_PARTITION, murmur2, partition_by_key
from headrace.columnar.record_columns import as_byte_column
from tests.columnar_values import both_kernels

# From the tests of Apache Kafka's client.
KNOWN = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@both_kernels
def test_hashes_are_javas(kernel: Kernel) -> None:
    assert murmur2(pa.array(list(KNOWN)), kernel=kernel).tolist() == list(KNOWN.values())
    many = list(KNOWN) * 10
    assert murmur2(pa.array(many), kernel=kernel).tolist() == [KNOWN[key] for key in many]


@both_kernels
def test_a_null_has_no_partition(kernel: Kernel) -> None:
    partitions = partition_by_key(pa.array(["21", None, "abc"]), 7, kernel=kernel)
    assert partitions.tolist() == [(-973932308 & 0x7FFFFFFF) % 7, NO_PARTITION, 479470107 % 7]


@both_kernels
@pytest.mark.parametrize("keys", [[], [""], [None], ["", None, "x"]])
def test_few_keys(kernel: Kernel, keys: list[str | None]) -> None:
    column = as_byte_column(pa.array(keys, pa.string()), what="key")
    assert len(murmur2(column, kernel=kernel)) == len(keys)
    assert [partition >= 0 for partition in partition_by_key(column, 3, kernel=kernel)] == [
        key is not None for key in keys
    ]


@both_kernels
def test_a_key_much_longer_than_the_others(kernel: Kernel) -> None:
    keys = [b"short"] * 100 + [bytes(range(256)) * 400]
    alone = murmur2(pa.array(keys[-1:]), kernel=kernel)
    assert murmur2(pa.array(keys), kernel=kernel)[-1] == alone[0]
