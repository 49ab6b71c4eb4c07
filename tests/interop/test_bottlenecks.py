"""Bottlenecks that are planted for real, and what the lab says of them.

Each run has a plan that would be easy to keep, and one thing that is made too slow for it. The plants are far beyond
what is needed, so that neighbours on the machine do not matter.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from headrace.lab.bottleneck import Finding, Verdict
from headrace.lab.engines import Terms
from headrace.lab.readings.brokers import local_brokers
from headrace.lab.readings.sampler import BROKER, CLIENT, Sampler
from headrace.lab.running import run_workload
from headrace.lab.scenario import Payload, Scenario
from headrace.lab.sending import send
from headrace.lab.targets.running import Target
from headrace.lab.targets.spec import find_target
from headrace.lab.timeline import Second
from headrace.lab.topics import create_topic
from headrace.lab.workload import parse_workload
from headrace.testing.node_process import NodeProcess
from headrace.testing.ports import lasting_ports
from tests.clients.command_line import Headrace
from tests.interop.plants import CappedLink, HeldOff, NoLimit, SlowSource, limited_cpu, throttled_device
from tests.lab_targets import target_at
from tests.oracle.kafka import ApacheKafka, run_tool
from tests.oracle.toolbox import ToolMissing, without_tool
from tests.proofs.tracing import Tracer, helper_pid

TOPIC: Final = "planted"
DURATION_S: Final = 6
FLUSHED: Final = {"log.flush.interval.messages": "1"}
# Each message is a request: much to do for little on the wire.
ONE_BY_ONE: Final = Terms(acks="1", batch_messages=1, linger_ms=0.0)


class Plant(Protocol):
    def lift(self) -> None: ...


class Lifted:
    """A plant that is in its place, and is lifted by leaving it."""

    def __init__(self, plants: ExitStack) -> None:
        self.lift = plants.close


Planting = Callable[[Mapping[str, Sequence[int]]], Plant]


class _PlantingSampler(Sampler):
    """Plants when it begins to read: then senders are there, and connected."""

    def __init__(self, planting: Planting | None, **options: Any) -> None:
        super().__init__(**options)
        self._planting = planting
        self.plant: Plant | None = None

    def start(self, roles: Mapping[str, Sequence[int]]) -> None:
        super().start(roles)
        if self._planting is not None:
            self.plant = self._planting(roles)


@contextmanager
def node(
    data: Path, settings: Mapping[str, str] | None = None, *, port: int | None = None, seen_at: int | None = None
) -> Iterator[Target]:
    """Where to send to, with the topic. Clients are told to come to the port where it is seen, if that is another."""
    http, listen = (f"127.0.0.1:{each}" for each in lasting_ports(2))
    if port is not None:
        listen = f"127.0.0.1:{port}"
    seen = listen if seen_at is None else f"127.0.0.1:{seen_at}"
    told = {"http.listen": http, **(settings or {})}
    with NodeProcess(data, listen=listen, advertise=seen, settings=told) as running:
        there = {"bootstrap.servers": seen}
        create_topic(there, TOPIC, partitions=1)
        yield target_at(seen, pids=[running.pid], metrics=[f"http://{http}/metrics"])


def judge(target: Target, planting: Planting | None = None, **changes: Any) -> Finding:
    """Send for some seconds, with the plant in its place until the time of sending is over."""
    scenario = Scenario(
        **{
            "topic": TOPIC,
            "rate_per_s": 3_000.0,
            "duration_s": float(DURATION_S),
            "payload": Payload(generator="weblog"),
            **changes,
        }
    )

    def watch(second: int, row: Second) -> None:
        if second >= DURATION_S and sampler.plant is not None:  # A second of overtime is of the run, too.
            sampler.plant.lift()

    with _PlantingSampler(planting, metrics=target.metrics) as sampler:
        sent = send(scenario, target, watch=watch, sampler=sampler)
        found = sampler.conclude(sent)
    print(found.verdict, *found.evidence, sep="\n  ")
    return found


def said(found: Finding) -> str:
    return "\n".join(found.evidence)


def test_a_run_that_nothing_holds_up_has_none(tmp_path: Path) -> None:
    with node(tmp_path) as target:
        found = judge(target, rate_per_s=300.0, duration_s=4.0)
    assert found.verdict is Verdict.NONE, found
    assert "which is on time" in said(found)


def test_a_slow_client(tmp_path: Path) -> None:
    with node(tmp_path) as target, ExitStack() as plants:
        found = judge(
            target,
            lambda roles: plants.enter_context(HeldOff(roles[CLIENT], run_s=0.01, stop_s=0.24)),
            rate_per_s=60_000.0,
        )
    assert found.verdict is Verdict.CLIENT_CPU, found
    assert "the sender's busiest thread" in said(found)


def test_a_slow_broker(tmp_path: Path) -> None:
    with node(tmp_path) as target, ExitStack() as plants:
        found = judge(
            target,
            lambda roles: plants.enter_context(HeldOff(roles[BROKER], run_s=0.003, stop_s=0.45)),
            terms=ONE_BY_ONE,
        )
    assert found.verdict is Verdict.BROKER_CPU, found
    assert "was stopped for" in said(found)


def test_a_broker_with_a_hundredth_of_a_core(tmp_path: Path) -> None:
    with node(tmp_path) as target:
        try:
            with limited_cpu(*target.pids, share=0.01) as plant:
                found = judge(target, lambda roles: plant, terms=ONE_BY_ONE)
        except NoLimit as missing:
            without_tool(ToolMissing(str(missing)))
    assert found.verdict is Verdict.BROKER_CPU, found
    assert "was ready and without a CPU for" in said(found)


def test_a_throttled_disk(tmp_path: Path) -> None:
    with node(tmp_path, FLUSHED) as target:
        try:
            with throttled_device(tmp_path, *target.pids, bytes_per_s=50_000) as plant:
                found = judge(target, lambda roles: plant)
        except NoLimit as missing:
            without_tool(ToolMissing(str(missing)))
    assert found.verdict is Verdict.DISK, found
    assert "a flush to the broker's device was under way" in said(found)


def test_a_disk_whose_flushes_take_a_second(tmp_path: Path) -> None:
    with node(tmp_path / "data", FLUSHED) as target:
        send(Scenario(topic=TOPIC, rate_per_s=100.0, messages=1), target)  # A node without flushes has no helper yet.
        helper, trace = helper_pid(*target.pids), tmp_path / "trace"
        try:
            with ExitStack() as plants:
                plants.enter_context(Tracer(helper, "fsync,fdatasync:delay_exit=1000000", output=trace, threads=True))
                found = judge(target, lambda roles: Lifted(plants))
        except ToolMissing as missing:
            without_tool(missing)
    assert found.verdict is Verdict.DISK, found


def test_a_capped_link(tmp_path: Path) -> None:
    (behind,) = lasting_ports(1)
    with (
        CappedLink(("127.0.0.1", behind), bytes_per_s=60_000) as link,
        node(tmp_path, port=behind, seen_at=link.port) as target,
    ):
        found = judge(target, lambda roles: link)
    assert found.verdict is Verdict.NETWORK, found


def test_a_late_generator(tmp_path: Path) -> None:
    """A plan for ten times what its source gives."""
    fifo = tmp_path / "source"
    with SlowSource(fifo, lines_per_s=300) as source, node(tmp_path / "data") as target:
        found = judge(target, lambda roles: source, payload=Payload(file=str(fifo), in_ram=False))
    assert found.verdict is Verdict.GENERATOR, found
    assert "reading or generating messages took" in said(found)


# --- A broker that tells nothing of itself -----------------------------------------------------------------------


def at_apache(apache: ApacheKafka, **settings: str) -> Target:
    where = {"bootstrap.servers": apache.bootstrap, **settings}
    create_topic(where, settings["client.id"], partitions=1)
    return target_at(apache.bootstrap, settings, pids=local_brokers(apache.bootstrap))


def test_a_slow_broker_of_apaches(apache: ApacheKafka) -> None:
    target = at_apache(apache, **{"client.id": "slow"})
    assert target.pids == [apache.pid]
    with ExitStack() as plants:
        found = judge(
            target,
            lambda roles: plants.enter_context(HeldOff(roles[BROKER], run_s=0.01, stop_s=0.49)),
            topic="slow",
            terms=ONE_BY_ONE,
        )
    assert found.verdict is Verdict.BROKER_CPU, found


def limit(apache: ApacheKafka, client: str, quota: str) -> None:
    run_tool(
        "kafka.admin.ConfigCommand",
        *("--bootstrap-server", apache.bootstrap, "--alter", "--entity-type", "clients", "--entity-name", client),
        *("--add-config", quota),
    )


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_a_quota(engine: str, apache: ApacheKafka) -> None:
    client = f"held-back-{engine}"
    limit(apache, client, "producer_byte_rate=20000")
    found = judge(at_apache(apache, **{"client.id": client}), topic=client, engine=engine)
    assert found.verdict is Verdict.QUOTA, found
    assert "for a quota's sake" in said(found)


@pytest.mark.parametrize("engine", ["librdkafka", "columnar"])
def test_a_quota_on_consumers(engine: str, apache: ApacheKafka, tmp_path: Path) -> None:
    """A tenth of what is written. What they have not got by then is not waited for: it would be a minute."""
    client = f"held-back-consumer-{engine}"
    limit(apache, client, "consumer_byte_rate=20000")
    workload = parse_workload(
        {
            "rate": "2K", "duration": "8s", "warm_up": "0s", "repeats": 1, "payload": "weblog",
            "groups": 1, "consumer_engine": engine, "consumer_client": {"client.id": client},
        },
        name="quota",
    )  # fmt: skip
    results = run_workload(workload, find_target(apache.bootstrap), out=tmp_path)
    (line,) = results.repeats
    print(line.partial, line.consumer_bottleneck)
    assert line.consumer_bottleneck is not None
    assert line.consumer_bottleneck.verdict == Verdict.QUOTA
    assert "for a quota's sake" in "\n".join(line.consumer_bottleneck.evidence)
    assert any(second.more.get("consumers_throttled_ms", 0) > 0 for second in results.seconds)
    assert line.partial is None or line.partial.startswith("consumers got ")
    assert line.bottleneck is not None
    assert line.bottleneck.verdict != Verdict.QUOTA


# --- As a command ------------------------------------------------------------------------------------------------


def test_the_command_writes_readings_and_says_what_it_found(tmp_path: Path) -> None:
    readings = tmp_path / "readings.jsonl"
    shown = Headrace("127.0.0.1:1")(
        *("lab", "send", "--to", "node", "--rate", "500", "--duration", "4s", "--acks", "1", "--readings", readings)
    )
    assert "bottleneck" in shown.stdout
    assert "messages a second were answered of 500 planned" in shown.stdout
    lines = [json.loads(line) for line in readings.read_text().splitlines()]
    by_type: dict[str, list[dict[str, Any]]] = {}
    for line in lines:
        by_type.setdefault(line["type"], []).append(line)
    assert (lines[0]["type"], lines[-1]["type"]) == ("readings", "bottleneck")
    seconds = by_type["reading"]
    assert len(seconds) >= 3
    assert [one["utc"] for one in seconds] == sorted(one["utc"] for one in seconds)
    last = seconds[-2]
    assert {one["role"] for one in last["processes"]} == {"client", "broker"}
    assert last["machine"]["interfaces"]["lo"]["sent_packets_per_s"] > 0
    (told,) = lines[0]["metrics"]
    produced = sum(one["nodes"][told]["requests"].get("Produce", {}).get("per_s", 0) for one in seconds if one["nodes"])
    assert produced > 0
    (spread,) = by_type["requests"]
    produce = next(one for one in spread["classes"] if one["api"] == "Produce")
    assert produce["local_us"]["count"] == produce["request_bytes"]["count"] > 10
    assert any(one["brokers"] for one in by_type["client"])


def test_metrics_that_are_not_there_are_one_line_before_anything_starts(tmp_path: Path) -> None:
    where = ("--readings", tmp_path / "readings.jsonl", "--metrics", "http://127.0.0.1:1/metrics")
    refused = Headrace("127.0.0.1:1")("lab", "send", "--rate", "10", *where, status=1)
    assert "cannot read metrics at http://127.0.0.1:1/metrics" in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_programs_get_the_verdict_as_json(tmp_path: Path) -> None:
    where = ("--to", "null", "--rate", "100", "--duration", "3s", "--readings", tmp_path / "readings.jsonl", "--json")
    found = json.loads(Headrace("127.0.0.1:1")("lab", "send", *where).stdout)["bottleneck"]
    assert found["verdict"] == "none found"
    assert "of 100 planned" in found["evidence"][0]


def test_metrics_without_a_place_for_readings_are_refused() -> None:
    refused = Headrace("127.0.0.1:1")("lab", "send", "--rate", "10", "--metrics", "http://127.0.0.1:1/", status=2)
    assert "--metrics is for --readings" in refused.stderr
