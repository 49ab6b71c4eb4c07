"""`headrace lab send`: messages by a plan of their own, and how late and how long each took.

Nothing of the lab is imported before a run begins, so that `--help` waits for no numpy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.lab_places import Place, placed
from headrace.cli.output import AsJson, CommandError, print_json
from headrace.cli.produce import Acks, Compression
from headrace.cli.stopping import StopRequest

if TYPE_CHECKING:
    from headrace.lab.destination import Destination
    from headrace.lab.readings.sampler import Sampler
    from headrace.lab.scenario import Scenario

_UNPACED: Final = "max"
_CEILING_S: Final = 5.0
_RUN_S: Final = 10.0


class To(StrEnum):
    CLUSTER = "cluster"
    NODE = "node"
    NULL = "null"


class EngineName(StrEnum):
    LIBRDKAFKA = "librdkafka"
    COLUMNAR = "columnar"


class ScheduleName(StrEnum):
    CONSTANT = "constant"
    POISSON = "poisson"
    BURSTS = "bursts"
    REPLAY = "replay"


class Generator(StrEnum):
    SENSOR = "sensor"
    WEBLOG = "weblog"
    RANDOM = "random"


class Profile(StrEnum):
    S0 = "s0"


_WHEN: Final = "When"
_WHAT: Final = "What"
_HOW: Final = "How"


@connected
def send(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="[TOPIC]", help="Where to.")] = "lab",
    to: Annotated[
        To,
        typer.Option(
            help="cluster: where --bootstrap says. node: one that is started for it, and ended. null: a sink that "
            "keeps nothing, which shows what the sender itself can do."
        ),
    ] = To.CLUSTER,
    partitions: Annotated[int, typer.Option(min=1, help="Of the topic, for --to node and --to null.")] = 1,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0, help="All by turns if not said.")] = None,
    engine: Annotated[
        EngineName, typer.Option("--engine", "-e", help="librdkafka is what people run; columnar is for high rates.")
    ] = EngineName.LIBRDKAFKA,
    processes: Annotated[
        int | None,
        typer.Option(
            "--processes", "-n", min=1, help="That share the rate: 1 if not said, with --on local[N] as many as N."
        ),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="MASTER",
            help="Have Spark run the senders, as tasks that start together: local[2], spark://host:7077.",
        ),
    ] = None,
    remote: Annotated[
        bool,
        typer.Option(
            "--remote",
            help="Send from another host; for --to node and --to null from a network namespace, over 1 Gbit/s. Needs "
            "Linux and root; ends with status 3 where that cannot be.",
        ),
    ] = False,
    spark_options: Annotated[
        list[str],
        typer.Option("--spark-option", metavar="KEY=VALUE", help="For --on, one of Spark's own. May be repeated."),
    ] = [],  # noqa: B006
    rate: Annotated[
        str | None,
        typer.Option(
            "--rate",
            "-r",
            metavar="RATE",
            help="Messages a second, in all: 500, 100K, 1.5M; or max, which plans nothing and so knows no lateness.",
            rich_help_panel=_WHEN,
        ),
    ] = None,
    schedule: Annotated[
        ScheduleName,
        typer.Option(
            "--schedule",
            "-s",
            help="When messages are due. replay: when the log says that they happened.",
            rich_help_panel=_WHEN,
        ),
    ] = ScheduleName.CONSTANT,
    burst: Annotated[
        int, typer.Option(min=1, metavar="MESSAGES", help="For bursts: due at one moment.", rich_help_panel=_WHEN)
    ] = 1000,
    speed: Annotated[
        float, typer.Option(min=0.001, help="For replay without --rate: so many times as fast.", rich_help_panel=_WHEN)
    ] = 1.0,
    duration: Annotated[
        str | None,
        typer.Option("--duration", "-d", metavar="TIME", help="30s, 10m; 10s if not said.", rich_help_panel=_WHEN),
    ] = None,
    messages: Annotated[
        int | None, typer.Option("--messages", min=1, help="Stop after so many.", rich_help_panel=_WHEN)
    ] = None,
    payload: Annotated[
        Generator,
        typer.Option(
            help="sensor: 66 columns, about 200 B. weblog: access-log lines, about 108 B. random: as --size says.",
            rich_help_panel=_WHAT,
        ),
    ] = Generator.SENSOR,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="Send the lines of this, over and over. May be a .gz.",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    in_ram: Annotated[
        bool,
        typer.Option(
            "--read-in-ram/--stream",
            help="Have the messages in memory before the start, or read or generate each when its turn comes.",
            rich_help_panel=_WHAT,
        ),
    ] = True,
    size: Annotated[
        str,
        typer.Option(
            metavar="BYTES",
            help="For random: 200, 100-300, normal:MEAN,SD or lognormal:MEDIAN,SIGMA.",
            rich_help_panel=_WHAT,
        ),
    ] = "200",
    compressible: Annotated[
        float,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="For random: bytes that all messages have alike.", rich_help_panel=_WHAT
        ),
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of whatever is left to chance.", rich_help_panel=_WHAT)] = 1,
    profile: Annotated[
        Profile | None,
        typer.Option(
            help="s0: acks 0, batches of 16,384 B, no linger, a buffer of 32 MiB, in RAM. Other options win.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    acks: Annotated[
        Acks | None, typer.Option(help="Who must have a message; all if not said.", rich_help_panel=_HOW)
    ] = None,
    batch_size: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Of a batch, at most: 16KiB if not said.", rich_help_panel=_HOW)
    ] = None,
    batch_messages: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="In a batch, at most.", rich_help_panel=_HOW)
    ] = None,
    linger_ms: Annotated[
        float | None,
        typer.Option("--linger", min=0, metavar="MS", help="For a batch to fill: 5 if not said.", rich_help_panel=_HOW),
    ] = None,
    buffer: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE", help="For what is not answered, a process: 32MiB if not said.", rich_help_panel=_HOW
        ),
    ] = None,
    compression: Annotated[
        Compression | None, typer.Option("--compression", "-z", help="none if not said.", rich_help_panel=_HOW)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", dir_okay=False, metavar="FILE", help="Write the result, as lines of JSON."),
    ] = None,
    readings: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False,
            metavar="FILE",
            help="Read processes, machine and node once a second meanwhile, and write that as lines of JSON.",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="For --readings: a broker's page for Prometheus. One for each broker."),
    ] = None,
    ceiling: Annotated[
        bool,
        typer.Option("--ceiling", help="Send nothing there: print what each engine reaches against the null sink."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send messages when they are due by a plan, and tell how late each was sent and how long each took.

    Latency counts from when a message was planned, so that a stall shows in all the messages that it has held up.
    """
    for package in ("numpy", "pyarrow"):
        require(package, extra="lab")
    from headrace.lab.engines import Terms
    from headrace.lab.quantities import parse_rate_per_s, parse_size_bytes, parse_time_s
    from headrace.lab.scenario import PROFILES, Payload, Scenario

    place = placed(on=on, spark_options=spark_options, is_remote=remote)
    if ceiling and (on is not None or remote):
        raise typer.BadParameter("--ceiling is of this machine alone: leave out --on and --remote")
    if metrics and readings is None:
        raise typer.BadParameter("--metrics is for --readings FILE: where are they to be written?")
    if rate is None and not ceiling and schedule is not ScheduleName.REPLAY:
        raise typer.BadParameter("--rate is missing: how many messages a second?")
    is_unpaced = ceiling or rate == _UNPACED
    duration_s = None if duration is None else parse_time_s(duration)
    if duration_s is None and messages is None:
        duration_s = _CEILING_S if ceiling else _RUN_S
    terms = Terms(**(PROFILES[profile.value] if profile is not None else {})).with_changes(
        {
            "acks": None if acks is None else acks.value,
            "batch_bytes": None if batch_size is None else parse_size_bytes(batch_size),
            "batch_messages": batch_messages,
            "linger_ms": linger_ms,
            "buffer_bytes": None if buffer is None else parse_size_bytes(buffer),
            "compression": None if compression is None else compression.value,
        }
    )
    scenario = Scenario(
        topic=topic,
        partition=partition,
        engine=engine.value,
        processes=place.members_by_default(processes),
        schedule="unpaced" if is_unpaced else schedule.value,
        rate_per_s=None if is_unpaced or rate is None else parse_rate_per_s(rate),
        burst_messages=burst,
        speed=speed,
        duration_s=duration_s,
        messages=messages,
        seed=seed,
        payload=Payload(
            generator=payload.value,
            file=None if file is None else str(file),
            in_ram=in_ram,
            size=size,
            compressible=compressible,
        ),
        terms=terms,
    )
    if engine is EngineName.COLUMNAR:
        cluster.columnar_settings()  # Says which settings it has no use for.
    if ceiling:
        _ceilings(cluster, scenario, partitions=partitions, as_json=as_json)
    else:
        _send(
            cluster, scenario, place, to=to, partitions=partitions, out=out, readings=readings, metrics=metrics or [],
            as_json=as_json,
        )  # fmt: skip


def _send(
    cluster: Connection,
    scenario: "Scenario",
    place: Place,
    *,
    to: To,
    partitions: int,
    out: Path | None,
    readings: Path | None,
    metrics: list[str],
    as_json: bool,
) -> None:
    from headrace.cli.lab_sent import print_bottleneck, print_sent, watching
    from headrace.lab.destination import destination
    from headrace.lab.sending import send

    with (
        StopRequest() as stop,  # First: whatever is begun after it is ended before it.
        _opened(out) as into,
        place.senders(cluster.bootstrap if to is To.CLUSTER else None) as (crew, host),
        destination(
            to.value,
            cluster.settings,
            topic=scenario.topic,
            partitions=partitions,
            with_metrics=readings is not None,
            host=host,
        ) as target,
        _sampling(target, readings, metrics) as sampler,
        watching(scenario) as watch,
    ):
        sent = send(
            scenario,
            target,
            crew=crew,
            timeout_s=cluster.timeout_s,
            into=into,
            watch=watch,
            is_stopped=lambda: bool(stop),
            sampler=sampler,
        )
        found = None if sampler is None else sampler.conclude(sent)
    if as_json:
        print_json(sent.summary_json() | ({} if found is None else {"bottleneck": found.to_json()}))
    else:
        print_sent(sent)
        if found is not None:
            print_bottleneck(found)
    if sent.outcome.troubles:
        raise CommandError("; ".join(sent.outcome.troubles))
    if sent.total.failed or sent.outcome.lost_sight:
        raise CommandError(
            f"{sent.total.failed + sent.outcome.lost_sight:,} of {sent.total.sent:,} were not acknowledged"
        )
    stop.check()


def _ceilings(cluster: Connection, scenario: "Scenario", *, partitions: int, as_json: bool) -> None:
    from dataclasses import replace

    from headrace.cli.lab_sent import print_ceilings, watching
    from headrace.lab.destination import destination
    from headrace.lab.engines import ENGINES
    from headrace.lab.sending import send

    found = []
    with StopRequest() as stop:
        for engine in ENGINES:
            asked = replace(scenario, engine=engine)
            with (
                destination("null", cluster.settings, topic=asked.topic, partitions=partitions) as target,
                watching(asked) as watch,
            ):
                found.append(send(asked, target, watch=watch, is_stopped=lambda: bool(stop)))
            stop.check()
    if as_json:
        print_json([{"engine": one.scenario.engine, **one.summary_json()} for one in found])
    else:
        print_ceilings(found)


@contextmanager
def _sampling(target: "Destination", path: Path | None, metrics: list[str]) -> "Iterator[Sampler | None]":
    if path is None:
        yield None
        return
    from headrace.lab.readings.brokers import local_brokers
    from headrace.lab.readings.sampler import Sampler

    urls = [*target.metrics, *metrics]
    if not target.pids:
        target.pids = local_brokers(target.settings["bootstrap.servers"], metrics=urls)
    with path.open("w") as into, Sampler(metrics=urls, into=into) as sampler:
        yield sampler


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with path.open("w") as into:
        yield into
