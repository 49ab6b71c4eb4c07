"""kafka-consumer-perf-test: how many records a second a member of a group gets."""

import random
import re
from contextlib import closing
from dataclasses import replace
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.perf import (
    BROKER_LIST,
    PRINT_METRICS,
    cluster_with,
    java_settings,
    print_line,
)
from headrace.cli.kafka_scripts.script import Script
from headrace.cli.kafka_scripts.topics import INTERNAL
from headrace.cli.output import CommandError, note
from headrace.cli.stopping import StopRequest
from headrace.lab.perf import consumer
from headrace.lab.perf.java_text import date_writer
from headrace.lab.perf.metrics import LatestStatistics, consumer_metrics, metric_lines
from headrace.lab.perf.properties import consumer_properties

_ONE_READS: Final = "one consumer reads, as in Kafka's tool"

FLAGS: Final = (
    BROKER_LIST,
    Flag("topic", Takes.VALUE, "The topic. This or --include."),
    Flag("include", Takes.VALUE, "A regular expression: the topics there are whose whole names match."),
    Flag("num-records", Takes.VALUE, "REQUIRED: how many records."),
    Flag("messages", Takes.VALUE, "The same as --num-records, in older scripts."),
    Flag("group", Takes.VALUE, "The group to join; one of its own by default."),
    Flag("fetch-size", Takes.VALUE, "How many bytes of a partition to fetch at once; 1048576 by default."),
    Flag("from-latest", help="Begin at the end where nothing is committed."),
    Flag("socket-buffer-size", Takes.VALUE, "The socket's receive buffer, in bytes; 2097152 by default."),
    Flag("command-property", Takes.VALUE, "A setting of the consumer, as NAME=VALUE. May be repeated."),
    Flag("consumer.config", Takes.VALUE, "The same as --command-config."),
    PRINT_METRICS,
    Flag("show-detailed-stats", help="A line for each interval, in place of one at the end."),
    Flag("timeout", Takes.MAYBE, "How long to wait for a record, in milliseconds; 10000 by default."),
    Flag("reporting-interval", Takes.VALUE, "How long an interval is, in milliseconds; 5000 by default."),
    Flag("date-format", Takes.VALUE, "How times are written, as Java's SimpleDateFormat has it."),
    Flag("hide-header", help="No line of headings."),
    Flag("threads", Takes.VALUE, ignored=_ONE_READS),
    Flag("num-fetch-threads", Takes.VALUE, ignored=_ONE_READS),
    Flag("new-consumer", ignored="there is no other"),
    Flag("zookeeper", Takes.VALUE, refused="consumers have long ceased to use it; say --bootstrap-server"),
)


def run(words: Words) -> None:
    settings = java_settings(words, files=("consumer.config", "command-config"), pairs=("command-property",))
    settings |= {
        "group.id": words.one("group") or f"perf-consumer-{random.randrange(100_000)}",
        "receive.buffer.bytes": str(words.bounded("socket-buffer-size", least=-1, otherwise=2 << 20)),
        "max.partition.fetch.bytes": str(words.bounded("fetch-size", least=1, otherwise=1 << 20)),
        "auto.offset.reset": "latest" if "from-latest" in words else "earliest",
        "check.crcs": "false",
    }
    date_text = date_writer(words.one("date-format") or "yyyy-MM-dd HH:mm:ss:SSS")
    properties = consumer_properties(settings)
    wanted = words.only("topic", "include")
    pattern = _pattern(words) if wanted == "include" else None
    plan = consumer.Plan(
        topics=() if pattern else (words.required("topic"),),
        records=words.bounded(words.only("num-records", "messages"), least=0),
        timeout_ms=words.bounded("timeout", least=0, otherwise=10_000),
        interval_ms=words.bounded("reporting-interval", least=1, otherwise=5_000),
        poll_records_max=properties.poll_records_max,
        is_detailed="show-detailed-stats" in words,
        has_header="hide-header" not in words,
    )
    statistics = LatestStatistics() if "print-metrics" in words else None
    cluster = cluster_with(properties)
    made = cluster.consumer({} if statistics is None else {"stats_cb": statistics, **LatestStatistics.SETTINGS})
    with closing(made) as client, StopRequest() as stop:
        if pattern is not None:
            plan = replace(plan, topics=_matching(cluster, pattern))
        else:
            cluster.cluster_metadata(client)
        around = consumer.Surroundings(print_line=print_line, complain=note, check=stop.check, date_text=date_text)
        consumer.run(client, plan, around)
        if statistics is not None:
            for line in metric_lines(consumer_metrics(statistics.wait(client.poll))):
                print_line(line)


def _pattern(words: Words) -> re.Pattern[str]:
    text = words.required("include")
    try:
        return re.compile(text)
    except re.error as error:
        raise Misused(f"--include {text!r} is not a regular expression: {error}") from error


def _matching(cluster: Connection, pattern: re.Pattern[str]) -> list[str]:
    """Found once, at the beginning: librdkafka's own expressions are not Java's."""
    names = sorted(cluster.cluster_metadata(cluster.admin()).topics)
    found = [name for name in names if name not in INTERNAL and pattern.fullmatch(name)]
    if not found:
        raise CommandError(f"no topic matches --include {pattern.pattern!r}")
    return found


SCRIPT: Final = Script("kafka-consumer-perf-test", "measure how fast records can be consumed", FLAGS, run)
