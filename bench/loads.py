"""The kinds of load, and how each is put on a broker. Every one is bounded in work and in time.

The load comes from C (`load/`: librdkafka, or requests made beforehand) or from Kafka's own
ProducerPerformance: a Python sender could not reach these rates. A load that loses, duplicates or reorders a
message fails; it has no figure then.
"""

import dataclasses
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from bench import bare
from bench.errors import LoadError
from bench.load_program import c_load
from bench.systems import Broker
from headrace.lab.readings import process_tree
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import run_checked

# What kafka-producer-perf-test gives its process.
_PERF_JVM_OPTIONS: Final = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
)
_PERF_TOTAL: Final = re.compile(
    r"(\d+) records sent, ([\d.]+) records/sec \([\d.]+ MB/sec\), "
    r"[\d.]+ ms avg latency, [\d.]+ ms max latency, "
    r"(\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)
_DEADLINE_S: Final = 300
_IDLE_SETTLE_S: Final = 1.0

# librdkafka stops fetching for a second once this many messages wait, which a fast broker reaches at the
# default.
_READ_AHEAD: Final = {
    "consumer:queued.min.messages": "10000000",
    "consumer:queued.max.messages.kbytes": "1048576",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a load reports. Instants are of CLOCK_MONOTONIC, which all processes of a host share."""

    messages: int = 0
    value_bytes: int = 0
    seconds: float = 0.0
    course_ns: tuple[int, int, int] | None = None  # When it began, had half done, and had all done.
    values: Mapping[str, float] = field(default_factory=dict)  # By metric name.


@dataclass(frozen=True, slots=True)
class Site:
    """Where a load is put: a running broker, and what the run has decided so far."""

    broker: Broker
    scale: float  # Of the counts of messages; below one for a smoke run.
    start_s: float  # From exec to the first answer.
    saturation_per_s: float | None  # End to end, measured earlier in this run.

    def scaled(self, messages: int) -> int:
        return max(2, round(messages * self.scale))

    def scaled_s(self, seconds: float) -> float:
        """Latency percentiles need some time to mean anything, however small the run."""
        return max(1.0, seconds * self.scale)


class Load(Protocol):
    def run(self, site: Site) -> Outcome: ...

    def written_bytes(self, scale: float) -> int:
        """What it will add to the log, so that memory and disk can be had ready."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """librdkafka at full speed into a new topic."""

    topic: str
    messages: int
    message_bytes: int = 200
    partitions: int = 1
    clients: int = 1
    acks: str = "1"
    properties: Mapping[str, str] = field(default_factory=dict)

    def run(self, site: Site) -> Outcome:
        create_topic(site.broker.bootstrap, self.topic, partitions=self.partitions)
        return run_c_load(
            "produce",
            site,
            self.properties,
            topic=self.topic,
            messages=site.scaled(self.messages),
            message_bytes=self.message_bytes,
            partitions=self.partitions,
            clients=self.clients,
            acks=self.acks,
        )

    def written_bytes(self, scale: float) -> int:
        return round(self.messages * scale) * self.message_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Consume:
    """librdkafka at full speed from the start of what an earlier step of the same block produced."""

    of: Produce
    clients: int = 1

    def run(self, site: Site) -> Outcome:
        return run_c_load(
            "consume",
            site,
            _READ_AHEAD,
            topic=self.of.topic,
            messages=site.scaled(self.of.messages),
            partitions=self.of.partitions,
            clients=self.clients,
        )

    def written_bytes(self, scale: float) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BareProduce:
    """The same batch again and again over one connection: all that the broker does, little that a client does."""

    topic: str
    batches: int
    batch_messages: int
    message_bytes: int = 200
    acks: int = 1

    def run(self, site: Site) -> Outcome:
        create_topic(site.broker.bootstrap, self.topic, partitions=1)
        template = bare.produce_template(
            self.topic,
            messages=self.batch_messages,
            message_bytes=self.message_bytes,
            acks=self.acks,
            timestamp_ms=time.time_ns() // 1_000_000,  # Retention removes what is older than it keeps.
        )
        return run_bare_load("bare-produce", site, template, self)

    def messages(self, site: Site) -> int:
        return site.scaled(self.batches) * self.batch_messages

    def written_bytes(self, scale: float) -> int:
        return round(self.batches * scale) * self.batch_messages * self.message_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BareConsume:
    """All that an earlier step of the same block produced, batch by batch; none is opened."""

    of: BareProduce

    def run(self, site: Site) -> Outcome:
        return run_bare_load("bare-consume", site, bare.fetch_template(self.of.topic), self.of)

    def written_bytes(self, scale: float) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaProduce:
    """Kafka's own producer and perf tool. The latency is from send to acknowledgement, under saturation."""

    topic: str
    messages: int
    message_bytes: int = 200
    partitions: int = 1
    acks: str = "1"
    properties: Mapping[str, str] = field(default_factory=dict)

    def run(self, site: Site) -> Outcome:
        bootstrap, messages = site.broker.bootstrap, site.scaled(self.messages)
        create_topic(bootstrap, self.topic, partitions=self.partitions)
        output = run_checked(self.command(bootstrap, messages), timeout_s=_DEADLINE_S).decode()
        check_end_offsets(bootstrap, self.topic, partitions=self.partitions, messages=messages)
        return parse_perf_report(output, messages=messages, message_bytes=self.message_bytes)

    def command(self, bootstrap: str, messages: int) -> list[str]:
        properties = {"bootstrap.servers": bootstrap, "acks": self.acks} | dict(self.properties)
        return [
            *java_command(jvm_options=_PERF_JVM_OPTIONS),
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", self.topic, "--num-records", str(messages)),
            *("--record-size", str(self.message_bytes), "--throughput", "-1"),
            "--producer-props",
            *(f"{name}={value}" for name, value in properties.items()),
        ]

    def written_bytes(self, scale: float) -> int:
        return round(self.messages * scale) * self.message_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FanOut:
    """A Java producer and several consumers of everything, at once.

    The rate is that of messages in, and time runs until the slowest consumer has the last one.
    """

    produce: JavaProduce
    consumers: int

    def run(self, site: Site) -> Outcome:
        produce, bootstrap = self.produce, site.broker.bootstrap
        messages = site.scaled(produce.messages)
        create_topic(bootstrap, produce.topic, partitions=produce.partitions)
        options = {
            "topic": produce.topic,
            "messages": messages,
            "partitions": produce.partitions,
            "clients": self.consumers,
        }
        with started(c_load_command("consume", site, _READ_AHEAD, options)) as consumers:
            output = run_checked(produce.command(bootstrap, messages), timeout_s=_DEADLINE_S).decode()
            report = json.loads(finish(consumers))
        check_end_offsets(bootstrap, produce.topic, partitions=produce.partitions, messages=messages)
        sent = parse_perf_report(output, messages=messages, message_bytes=produce.message_bytes)
        return Outcome(
            messages=messages,
            value_bytes=messages * produce.message_bytes,
            seconds=(report["end_ns"] - report["first_ns"]) / 1e9,
            values=sent.values,
        )

    def written_bytes(self, scale: float) -> int:
        return self.produce.written_bytes(scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """Open loop: latency from the planned send to the consumer.

    The rate is absolute, or a share of the saturation measured earlier in the run; without either, messages
    go as fast as they can and their rate *is* the saturation.
    """

    topic: str
    seconds: float = 8.0
    rate_per_s: float | None = None
    saturation_share: float | None = None
    messages: int = 0  # Where there is no rate.
    message_bytes: int = 200
    properties: Mapping[str, str] = field(default_factory=dict)
    warm_up_s: float = 2.0

    def run(self, site: Site) -> Outcome:
        create_topic(site.broker.bootstrap, self.topic, partitions=1)
        rate_per_s = self._rate_per_s(site)
        if rate_per_s == 0:
            messages, warm_up_s = site.scaled(self.messages), 0.0
        else:
            warm_up_s = site.scaled_s(self.warm_up_s)
            messages = round(rate_per_s * (site.scaled_s(self.seconds) + warm_up_s))
        outcome = run_c_load(
            "end-to-end",
            site,
            _READ_AHEAD | dict(self.properties),
            topic=self.topic,
            messages=messages,
            message_bytes=self.message_bytes,
            rate_per_s=rate_per_s,
            warm_up_s=warm_up_s,
        )
        # At saturation latency is the length of the client's queue: no figure of the broker's.
        return dataclasses.replace(outcome, values={}) if rate_per_s == 0 else outcome

    def _rate_per_s(self, site: Site) -> float:
        if self.saturation_share is None:
            return self.rate_per_s or 0.0
        if site.saturation_per_s is None:
            raise LoadError("the saturation is not known: its row must run before this one")
        return round(site.saturation_per_s * self.saturation_share)

    def written_bytes(self, scale: float) -> int:
        if self.rate_per_s is None and self.saturation_share is None:
            return round(self.messages * scale) * self.message_bytes
        return 1 << 30  # Not known before the saturation is; twice what 300,000 a second write.


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Nothing but a fresh start: how long it took, and what it holds a second later."""

    def run(self, site: Site) -> Outcome:
        time.sleep(_IDLE_SETTLE_S)
        resident_mb = process_tree.resident_bytes(site.broker.pid) / 1e6
        return Outcome(values={"start_s": site.start_s, "memory_mb_idle": resident_mb})

    def written_bytes(self, scale: float) -> int:
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """A clean stop, and a start on the same data with its pages still in memory, until records are served."""

    of: Produce

    def run(self, site: Site) -> Outcome:
        site.broker.stop()
        return Outcome(values={"start_s": site.broker.start(answer_from=self.of.topic)})

    def written_bytes(self, scale: float) -> int:
        return 0


def run_c_load(kind: str, site: Site, properties: Mapping[str, str], **options: object) -> Outcome:
    command = c_load_command(kind, site, properties, options)
    return parse_c_report(json.loads(run_checked(command, timeout_s=_DEADLINE_S + 5)))


def run_bare_load(kind: str, site: Site, template: bare.Template, log: BareProduce) -> Outcome:
    """Over the messages that are, or are to be, in the log of that load."""
    with tempfile.NamedTemporaryFile(prefix="bench-request-") as file:
        file.write(template.to_bytes())
        file.flush()
        return run_c_load(
            kind,
            site,
            {},
            topic=log.topic,
            messages=log.messages(site),
            message_bytes=log.message_bytes,
            request_file=file.name,
        )


def c_load_command(kind: str, site: Site, properties: Mapping[str, str], options: Mapping[str, object]) -> list[str]:
    given = {"brokers": site.broker.bootstrap, "deadline_s": _DEADLINE_S} | dict(options) | dict(properties)
    return [str(c_load()), kind, *(f"{name}={value}" for name, value in given.items())]


def parse_c_report(report: Mapping[str, object]) -> Outcome:
    def number(name: str) -> int:
        value = report[name]
        assert isinstance(value, int)
        return value

    values: dict[str, float] = {}
    latency, lateness = report["latency_us"], report["lateness_us"]
    if isinstance(latency, dict):
        values |= {f"latency_ms_{name}": latency[name] / 1e3 for name in ("p50", "p99", "p999")}
    if isinstance(lateness, dict):
        values["lateness_ms_p99"] = lateness["p99"] / 1e3
    return Outcome(
        messages=number("messages"),
        value_bytes=number("bytes"),
        seconds=(number("end_ns") - number("start_ns")) / 1e9,
        course_ns=(number("start_ns"), number("half_ns"), number("end_ns")),
        values=values,
    )


def parse_perf_report(output: str, *, messages: int, message_bytes: int) -> Outcome:
    """The last line of ProducerPerformance, whose form is Kafka's."""
    totals = _PERF_TOTAL.findall(output)
    if not totals or int(totals[-1][0]) != messages:
        raise LoadError(f"ProducerPerformance did not send {messages} records:\n{output[-2000:]}")
    _sent, rate_per_s, p50, p99, p999 = totals[-1]
    return Outcome(
        messages=messages,
        value_bytes=messages * message_bytes,
        seconds=messages / float(rate_per_s),
        values={
            "latency_ms_p50": float(p50),
            "latency_ms_p99": float(p99),
            "latency_ms_p999": float(p999),
        },
    )


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})  # Warnings and worse.


def create_topic(bootstrap: str, topic: str, *, partitions: int) -> None:
    admin = _admin(bootstrap)
    made = admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])
    made[topic].result(timeout=60)


def check_end_offsets(bootstrap: str, topic: str, *, partitions: int, messages: int) -> None:
    """The log must come to hold exactly what was sent; acks=0 may lag the sender a little."""
    admin = _admin(bootstrap)
    deadline_s = time.monotonic() + 20
    while True:
        asked = admin.list_offsets({TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)})
        held: int = sum(answer.result(timeout=20).offset for answer in asked.values())
        if held == messages:
            return
        if held > messages or time.monotonic() > deadline_s:
            raise LoadError(f"topic {topic} holds {held} messages, {messages} were sent")
        time.sleep(0.1)


@contextmanager
def started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finish(process: subprocess.Popen[bytes]) -> bytes:
    output, problem = process.communicate(timeout=_DEADLINE_S)
    if process.returncode != 0:
        raise LoadError(f"load ended with {process.returncode}: {problem.decode(errors='replace')[-2000:]}")
    return output
