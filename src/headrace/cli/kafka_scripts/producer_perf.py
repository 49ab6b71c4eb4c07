"""kafka-producer-perf-test: how many records a second a cluster takes, and how long each one takes."""

import base64
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.perf import (
    BROKER_LIST,
    PRINT_METRICS,
    cluster_with,
    java_settings,
    print_line,
    with_bootstrap_help,
)
from headrace.cli.kafka_scripts.script import Script
from headrace.cli.output import CommandError, note
from headrace.cli.stopping import StopRequest
from headrace.lab.perf import producer
from headrace.lab.perf.metrics import LatestStatistics, metric_lines, producer_metrics
from headrace.lab.perf.payloads import chosen, numbers, random_letters, split_payloads
from headrace.lab.perf.properties import producer_properties

_TRANSACTION_MS: Final = 3_000

FLAGS: Final = (
    BROKER_LIST,
    Flag("topic", Takes.VALUE, "REQUIRED: where to."),
    Flag("num-records", Takes.VALUE, "REQUIRED: how many records."),
    Flag("messages", Takes.VALUE, "The same as --num-records, in older scripts."),
    Flag("record-size", Takes.VALUE, "Records of so many bytes. This, --payload-file or --payload-monotonic."),
    Flag("payload-file", Takes.VALUE, "Records from a file of text, each time one by chance."),
    Flag("payload-delimiter", Takes.VALUE, r"What stands between two records in the file; \n by default."),
    Flag("payload-monotonic", help="Records that count from 0."),
    Flag("throughput", Takes.VALUE, "REQUIRED: how many records a second at most; -1 for no limit."),
    Flag("producer-props", Takes.SEVERAL, "Settings of the producer, as NAME=VALUE; they win over a file's."),
    Flag("command-property", Takes.SEVERAL, "The same as --producer-props."),
    Flag("producer.config", Takes.VALUE, "The same as --command-config."),
    PRINT_METRICS,
    Flag("transactional-id", Takes.VALUE, "Send in transactions, under this id."),
    Flag("transaction-duration-ms", Takes.VALUE, "Send in transactions that last so long; 3000 by default."),
    Flag("warmup-records", Takes.VALUE, "So many records to begin with are left out of a second summary."),
    Flag("reporting-interval", Takes.VALUE, "How often to print how it goes, in milliseconds; 5000 by default."),
)


def run(words: Words) -> None:
    settings = java_settings(
        words, files=("producer.config", "command-config"), pairs=("producer-props", "command-property")
    )
    transaction_ms = _put_transactions(words, settings)
    properties = producer_properties(settings)
    plan = _plan(words, block_ms_max=properties.block_ms_max, transaction_ms=transaction_ms)
    payloads = _payloads(words)
    statistics = LatestStatistics() if "print-metrics" in words else None
    cluster = cluster_with(properties)
    client = cluster.producer({} if statistics is None else {"stats_cb": statistics, **LatestStatistics.SETTINGS})
    cluster.cluster_metadata(client)
    with StopRequest() as stop:
        around = producer.Surroundings(print_line=print_line, complain=note, check=stop.check)
        failures = producer.run(client, plan, payloads, around)
    if statistics is not None:
        for line in metric_lines(producer_metrics(statistics.wait(client.poll))):
            print_line(line)
    failures.check()


def _plan(words: Words, *, block_ms_max: int, transaction_ms: int | None) -> producer.Plan:
    rate_per_s = words.real("throughput")
    if rate_per_s == 0:
        raise Misused("--throughput 0 would send nothing, for ever; -1 is no limit")
    records = words.bounded(words.only("num-records", "messages"), least=1)
    warmup_records = words.bounded("warmup-records", least=0, otherwise=0)
    if warmup_records >= records:
        raise Misused(f"--warmup-records {warmup_records} must be fewer than the {records} records of the test")
    return producer.Plan(
        topic=words.required("topic"),
        records=records,
        rate_per_s=rate_per_s,
        warmup_records=warmup_records,
        interval_ms=words.bounded("reporting-interval", least=1, otherwise=5_000),
        block_ms_max=block_ms_max,
        transaction_ms=transaction_ms,
    )


def _put_transactions(words: Words, settings: dict[str, str]) -> int | None:
    """Whether there are any, said in one of three places, and how long they last."""
    said = words.one("transactional-id")
    if said is None and "transaction-duration-ms" not in words and "transactional.id" not in settings:
        return None
    if said is not None:
        settings["transactional.id"] = said
    settings.setdefault("transactional.id", f"performance-producer-{_random_id()}")
    return words.bounded("transaction-duration-ms", least=1, otherwise=_TRANSACTION_MS)


def _random_id() -> str:
    """As Kafka spells one."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _payloads(words: Words) -> Iterator[bytes]:
    kind = words.only("record-size", "payload-file", "payload-monotonic")
    if kind == "record-size":
        return random_letters(words.bounded("record-size", least=1))
    if kind == "payload-monotonic":
        return numbers()
    path = Path(words.required("payload-file"))
    print_line(f"Reading payloads from: {path.absolute()}")
    text = path.read_bytes().decode("utf-8", "replace")
    payloads = split_payloads(text, words.one("payload-delimiter") or r"\n")
    print_line(f"Number of messages read: {len(payloads)}")
    if not payloads:
        raise CommandError(f"{path} is empty")
    return chosen(payloads)


SCRIPT: Final = Script(
    "kafka-producer-perf-test",
    "measure how fast records can be sent, and how long each takes",
    FLAGS,
    run,
    with_bootstrap_help("Where the cluster is, as HOST:PORT,...; wins over bootstrap.servers among the settings."),
)
