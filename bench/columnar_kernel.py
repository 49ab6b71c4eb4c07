"""`python -m bench.columnar_kernel`: what a record costs between a fetched batch and an Arrow column, and back.

No sockets and no broker: batches are opened and decoded, columns encoded and keys hashed in one thread, by each kernel
that is there, and by the plain decoder and encoder that make an object per record. Figures are CPU time of the thread,
the least of several runs, so that a busy machine spoils less of them; beside them a floor, one copy of the same bytes.
"""

import argparse
import json
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from headrace.columnar.decoding import decode
from headrace.columnar.encoding import encode_batches
from headrace.columnar.kernel import Kernel, choose, is_compiled
from headrace.columnar.opening import open_batches
from headrace.columnar.partitioning import murmur2
from headrace.columnar.record_columns import RecordColumns, as_columns
from headrace.protocol.compression import Codec
from headrace.protocol.records import decode_records, encode_batch

SEED: Final = 20
PLAIN: Final = "200 B"
ASKED_M_PER_S: Final = 4.0  # Of the plain rows, without the compiled kernel.
WAYS: Final = ("floor", "plain", "both", "numpy", "c")
_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
_ROOM_BYTES: Final = 1 << 28
_LARGE_BATCH_BYTES: Final = 1_000_000  # librdkafka's own.
_SMALL_BATCH_BYTES: Final = 16_384  # Java's own.


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Records of one kind, and how they lie in batches."""

    name: str
    value_bytes: tuple[int, int] = (200, 200)
    keyed: bool = False
    headers_max: int = 0
    batch_bytes: int = _LARGE_BATCH_BYTES
    codec: Codec = Codec.NONE

    def columns(self, count: int) -> RecordColumns:
        chance = random.Random(SEED)
        pool = chance.randbytes(1 << 16).hex().encode()  # Text of sixteen letters, so that codecs have something to do.
        starts = [chance.randrange(len(pool) - max(self.value_bytes)) for _ in range(count)]
        values = [pool[start : start + chance.randint(*self.value_bytes)] for start in starts]
        headers = [
            [{"key": "trace", "value": pool[start : start + 16]}] * chance.randint(0, self.headers_max)
            for start in starts
        ]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        return as_columns(
            key=pa.array([b"user-%06d" % chance.randrange(10**6) for _ in range(count)]) if self.keyed else None,
            value=pa.array(values),
            headers=pa.array(headers, kind) if self.headers_max else None,
            timestamps=1_700_000_000_000 + np.arange(count) // 9,
        )


SHAPES: Final = (
    Shape(name=PLAIN),
    Shape(name="200 B, 16 KiB batches", batch_bytes=_SMALL_BATCH_BYTES),
    Shape(name="200 B, keyed", keyed=True),
    Shape(name="200 B, keyed, 16 KiB batches", keyed=True, batch_bytes=_SMALL_BATCH_BYTES),
    Shape(name="20 B", value_bytes=(20, 20)),
    Shape(name="10-2,000 B, keyed", value_bytes=(10, 2_000), keyed=True),
    Shape(name="200 B, keyed, 0-3 headers", keyed=True, headers_max=3),
    Shape(name="200 B, zstd", codec=Codec.ZSTD),
    Shape(name="200 B, lz4", codec=Codec.LZ4),
    Shape(name="200 B, lz4, 16 KiB batches", codec=Codec.LZ4, batch_bytes=_SMALL_BATCH_BYTES),
)


@dataclass(frozen=True, slots=True)
class Reading:
    shape: str
    work: str
    way: str
    ns_per_record: float


def read_all(shape: Shape, *, records: int, repeats: int, kernels: dict[str, Kernel]) -> Iterator[Reading]:
    columns = shape.columns(records)

    def measured(work: str, way: str, run: Callable[[], object]) -> Reading:
        return Reading(shape.name, work, way, least_cpu_ns(run, repeats=repeats) / records)

    def encode(kernel: Kernel) -> list[memoryview]:
        made = encode_batches(columns, None, batch_bytes=shape.batch_bytes, codec=shape.codec, kernel=kernel)
        return [batch.data for batch in made]

    parts = [bytes(part) for part in encode(kernels["numpy"])]
    fetched = b"".join(parts)
    yield measured("open", "floor", lambda: bytearray(fetched))
    yield measured("open", "both", lambda: open_batches(fetched, aborted=None, decompressed_bytes_max=_ROOM_BYTES))
    opened = open_batches(fetched, aborted=None, decompressed_bytes_max=_ROOM_BYTES)
    assert opened.record_count == records
    yield measured("decode", "floor", opened.data.copy)
    yield measured("decode", "plain", lambda: [decode_records(part) for part in parts])
    plain = [decode_records(part) for part in parts]
    yield measured("encode", "plain", lambda: [encode_batch(batch, codec=shape.codec) for batch in plain])
    for name, kernel in kernels.items():

        def decode_with(kernel: Kernel = kernel) -> pa.RecordBatch:
            return decode(
                opened,
                topic="bench",
                partition=0,
                columns=_COLUMNS,
                first_offset=0,
                end_offset=None,
                kernel=kernel,
            )

        yield measured("decode", name, decode_with)
        yield measured("encode", name, lambda kernel=kernel: encode(kernel))  # type: ignore[misc]
        if columns.keys is not None:
            yield measured("hash", name, lambda kernel=kernel: murmur2(columns.keys, kernel=kernel))  # type: ignore[misc]


def least_cpu_ns(run: Callable[[], object], *, repeats: int) -> float:
    spent = []
    for _ in range(repeats):
        began_ns = time.thread_time_ns()
        run()
        spent.append(time.thread_time_ns() - began_ns)
    return float(min(spent))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.columnar_kernel", description="Cost of a record in columns.")
    parser.add_argument("--records", type=int, default=50_000, help="records in one fetch")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one line for each figure, instead of a table")
    parser.add_argument("--markdown", type=Path, help="a page of it, with the verdict on the plain rows")
    options = parser.parse_args(arguments)
    kernels = {"numpy": choose("numpy")}
    if is_compiled():
        kernels["c"] = choose("c")
    else:
        print("the compiled kernel is not built: numpy alone", file=sys.stderr)
    versions = {name: version(name) for name in ("headrace", "numpy", "pyarrow", "cramjam")}
    table = Table(title="CPU nanoseconds per record; in brackets million records per second of CPU")
    for title in ("records", "work", *WAYS):
        table.add_column(title, justify="left" if title in {"records", "work"} else "right")
    everything: list[Reading] = []
    for shape in SHAPES:
        readings = list(read_all(shape, records=options.records, repeats=options.repeats, kernels=kernels))
        everything += readings
        if options.json:
            for reading in readings:
                row = {name: getattr(reading, name) for name in reading.__slots__}
                print(json.dumps(row | {"records": options.records, "seed": SEED, "versions": versions}))
            continue
        for work in ("open", "decode", "encode", "hash"):
            found = {reading.way: reading.ns_per_record for reading in readings if reading.work == work}
            if found:
                table.add_row(
                    shape.name, work, *(_figure(found.get(way)) for way in ("floor", "plain", "both", *kernels))
                )
    if not options.json:
        Console(width=130).print(table)
        print(verdict(everything))
    if options.markdown is not None:
        options.markdown.write_text(
            page(everything, records=options.records, repeats=options.repeats, versions=versions)
        )
    return 0


def verdict(readings: Sequence[Reading]) -> str:
    """Whether plain rows are decoded fast enough without the compiled kernel."""
    (ns,) = (each.ns_per_record for each in readings if (each.shape, each.work, each.way) == (PLAIN, "decode", "numpy"))
    found_m = 1e3 / ns
    words = "met" if found_m >= ASKED_M_PER_S else "short"
    return f"decoding {PLAIN} by numpy: {found_m:.1f} M rows/s, asked for {ASKED_M_PER_S:.0f}: {words}"


def page(readings: Sequence[Reading], *, records: int, repeats: int, versions: Mapping[str, str]) -> str:
    """M records per second of CPU, a line for each kind of record and work."""
    head = ("records", "work", *WAYS)
    figures = {(each.shape, each.work, each.way): each.ns_per_record for each in readings}
    lines = [
        (shape, work, *("" if not (ns := figures.get((shape, work, way))) else f"{1e3 / ns:.1f}" for way in WAYS))
        for shape, work in dict.fromkeys((each.shape, each.work) for each in readings)
    ]
    table = "".join("| " + " | ".join(line) + " |\n" for line in (head, ("---",) * len(head), *lines))
    made_of = ", ".join(f"{name} {number}" for name, number in versions.items())
    return (
        f"M records per second of CPU of one thread, the best of {repeats} runs over {records:,} records, seed {SEED}: "
        f"*open* is CRC and decompression, *floor* one copy of the same bytes, *plain* an object per record. "
        f"{made_of}, Python {platform.python_version()}.\n\n{verdict(readings)}\n\n{table}"
    )


def _figure(ns: float | None) -> str:
    return "" if ns is None else f"{ns:.1f} ({1e3 / ns:.1f})" if ns else "0"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
