"""The race's programs, as engines of the lab: a Python sender could not reach these rates.

`c` is librdkafka at full speed, from C (`load/`). `bare` has no client at all: `load/bare*.c` sends requests that were
made beforehand (`bare.py`). `java` is Kafka's own ProducerPerformance with the Java producer. Each is bounded in work
and in time, and a load that loses, duplicates or reorders a message fails; it has no figure then.
"""

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from bench import bare
from bench.load_program import c_load
from headrace.lab.errors import LabError
from headrace.lab.programs import Job, Outcome, Program, Wait, register
from headrace.lab.topics import wait_kept
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
    r"(\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th"
)
_DEADLINE_S: Final = 300
_QUANTILES: Final = ("p50", "p99", "p999")

# librdkafka stops fetching for a second once this many messages wait, which a fast broker reaches at the
# default.
_READ_AHEAD: Final = {"queued.min.messages": "10000000", "queued.max.messages.kbytes": "1048576"}
# Messages that wait to be sent are limited by their number alone.
_QUEUED_MESSAGES_MAX: Final = 1_000_000


def register_all() -> None:
    register("c", Program(send=send_by_c, consuming=consuming_by_c, exchange=exchange_by_c))
    register("bare", Program(send=send_bare, consuming=consuming_bare))
    register("java", Program(send=send_by_java))


# --- librdkafka in C ---------------------------------------------------------------------------------------------


def send_by_c(job: Job) -> Outcome:
    options = {"message_bytes": job.size_bytes, "clients": job.senders, "acks": job.terms.acks}
    return c_outcome(run_c(c_command("produce", job, options, producer_properties(job))))


@contextmanager
def consuming_by_c(job: Job) -> Iterator[Wait]:
    command = c_command("consume", job, {"clients": job.readers}, {**_READ_AHEAD, **job.consumer_client})
    with _started(command) as process:
        yield lambda: c_outcome(json.loads(_finish(process)))


def exchange_by_c(job: Job) -> Outcome:
    options = {
        "message_bytes": job.size_bytes,
        "acks": job.terms.acks,
        "rate_per_s": job.rate_per_s or 0,
        "warm_up_s": job.warm_up_s,
    }
    properties = {f"producer:{name}": value for name, value in producer_properties(job).items()}
    properties |= {f"consumer:{name}": value for name, value in {**_READ_AHEAD, **job.consumer_client}.items()}
    outcome = c_outcome(run_c(c_command("end-to-end", job, options, properties)), latency="end_to_end")
    # As fast as it goes, latency is the length of the client's queue: no figure of the broker's.
    return replace(outcome, metrics={}) if job.rate_per_s is None else outcome


def producer_properties(job: Job) -> dict[str, str]:
    """The terms in librdkafka's words."""
    properties = {
        "linger.ms": f"{job.terms.linger_ms:g}",
        "batch.size": str(job.terms.batch_bytes),
        "compression.type": job.terms.compression,
        "queue.buffering.max.messages": str(_QUEUED_MESSAGES_MAX),
    }
    if job.terms.batch_messages is not None:
        properties["batch.num.messages"] = str(job.terms.batch_messages)
    return properties | dict(job.client)


def c_command(kind: str, job: Job, options: Mapping[str, object], properties: Mapping[str, str]) -> list[str]:
    given = {
        "brokers": job.bootstrap,
        "topic": job.topic,
        "partitions": job.partitions,
        "messages": job.messages,
        "deadline_s": _DEADLINE_S,
        **options,
        **properties,
    }
    return [str(c_load()), kind, *(f"{name}={value}" for name, value in given.items())]


def run_c(command: list[str]) -> Mapping[str, Any]:
    report: Mapping[str, Any] = json.loads(run_checked(command, timeout_s=_DEADLINE_S + 5))
    return report


def c_outcome(report: Mapping[str, Any], *, latency: str = "send_latency") -> Outcome:
    """`latency` is what the program's is called in results."""
    metrics: dict[str, float] = {}
    if report["latency_us"] is not None:
        metrics |= {f"{latency}_{name}_ms": report["latency_us"][name] / 1e3 for name in _QUANTILES}
    if report["lateness_us"] is not None:
        metrics["lateness_p99_ms"] = report["lateness_us"]["p99"] / 1e3
    return Outcome(
        messages=report["messages"],
        size_bytes=report["bytes"],
        seconds=(report["end_ns"] - report["start_ns"]) / 1e9,
        waited_s=(report["first_ns"] - report["start_ns"]) / 1e9,
        course_ns=(report["start_ns"], report["half_ns"], report["end_ns"]),
        metrics=metrics,
    )


# --- Requests made beforehand ------------------------------------------------------------------------------------


def send_bare(job: Job) -> Outcome:
    """The same batch again and again over one connection: all that the broker does, little that a client does."""
    batch_messages = job.terms.batch_messages
    if batch_messages is None or job.terms.acks == "0":
        raise LabError("bare: say how many messages are in a batch (batch_messages), and wait for answers (acks)")
    template = bare.produce_template(
        job.topic,
        messages=batch_messages,
        message_bytes=job.size_bytes,
        acks=-1 if job.terms.acks == "all" else int(job.terms.acks),
        timestamp_ms=time.time_ns() // 1_000_000,  # Retention removes what is older than it keeps.
    )
    with bare_command("bare-produce", job, template) as command:
        return c_outcome(run_c(command))


@contextmanager
def consuming_bare(job: Job) -> Iterator[Wait]:
    """All of it, batch by batch; none is opened."""
    with bare_command("bare-consume", job, bare.fetch_template(job.topic)) as command, _started(command) as process:
        yield lambda: c_outcome(json.loads(_finish(process)))


@contextmanager
def bare_command(kind: str, job: Job, template: bare.Template) -> Iterator[list[str]]:
    with tempfile.NamedTemporaryFile(prefix="bench-request-") as file:
        file.write(template.to_bytes())
        file.flush()
        options = {"messages": whole_batches(job), "message_bytes": job.size_bytes, "request_file": file.name}
        yield c_command(kind, job, options, {})


def whole_batches(job: Job) -> int:
    """As many messages as are in whole requests; two of them at least, so that there is a half."""
    each = job.terms.batch_messages or 1
    return max(2, round(job.messages / each)) * each


# --- Kafka's own producer ----------------------------------------------------------------------------------------


def send_by_java(job: Job) -> Outcome:
    """The latency is from send to acknowledgement, as fast as it goes."""
    output = run_checked(java_producer(job), timeout_s=_DEADLINE_S).decode()
    wait_kept({"bootstrap.servers": job.bootstrap}, job.topic, messages=job.messages)
    return parse_perf_report(output, job)


def java_producer(job: Job) -> list[str]:
    properties = {
        "bootstrap.servers": job.bootstrap,
        "acks": job.terms.acks,
        "batch.size": str(job.terms.batch_bytes),
        "linger.ms": f"{job.terms.linger_ms:g}",
        "buffer.memory": str(job.terms.buffer_bytes),
        "compression.type": job.terms.compression,
        **job.client,
    }
    return [
        *java_command(jvm_options=_PERF_JVM_OPTIONS),
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", job.topic, "--num-records", str(job.messages)),
        *("--record-size", str(job.size_bytes), "--throughput", "-1"),
        "--producer-props",
        *(f"{name}={value}" for name, value in properties.items()),
    ]


def parse_perf_report(output: str, job: Job) -> Outcome:
    """The last line of ProducerPerformance, whose form is Kafka's."""
    totals = _PERF_TOTAL.findall(output)
    if not totals or int(totals[-1][0]) != job.messages:
        raise LabError(f"ProducerPerformance did not send {job.messages} records:\n{output[-2000:]}")
    _sent, rate_per_s, *latencies = totals[-1]
    return Outcome(
        messages=job.messages,
        size_bytes=job.messages * job.size_bytes,
        seconds=job.messages / float(rate_per_s),
        metrics={
            f"send_latency_{name}_ms": float(each)
            for name, each in zip(("p50", "p95", "p99", "p999"), latencies, strict=True)
        },
    )


# --- Processes ---------------------------------------------------------------------------------------------------


@contextmanager
def _started(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _finish(process: subprocess.Popen[bytes]) -> bytes:
    output, problem = process.communicate(timeout=_DEADLINE_S)
    if process.returncode != 0:
        raise LabError(f"load ended with {process.returncode}: {problem.decode(errors='replace')[-2000:]}")
    return output
