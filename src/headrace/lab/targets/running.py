"""Targets that run: started as their spec says, reached by `settings`, and gone at the end of the `with`.

    with running(spec) as target:
        target.settings["bootstrap.servers"]

Whatever happens inside, nothing that was started is left, and nothing that it kept.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from headrace import __version__
from headrace.errors import HeadraceError
from headrace.lab.crew import Crew
from headrace.lab.errors import LabError
from headrace.lab.null_sink import NullSink
from headrace.lab.readings.recorder import RequestRecorder
from headrace.lab.readings.sockets import listeners
from headrace.lab.remote import check_elsewhere, link
from headrace.lab.targets.answering import seconds_to_answer
from headrace.lab.targets.apache_cluster import ApacheCluster
from headrace.lab.targets.apache_kafka import BROKER_JVM_OPTIONS, KAFKA_VERSION, java_command
from headrace.lab.targets.leash import leashed_directory
from headrace.lab.targets.member import Member
from headrace.lab.targets.proxy import Proxy
from headrace.lab.targets.spec import TargetSpec
from headrace.lab.targets.tools import ToolFailed, ToolMissing
from headrace.testing.node_process import NodeProcess, NodeProcessError
from headrace.testing.ports import lasting_ports
from headrace.wire.cluster import Cluster
from headrace.wire.settings import Address, client_settings

_BOOTSTRAP: Final = "bootstrap.servers"
_LOOPBACK: Final = "127.0.0.1"
_HEAPS: Final = {1: "1G"}
_HEAP_OF_SEVERAL: Final = "512M"  # They share one machine.
_LAST_LINES: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    spec: TargetSpec
    settings: Mapping[str, str] = field(repr=False)  # librdkafka's.
    members: Sequence[Member]
    versions: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[str] = ()  # URLs where brokers tell what they count, for Prometheus.
    far: Crew | None = None  # Who is at the far end of a link to it, where there is one.
    recorders: Mapping[str, RequestRecorder] = field(default_factory=dict)  # By member, where requests are recorded.
    start_s: float | None = None  # Of the only broker, from exec to its first answer; None where that is not known.

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def bootstrap(self) -> str:
        return self.settings[_BOOTSTRAP]

    @property
    def keeps_messages(self) -> bool:
        return self.spec.kind != "null"

    @property
    def pids(self) -> list[int]:
        return [pid for member in self.members if (pid := member.pid) is not None]

    @property
    def pid(self) -> int:
        """Of the only broker."""
        (pid,) = self.pids
        return pid

    @property
    def is_proxied(self) -> bool:
        """Whether clients reach it through proxies, which were put there to cut it off or to count requests."""
        return any(member.is_proxied for member in self.members)

    def member(self, word: str | None) -> Member:
        """By name or id; None for the only one."""
        if word is None and len(self.members) == 1:
            return self.members[0]
        names = ", ".join(member.name for member in self.members)
        if word is None:
            raise LabError(f"which broker? There are {names}")
        found = next((member for member in self.members if member.is_called(word)), None)
        if found is None:
            raise LabError(f"there is no broker {word!r}; there are {names}")
        return found

    def restart(self, *, answer_from: str) -> float | None:
        """A clean stop of the only broker and a start on the same data; how long it took to give records of a topic."""
        self.member(None).restart()
        return seconds_to_answer(self.bootstrap, self.pid, topic=answer_from)

    def trouble(self) -> str | None:
        """Why there is no use in going on: a broker died that nobody killed, or none is left."""
        dead = [member.name for member in self.members if member.has_died]
        if dead:
            return f"{' and '.join(dead)} died"
        if self.members and not any(member.is_alive or member.is_awaited for member in self.members):
            return "no broker is left"
        return None


class Place(NamedTuple):
    """How and where something is started."""

    partitions: int
    is_cuttable: bool
    is_recorded: bool
    host: str
    asks_brokers: bool

    @property
    def is_proxied(self) -> bool:
        return self.is_cuttable or self.is_recorded


@contextmanager
def running(
    spec: TargetSpec,
    *,
    partitions: int = 1,
    is_cuttable: bool = False,
    is_recorded: bool = False,
    is_remote: bool = False,
    asks_brokers: bool = True,
) -> Iterator[Target]:
    """`partitions` is for a null sink, in which every topic has as many. `is_cuttable` puts proxies before brokers, and
    so does `is_recorded`, with whom they count requests.

    `is_remote` is for senders on another host: what is started here is at the near end of a link, which those on this
    host reach as they reach any address of their own, and others are at the far end. A cluster that is there has to be
    on another host then: NotMeasurableHere where it is not. Without `asks_brokers` it has no members.
    """
    opened = {"node": _node, "kafka": _kafka, "cluster": _cluster, "null": _null}[spec.kind]
    if is_remote and spec.bootstrap is not None:
        check_remote(spec)
    with ExitStack() as stack:
        far = stack.enter_context(link()) if is_remote and spec.bootstrap is None else None
        host = _LOOPBACK if far is None else far.near_address
        place = Place(partitions, is_cuttable, is_recorded, host, asks_brokers)
        try:
            target = opened(spec, stack, place)
        except ToolMissing as error:
            raise LabError(f"target {spec.name}: {error}") from error
        except (ToolFailed, NodeProcessError) as error:
            lines = [line for line in str(error).splitlines() if line.strip()]
            said = " | ".join(lines[:1] + lines[1:][-_LAST_LINES:])
            raise LabError(f"target {spec.name} did not start: {said}") from error
        yield target if far is None else replace(target, far=far.crew)


def _node(spec: TargetSpec, stack: ExitStack, place: Place) -> Target:
    data = stack.enter_context(leashed_directory())
    port, http_port = lasting_ports(2)
    properties = {"http.listen": f"127.0.0.1:{http_port}", **spec.properties}
    proxy = _proxy(stack, (place.host, port), place) if place.is_proxied else None
    node = stack.enter_context(
        NodeProcess(
            data,
            listen=f"{place.host}:{port}",
            settings=properties,
            advertise=None if proxy is None else proxy.address,
        )
    )
    start_s = seconds_to_answer(node.bootstrap, node.pid)
    address = node.bootstrap if proxy is None else proxy.address
    (node_id,) = _broker_ids(address)
    return Target(
        spec=spec,
        settings={**spec.client, _BOOTSTRAP: address},
        members=[Member(node_id, name="node", process=node, proxy=proxy)],
        versions={"headrace (node)": __version__},
        metrics=[f"http://{properties['http.listen']}/metrics"],
        recorders=_recorders({"node": proxy}),
        start_s=start_s,
    )


def _kafka(spec: TargetSpec, stack: ExitStack, place: Place) -> Target:
    java_command()  # Says what is missing before anything is started.
    directory = stack.enter_context(leashed_directory())
    heap = spec.heap or _HEAPS.get(spec.brokers, _HEAP_OF_SEVERAL)
    options = [option for option in BROKER_JVM_OPTIONS if not option.startswith(("-Xms", "-Xmx"))]
    cluster = ApacheCluster(
        directory / "kafka",
        brokers=spec.brokers,
        properties=spec.properties,
        jvm_options=[f"-Xms{heap}", f"-Xmx{heap}", *options],
        is_proxied=place.is_proxied,
        host=place.host,
    )
    for proxy in cluster.proxies:
        proxy.recorder = RequestRecorder() if place.is_recorded else None
    stack.enter_context(cluster)
    (first, *others) = cluster.nodes
    start_s = None if others else seconds_to_answer(first.bootstrap, first.pid)
    proxies: list[Proxy | None] = [*cluster.proxies] or [None] * spec.brokers
    members = [
        Member(number, process=node, proxy=proxy)
        for number, (node, proxy) in enumerate(zip(cluster.nodes, proxies, strict=True), 1)
    ]
    return Target(
        spec=spec,
        settings={**spec.client, _BOOTSTRAP: cluster.bootstrap},
        members=members,
        versions={"Apache Kafka": KAFKA_VERSION},
        recorders=_recorders({member.name: proxy for member, proxy in zip(members, proxies, strict=True)}),
        start_s=start_s,
    )


def _cluster(spec: TargetSpec, stack: ExitStack, place: Place) -> Target:
    assert spec.bootstrap is not None
    if place.is_proxied:
        raise LabError(f"target {spec.name} was not started here, so nothing can be put before its brokers")
    settings = {**spec.client, _BOOTSTRAP: spec.bootstrap}
    return Target(spec=spec, settings=settings, members=_brokers(spec, settings) if place.asks_brokers else [])


def _brokers(spec: TargetSpec, settings: Mapping[str, str]) -> list[Member]:
    return [
        Member(node_id, pid=next(iter(listeners(address.host, address.port)), None))
        for node_id, address in sorted(_advertised(spec, settings).items())
    ]


def _advertised(spec: TargetSpec, settings: Mapping[str, str]) -> dict[int, Address]:
    try:
        with Cluster(client_settings(config=settings)) as cluster:
            return dict(cluster.refresh().brokers)
    except HeadraceError as error:
        raise LabError(f"target {spec.name} is not there: {error}") from error


def advertised_addresses(spec: TargetSpec) -> list[str]:
    """Where the brokers of a cluster that is there tell its clients to find them."""
    found = _advertised(spec, {**spec.client, _BOOTSTRAP: spec.bootstrap or ""})
    return [f"{address.host}:{address.port}" for address in found.values()]


def check_remote(spec: TargetSpec, *, advertised: Callable[[TargetSpec], Iterable[str]] = advertised_addresses) -> None:
    """NotMeasurableHere for a cluster that is there and on this host: by where it is named, or by where its brokers
    say that they are, which is where everything is sent."""
    assert spec.bootstrap is not None
    check_elsewhere(spec.bootstrap.split(","))
    check_elsewhere(advertised(spec))


def _null(spec: TargetSpec, stack: ExitStack, place: Place) -> Target:
    if place.is_proxied:
        raise LabError("a null sink can neither be cut off nor recorded")
    sink = stack.enter_context(NullSink(partitions=place.partitions, host=place.host, limit_per_s=spec.limit))
    return Target(
        spec=spec,
        settings={**spec.client, _BOOTSTRAP: sink.bootstrap},
        members=[Member(0, name="sink", pid=sink.pid)],
        versions={"headrace (null sink)": __version__},
    )


def _proxy(stack: ExitStack, behind: tuple[str, int], place: Place) -> Proxy:
    proxy = Proxy(behind)
    proxy.recorder = RequestRecorder() if place.is_recorded else None
    stack.callback(proxy.close)
    return proxy


def _recorders(proxies: Mapping[str, Proxy | None]) -> dict[str, RequestRecorder]:
    return {name: proxy.recorder for name, proxy in proxies.items() if proxy is not None and proxy.recorder is not None}


def _broker_ids(bootstrap: str) -> list[int]:
    with Cluster(client_settings(bootstrap)) as cluster:
        return sorted(cluster.refresh().brokers)
