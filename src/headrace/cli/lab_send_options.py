"""The options of `headrace lab send`, each with its words: one table, in the order in which they are shown."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from headrace.cli.produce import Acks, Compression


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


# --- Where to, and from where ----------------------------------------------------------------------------------------

Topic = Annotated[str, typer.Argument(metavar="[TOPIC]", help="Where to.")]
To = Annotated[
    str,
    typer.Option(
        metavar="TARGET",
        help="cluster: where --bootstrap says. node, kafka: one that is started for it, and ended. null: a sink "
        "that keeps nothing, which shows what the sender itself can do. Or any other of headrace lab targets.",
    ),
]
Partitions = Annotated[
    int, typer.Option(min=1, help="Of the topic, for --to node and whatever else is started for it.")
]
Partition = Annotated[int | None, typer.Option("--partition", "-p", min=0, help="All by turns if not said.")]
Engine = Annotated[
    EngineName, typer.Option("--engine", "-e", help="librdkafka is what people run; columnar is for high rates.")
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes", "-n", min=1, help="That share the rate: 1 if not said, with --on local[N] as many as N."
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="MASTER",
        help="Have Spark run the senders, as tasks that start together: local[2], spark://host:7077.",
    ),
]
Remote = Annotated[
    bool,
    typer.Option(
        "--remote",
        help="Send from another host; for what is started for it from a network namespace, over 1 Gbit/s. Needs "
        "Linux and root; ends with status 3 where that cannot be.",
    ),
]
SparkOptions = Annotated[
    list[str],
    typer.Option("--spark-option", metavar="KEY=VALUE", help="For --on, one of Spark's own. May be repeated."),
]

# --- When ------------------------------------------------------------------------------------------------------------

_WHEN: Final = "When"
Rate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        "-r",
        metavar="RATE",
        help="Messages a second, in all: 500, 100K, 1.5M; or max, which plans nothing and so knows no lateness.",
        rich_help_panel=_WHEN,
    ),
]
Schedule = Annotated[
    ScheduleName,
    typer.Option(
        "--schedule",
        "-s",
        help="When messages are due. replay: when the log says that they happened.",
        rich_help_panel=_WHEN,
    ),
]
Burst = Annotated[
    int, typer.Option(min=1, metavar="MESSAGES", help="For bursts: due at one moment.", rich_help_panel=_WHEN)
]
Speed = Annotated[
    float, typer.Option(min=0.001, help="For replay without --rate: so many times as fast.", rich_help_panel=_WHEN)
]
Duration = Annotated[
    str | None,
    typer.Option("--duration", "-d", metavar="TIME", help="30s, 10m; 10s if not said.", rich_help_panel=_WHEN),
]
Messages = Annotated[int | None, typer.Option("--messages", min=1, help="Stop after so many.", rich_help_panel=_WHEN)]

# --- What ------------------------------------------------------------------------------------------------------------

_WHAT: Final = "What"
PayloadGenerator = Annotated[
    Generator,
    typer.Option(
        help="sensor: 66 columns, about 200 B. weblog: access-log lines, about 108 B. random: as --size says.",
        rich_help_panel=_WHAT,
    ),
]
File = Annotated[
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
]
InRam = Annotated[
    bool,
    typer.Option(
        "--read-in-ram/--stream",
        help="Have the messages in memory before the start, or read each from a file when its turn comes. What is "
        "generated is in a temporary file by then.",
        rich_help_panel=_WHAT,
    ),
]
Size = Annotated[
    str,
    typer.Option(
        metavar="BYTES",
        help="For random: 200, 100-300, normal:MEAN,SD or lognormal:MEDIAN,SIGMA.",
        rich_help_panel=_WHAT,
    ),
]
Compressible = Annotated[
    float,
    typer.Option(
        min=0, max=1, metavar="SHARE", help="For random: bytes that all messages have alike.", rich_help_panel=_WHAT
    ),
]
Seed = Annotated[int, typer.Option(help="Of whatever is left to chance.", rich_help_panel=_WHAT)]

# --- How -------------------------------------------------------------------------------------------------------------

_HOW: Final = "How"
ProfileName = Annotated[
    Profile | None,
    typer.Option(
        help="s0: acks 0, batches of 16,384 B, no linger, a buffer of 32 MiB, in RAM. Other options win.",
        rich_help_panel=_HOW,
    ),
]
AcksAsked = Annotated[Acks | None, typer.Option(help="Who must have a message; all if not said.", rich_help_panel=_HOW)]
BatchSize = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Of a batch, at most: 16KiB if not said.", rich_help_panel=_HOW)
]
BatchMessages = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="In a batch, at most.", rich_help_panel=_HOW)
]
LingerMs = Annotated[
    float | None,
    typer.Option("--linger", min=0, metavar="MS", help="For a batch to fill: 5 if not said.", rich_help_panel=_HOW),
]
Buffer = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="For what is not answered, a process: 32MiB if not said.", rich_help_panel=_HOW),
]
CompressionCodec = Annotated[
    Compression | None, typer.Option("--compression", "-z", help="none if not said.", rich_help_panel=_HOW)
]

# --- What is told ----------------------------------------------------------------------------------------------------

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", dir_okay=False, metavar="FILE", help="Write the result, as lines of JSON."),
]
Readings = Annotated[
    Path | None,
    typer.Option(
        dir_okay=False,
        metavar="FILE",
        help="Read processes, machine and node once a second meanwhile, and write that as lines of JSON.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(metavar="URL", help="For --readings: a broker's page for Prometheus. One for each broker."),
]
Ceiling = Annotated[
    bool,
    typer.Option("--ceiling", help="Send nothing there: print what each engine reaches against the null sink."),
]
