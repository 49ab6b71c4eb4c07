"""The clients that `bench.columnar` races, each in a process of its own: what it took is printed as one line of JSON.

    python -m bench.columnar_clients read-arrow|read-confluent|write-arrow|write-confluent BOOTSTRAP TOPIC [OPTIONS]

The rival is confluent-kafka at its best: ten thousand messages a call, queues that never run empty, and each Arrow
column built once for half a million rows.
"""

import argparse
import json
import resource
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, Final

import pyarrow as pa
import pyarrow.ipc
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace import columnar
from headrace.columnar.schema import COLUMNS

_CALL: Final = 10_000
_BUILT_ROWS: Final = 500_000
_BATCH_BYTES: Final = 1_000_000
_CONSUMER: Final = {
    "group.id": "bench",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1_048_576,
    "fetch.message.max.bytes": 16 << 20,
    "fetch.max.bytes": 64 << 20,
    "receive.message.max.bytes": 100 << 20,
    "fetch.queue.backoff.ms": 1,
}
_PRODUCER: Final = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 50,
    "batch.size": _BATCH_BYTES,
    "batch.num.messages": 10_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1_048_576,
}


def resident_bytes() -> int:
    with open("/proc/self/statm", "rb") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def read_arrow(bootstrap: str, topic: str, given: argparse.Namespace) -> Iterator[int]:
    for batch in columnar.read(bootstrap, topic, columns=given.columns):
        yield batch.num_rows


def read_confluent(bootstrap: str, topic: str, given: argparse.Namespace) -> Iterator[int]:
    consumer = Consumer({**_CONSUMER, "bootstrap.servers": bootstrap})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    pick: dict[str, Callable[[Any], Any]] = {
        "topic": lambda message: message.topic(),
        "partition": lambda message: message.partition(),
        "offset": lambda message: message.offset(),
        "timestamp": lambda message: message.timestamp()[1],
        "timestamp_type": lambda message: message.timestamp()[0] - 1,
        "key": lambda message: message.key(),
        "value": lambda message: message.value(),
        "headers": lambda message: message.headers() or (),
    }
    columns: dict[str, list[Any]] = {name: [] for name in given.columns or COLUMNS}
    pending = 0
    while True:
        messages = consumer.consume(_CALL, 1.0)
        for name, column in columns.items():
            column += map(pick[name], messages)
        pending += len(messages)
        if pending >= _BUILT_ROWS or (pending and not messages):
            batch = pa.record_batch(
                {
                    name: pa.array(
                        [[{"key": key, "value": value} for key, value in row] for row in column]
                        if name == "headers"
                        else column,
                        COLUMNS[name],
                    )
                    for name, column in columns.items()
                }
            )
            yield batch.num_rows
            columns = {name: [] for name in columns}
            pending = 0


def write_arrow(bootstrap: str, topic: str, given: argparse.Namespace) -> Iterator[int]:
    table = load_table(given)
    yield 0  # The clock runs from here.
    options = {"compression": given.compression, "compression_level": given.level, "batch_bytes": given.batch_bytes}
    yield columnar.write(bootstrap, topic, repeat(table, given.times), **options).records


def write_confluent(bootstrap: str, topic: str, given: argparse.Namespace) -> Iterator[int]:
    table = load_table(given)
    yield 0
    settings = {**_PRODUCER, "bootstrap.servers": bootstrap, "compression.type": given.compression}
    if given.level is not None:
        settings["compression.level"] = given.level
    producer = Producer(settings)
    has_headers = "headers" in table.schema.names
    for batch in chain.from_iterable(repeat(table.to_batches(max_chunksize=_CALL), given.times)):
        values = batch["value"].to_pylist()
        keys = batch["key"].to_pylist() if "key" in batch.schema.names else [None] * len(values)
        headers = (
            [[(each["key"], each["value"]) for each in row] for row in batch["headers"].to_pylist()]
            if has_headers
            else None
        )
        for row, (key, value) in enumerate(zip(keys, values, strict=True)):
            while True:
                try:
                    if headers is None:
                        producer.produce(topic, value, key)
                    else:
                        producer.produce(topic, value, key, headers=headers[row])
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(120) == 0
    yield given.times * table.num_rows


def load_table(given: argparse.Namespace) -> pa.Table:
    with pa.memory_map(given.table) as source:
        return pa.ipc.open_file(source).read_all()


CLIENTS: Final = {
    "read-arrow": read_arrow,
    "read-confluent": read_confluent,
    "write-arrow": write_arrow,
    "write-confluent": write_confluent,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--rows", type=int, help="stop after so many")
    parser.add_argument("--columns", type=lambda text: text.split(","))
    parser.add_argument("--table", help="an Arrow IPC file to write from")
    parser.add_argument("--times", type=int, default=1, help="how often to write it")
    parser.add_argument("--compression", default="none")
    parser.add_argument("--level", type=int, help="of the compression")
    parser.add_argument("--batch-bytes", type=int, default=_BATCH_BYTES, help="of those that write-arrow makes")
    given = parser.parse_args()
    rows = 0
    resident: list[int] = []
    began_s, cpu_began_s = time.perf_counter(), time.process_time()
    for count in CLIENTS[given.client](given.bootstrap, given.topic, given):
        if not rows and not count:
            began_s, cpu_began_s = time.perf_counter(), time.process_time()
        rows += count
        resident.append(resident_bytes())
        if given.rows is not None and rows >= given.rows:
            break
    print(
        json.dumps(
            {
                "rows": rows,
                "seconds": time.perf_counter() - began_s,
                "cpu_s": time.process_time() - cpu_began_s,
                "resident_bytes_at_a_tenth": max(resident[: max(1, len(resident) // 10)]),
                "resident_bytes_max": max(resident),
            }
        )
    )


if __name__ == "__main__":
    main()
