"""`headrace lab send`: messages by a plan of their own, and how late and how long each took.

Nothing of the lab is imported before a run begins, so that `--help` waits for no numpy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import typer

from headrace.cli import lab_send_options as options
from headrace.cli.connection import Connection, connected
from headrace.cli.extras import require
from headrace.cli.lab_places import Place, placed
from headrace.cli.lab_send_options import EngineName, Generator, Profile, ScheduleName
from headrace.cli.output import AsJson, CommandError, print_json
from headrace.cli.produce import Acks, Compression
from headrace.cli.stopping import StopRequest

if TYPE_CHECKING:
    from headrace.lab.engines import Terms
    from headrace.lab.readings.sampler import Sampler
    from headrace.lab.scenario import Scenario
    from headrace.lab.targets.running import Target

_UNPACED: Final = "max"
_CEILING_S: Final = 5.0
_RUN_S: Final = 10.0


@connected
def send(
    cluster: Connection,
    topic: options.Topic = "lab",
    to: options.To = "cluster",
    partitions: options.Partitions = 1,
    partition: options.Partition = None,
    engine: options.Engine = EngineName.LIBRDKAFKA,
    processes: options.Processes = None,
    on: options.On = None,
    remote: options.Remote = False,
    spark_options: options.SparkOptions = [],  # noqa: B006
    rate: options.Rate = None,
    schedule: options.Schedule = ScheduleName.CONSTANT,
    burst: options.Burst = 1000,
    speed: options.Speed = 1.0,
    duration: options.Duration = None,
    messages: options.Messages = None,
    payload: options.PayloadGenerator = Generator.SENSOR,
    file: options.File = None,
    in_ram: options.InRam = True,
    size: options.Size = "200",
    compressible: options.Compressible = 0.0,
    seed: options.Seed = 1,
    profile: options.ProfileName = None,
    acks: options.AcksAsked = None,
    batch_size: options.BatchSize = None,
    batch_messages: options.BatchMessages = None,
    linger_ms: options.LingerMs = None,
    buffer: options.Buffer = None,
    compression: options.CompressionCodec = None,
    out: options.Out = None,
    readings: options.Readings = None,
    metrics: options.Metrics = None,
    ceiling: options.Ceiling = False,
    as_json: AsJson = False,
) -> None:
    """Send messages when they are due by a plan, and tell how late each was sent and how long each took.

    Latency counts from when a message was planned, so that a stall shows in all the messages that it has held up.
    """
    for package in ("numpy", "pyarrow", "scipy", "yaml"):
        require(package, extra="lab")
    from headrace.lab.quantities import parse_rate_per_s
    from headrace.lab.scenario import Payload, Scenario

    place = placed(on=on, spark_options=spark_options, is_remote=remote)
    if ceiling and (on is not None or remote):
        raise typer.BadParameter("--ceiling is of this machine alone: leave out --on and --remote")
    if metrics and readings is None:
        raise typer.BadParameter("--metrics is for --readings FILE: where are they to be written?")
    if rate is None and not ceiling and schedule is not ScheduleName.REPLAY:
        raise typer.BadParameter("--rate is missing: how many messages a second?")
    is_unpaced = ceiling or rate == _UNPACED
    scenario = Scenario(
        topic=topic,
        partition=partition,
        engine=engine.value,
        processes=place.members_by_default(processes),
        schedule="unpaced" if is_unpaced else schedule.value,
        rate_per_s=None if is_unpaced or rate is None else parse_rate_per_s(rate),
        burst_messages=burst,
        speed=speed,
        duration_s=_duration_s(duration, messages, is_ceiling=ceiling),
        messages=messages,
        seed=seed,
        payload=Payload(
            generator=payload.value,
            file=None if file is None else str(file),
            in_ram=in_ram,
            size=size,
            compressible=compressible,
        ),
        terms=_terms(
            profile,
            acks=acks,
            batch_size=batch_size,
            batch_messages=batch_messages,
            linger_ms=linger_ms,
            buffer=buffer,
            compression=compression,
        ),
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


def _duration_s(duration: str | None, messages: int | None, *, is_ceiling: bool) -> float | None:
    """None for as long as the messages take."""
    from headrace.lab.quantities import parse_time_s

    if duration is not None:
        return parse_time_s(duration)
    if messages is not None:
        return None
    return _CEILING_S if is_ceiling else _RUN_S


def _terms(
    profile: Profile | None,
    *,
    acks: Acks | None,
    batch_size: str | None,
    batch_messages: int | None,
    linger_ms: float | None,
    buffer: str | None,
    compression: Compression | None,
) -> "Terms":
    """Those of the profile, or the usual ones, with what was said beside it."""
    from headrace.lab.engines import Terms
    from headrace.lab.quantities import parse_size_bytes
    from headrace.lab.scenario import PROFILES

    return Terms(**(PROFILES[profile.value] if profile is not None else {})).with_changes(
        {
            "acks": None if acks is None else acks.value,
            "batch_bytes": None if batch_size is None else parse_size_bytes(batch_size),
            "batch_messages": batch_messages,
            "linger_ms": linger_ms,
            "buffer_bytes": None if buffer is None else parse_size_bytes(buffer),
            "compression": None if compression is None else compression.value,
        }
    )


def _send(
    cluster: Connection,
    scenario: "Scenario",
    place: Place,
    *,
    to: str,
    partitions: int,
    out: Path | None,
    readings: Path | None,
    metrics: list[str],
    as_json: bool,
) -> None:
    from headrace.cli.lab_sent import print_bottleneck, print_sent, watching
    from headrace.lab.send_targets import find_send_target, ready
    from headrace.lab.sending import send

    spec = find_send_target(to, cluster.settings)
    with (
        StopRequest() as stop,  # First: whatever is begun after it is ended before it.
        _opened(out) as into,
        place.crew() as crew,
        ready(spec, topic=scenario.topic, partitions=partitions, is_remote=place.is_remote, metrics=metrics) as target,
        _sampling(target, readings) as sampler,
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
    from headrace.lab.engines import ENGINES
    from headrace.lab.send_targets import find_send_target, ready
    from headrace.lab.sending import send

    spec = find_send_target("null", cluster.settings)
    found = []
    with StopRequest() as stop:
        for engine in ENGINES:
            asked = replace(scenario, engine=engine)
            with (
                ready(spec, topic=asked.topic, partitions=partitions) as target,
                watching(asked) as watch,
            ):
                found.append(send(asked, target, watch=watch, is_stopped=lambda: bool(stop)))
            stop.check()
    if as_json:
        print_json([{"engine": one.scenario.engine, **one.summary_json()} for one in found])
    else:
        print_ceilings(found)


@contextmanager
def _sampling(target: "Target", path: Path | None) -> "Iterator[Sampler | None]":
    if path is None:
        yield None
        return
    from headrace.lab.readings.sampler import Sampler

    with path.open("w") as into, Sampler(metrics=target.metrics, into=into) as sampler:
        yield sampler


@contextmanager
def _opened(path: Path | None) -> Iterator[IO[str] | None]:
    if path is None:
        yield None
        return
    with path.open("w") as into:
        yield into
