"""Audited topics for tests: filled, copied with something missing or doubled, and asked about."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import write_deltalake
from typer.testing import CliRunner

from headrace import columnar
from headrace.audit.messages import AUDIT_TOPIC
from headrace.audit.producer import AuditedProducer
from headrace.cli.app import app
from headrace.testing import Broker

WINDOW_MS: Final = 60_000
WINDOWS: Final = 3
# Some while ago: long enough for every window to be due, and too short for any retention.
BEGAN_MS: Final = time.time_ns() // 1_000_000 // WINDOW_MS * WINDOW_MS - 20 * WINDOW_MS


def send(broker: Broker, topic: str, *, each: int, producer_id: str = "web-1", partition: int = -1) -> None:
    """So many messages to each of the windows, by a sender that says its last word."""
    # Not sticking to a partition: neighbours go to different ones, where there are several.
    config = {"bootstrap.servers": broker.bootstrap, "linger.ms": 5, "sticky.partitioning.linger.ms": 0}
    with AuditedProducer(config, producer_id=producer_id) as producer:
        for window in range(WINDOWS):
            for number in range(each):
                time_ms = BEGAN_MS + window * WINDOW_MS + number % WINDOW_MS
                producer.produce(topic, b"%d" % number, partition=partition, timestamp=time_ms, headers={"trace": b"x"})
                producer.poll(0)


def tamper(rows: pa.Table, *, lost: int = 0, doubled: int = 0) -> pa.Table:
    """The same rows but for so many of the middle window, which are not there, and so many others, which are twice.

    Given in the order of their times.
    """
    start = rows.num_rows // WINDOWS + 1
    kept = pa.concat_tables([rows.slice(0, start), rows.slice(start + lost)])
    return pa.concat_tables([kept, rows.slice(start + lost, doubled)])


def copy_tampered(
    source: Broker, target: Broker, topic: str, *, lost: int = 0, doubled: int = 0, partitions: int = 1, **config: int
) -> None:
    """The topic on another broker, tampered with, and the audit topic as it is: a log that lost or doubled some.

    All of it is in partition 0.
    """
    rows = columnar.read(source.bootstrap, topic).read_all()
    told = columnar.read(source.bootstrap, AUDIT_TOPIC).read_all()
    target.create_topic(topic, partitions, **config)
    target.create_topic(AUDIT_TOPIC)
    columnar.write(target.bootstrap, topic, tamper(rows, lost=lost, doubled=doubled), partition=0)
    columnar.write(target.bootstrap, AUDIT_TOPIC, told)


def write_lake(broker: Broker, topic: str, path: Path, *, lost: int = 0, doubled: int = 0) -> None:
    """A Delta table such as a load makes of a topic, in two commits, tampered with."""
    rows = columnar.read(broker.bootstrap, topic).read_all()
    rows = rows.set_column(
        rows.schema.get_field_index("timestamp"), "timestamp", rows["timestamp"].cast(pa.timestamp("us", "UTC"))
    )
    rows = tamper(rows.sort_by("timestamp"), lost=lost, doubled=doubled)
    half = rows.num_rows // 2
    for part in (rows.slice(0, half), rows.slice(half)):
        write_deltalake(str(path), part, mode="append")


def audit(broker: Broker, topic: str, *options: str | Path) -> dict[str, Any]:
    """What `headrace audit --json` reports; its status is held to what the report says of itself."""
    arguments = ["audit", topic, "--json", *map(str, options)]
    told = CliRunner().invoke(app, arguments, env={"HEADRACE_BOOTSTRAP": broker.bootstrap})
    assert told.stdout, told.output
    report: dict[str, Any] = json.loads(told.stdout)
    assert told.exit_code == (0 if report["well"] else 1)
    return report


def troubles(report: Mapping[str, Any]) -> dict[tuple[str, int], dict[str, int]]:
    """By tier and window, whatever is not as it should be."""
    words = ("missing", "duplicated", "uncertain_max", "unjudged", "late", "expired")
    return {
        (row["tier"], (row["window_start_ms"] - BEGAN_MS) // WINDOW_MS): {
            word: row[word] for word in words if row[word]
        }
        for row in report["rows"]
        if row["statuses"] != ["complete"]
    }
