"""Published experiments as workloads and targets: what `headrace lab reproduce` runs.

A preset is as the paper describes it, with what the paper leaves open named beside it. `small` is the same experiment
for a machine of two cores and for minutes instead of hours: rates, sizes and sweeps that a finding asks for stay, time
and numbers of processes shrink. A number as the scale multiplies the published rates and counts of messages.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.errors import ConfigError
from headrace.lab.findings import TIPS_BEHIND, TIPS_COMPRESSION, TIPS_LINGER, TIPS_PARTITIONS
from headrace.lab.quantities import parse_rate_per_s
from headrace.lab.sender_places import MIXED, REMOTE
from headrace.lab.workload import Workload, parse_workload

SMALL: Final = "small"
FULL: Final = "full"

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    name: str  # Of the workload: by it results are known again.
    published: Given
    small: Given = field(default_factory=dict)  # Instead of what is published.


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    name: str
    text: str
    target: str
    parts: Sequence[Part]
    assumed: str  # What the paper does not say, and what is taken for it.


_SHORT: Final[Given] = {"duration": "24s", "warm_up": "3s"}
_SHORTER: Final[Given] = {"duration": "10s", "warm_up": "2s", "messages": None}

# Of all runs of 'How Fast Can We Insert?', sections III and IV-A.
_INSERT: Final[Given] = {
    "profile": "s0",
    "engine": "columnar",
    "payload": "sensor",
    "partitions": 1,
    "replication": 1,
    "processes": 1,
    "duration": "10m",
    "repeats": 3,
}
_ACKS: Final = ["0", "1", "all"]

# Of 'Performance Benchmark of Apache Kafka on AWS', section IV-B.
_AWS: Final[Given] = {
    "payload": "random",
    "partitions": 10,
    "replication": 1,
    "processes": 20,
    "batch_size": "8192",
    "buffer": "16384",
    "acks": "1",
    "rate": "max",
    "messages": 2_000_000,
    "repeats": 3,
}
_SIZES: Final[Given] = {**_AWS, "sweep": {"size": [10, 100, 1000, 10_000]}}
_SIZES_SMALL: Final[Given] = {**_SHORTER, "processes": 2}
_AWS_OPEN: Final = "10 partitions of one topic stand for its 10 topics; acks=1, the default of Kafka 0.9; RF 1"


def _insert(name: str, text: str, assumed: str, *, remote: Given | None = None, **more: Any) -> Preset:
    """`remote` is the sweep of its runs from another host. It has what they have in common, too: that is then in the
    names of results."""
    parts = [Part(name=name, published={**_INSERT, **more}, small=_SHORT)]
    if remote is not None:
        away = {**_INSERT, **more, "sweep": remote}
        parts.append(Part(name=f"{name}-{REMOTE}", published=away, small=_SHORT))
    return Preset(name=name, text=text, target="node", parts=parts, assumed=assumed)


def _tip(name: str, *, sweep: dict[str, list[Any]], **more: Any) -> Part:
    given = {**_TIP, **more, "sweep": sweep}
    return Part(
        name=name,
        published={key: value for key, value in given.items() if key not in sweep},
        small={"duration": "8s", "warm_up": more.get("warm_up", "2s"), "processes": 1}
        | ({"consumers": 1} if "consumers" in more else {}),
    )


# Of the white paper's benchmark and tips, for two units of capacity.
_TIP: Final[Given] = {
    "payload": "random",
    "size": "512",
    "partitions": 20,
    "processes": 4,
    "rate": "max",
    "duration": "15m",
    "acks": "all",
    "repeats": 3,
}

# So that those who begin late read as long as the others while it is measured, and joining is not measured.
_BEHIND_WARM_UP: Final = "10s"

_INSERT_OPEN: Final = "one broker stands for its three, for the topic is on one; linger is not said, and is Kafka's 0"

PRESETS: Final[Mapping[str, Preset]] = {
    preset.name: preset
    for preset in (
        _insert(
            "s0-fig5",
            "100 K messages/s from one sender, by acks and read-in-ram",
            f"{_INSERT_OPEN}; the far end of a link of 1 Gbit/s stands for its laptop",
            rate="100K",
            remote={"sender": [REMOTE], "acks": ["0"], "read_in_ram": [False]},
            sweep={"acks": _ACKS, "read_in_ram": [True, False]},
        ),
        _insert(
            "s0-fig6",
            "250 K messages/s from one sender, by read-in-ram",
            f"{_INSERT_OPEN}; which acks its three runs had is not said",
            rate="250K",
            sweep={"acks": _ACKS, "read_in_ram": [True, False]},
        ),
        _insert(
            "s0-fig7",
            "1,000 K messages/s from one sender, by acks and batch size",
            _INSERT_OPEN,
            rate="1000K",
            sweep={"acks": _ACKS, "batch_size": ["16KiB", "64KiB"]},
        ),
        _insert(
            "s0-fig10",
            "two senders of 250 K messages/s each",
            f"{_INSERT_OPEN}; one sender or both are remote with acks=1, at the far end of a link of 1 Gbit/s",
            rate="500K",
            remote={"sender": [MIXED, REMOTE], "acks": ["1"]},
            processes=2,
            sweep={"acks": ["0", "1"]},
        ),
        Preset(
            name="s2-cku",
            text="108 partitions, RF 3, acks=all; 4 producers, 3 groups of 4 consumers",
            target="kafka-3",
            parts=(
                Part(
                    name="s2-cku",
                    published={
                        "payload": "random",
                        "size": "512",
                        "partitions": 108,
                        "replication": 3,
                        "processes": 4,
                        "rate": "240K",
                        "duration": "15m",
                        "acks": "all",
                        "linger": 10,
                        "groups": 3,
                        "consumers": 4,
                        "stagger": "2s",
                        "consumer_stagger": "2s",
                        "repeats": 3,
                    },
                    small={**_SHORT, "partitions": 12, "processes": 2, "consumers": 1, "rate": "12K", "stagger": "1s"},
                ),
            ),
            assumed="what a cloud's three zones and its unit of capacity are: three brokers on one machine are neither",
        ),
        Preset(
            name="s2-tips",
            text="what linger, compression, partitions and reading at the end of the log bring",
            target="node",
            parts=(
                _tip(TIPS_LINGER, sweep={"linger": [0, 5, 10, 100]}),
                _tip(
                    TIPS_COMPRESSION,
                    payload="weblog",
                    linger=10,
                    sweep={"compression": ["none", "lz4", "snappy", "gzip"]},
                ),
                _tip(TIPS_PARTITIONS, linger=10, sweep={"partitions": [1, 5, 20]}),
                _tip(
                    TIPS_BEHIND, linger=10, groups=2, consumers=4, warm_up=_BEHIND_WARM_UP, sweep={"behind": [0, "4s"]}
                ),
            ),
            assumed="what was sent is not said: for compression lines of a web log, which compress as text does; nor "
            "how far behind its consumers are: one of two groups begins 4 s late, and memory may hold what it reads",
        ),
        Preset(
            name="s4-fig9",
            text="messages and bytes a second, by message size",
            target="kafka-3",
            parts=(Part(name="s4-fig9", published=_SIZES, small=_SIZES_SMALL),),
            assumed=_AWS_OPEN,
        ),
        Preset(
            name="s4-fig10",
            text="latency, by message size",
            target="kafka-3",
            parts=(Part(name="s4-fig10", published=_SIZES, small=_SIZES_SMALL),),
            assumed=_AWS_OPEN,
        ),
        Preset(
            name="s1-backlog",
            text="consuming a backlog that has accumulated, small and large",
            target="node",
            parts=(
                Part(
                    name="s1-backlog",
                    published={
                        "payload": "random",
                        "size": "200",
                        "rate": "max",
                        "groups": 1,
                        "consume": "after",
                        "repeats": 3,
                        "sweep": {"messages": [100_000, 1_000_000, 10_000_000]},
                    },
                    # Of fewer the consuming is over before its rate can be told.
                    small={"sweep": {"messages": [1_000_000, 2_000_000, 5_000_000]}, "repeats": 5},
                ),
            ),
            assumed="how large a backlog is not said: up to the 10 M messages of 200 B of its section 5",
        ),
        Preset(
            name="s4-after",
            text="consuming while producing, and after producing has ended",
            target="kafka-3",
            parts=(
                Part(
                    name="s4-after",
                    published={
                        **_AWS,
                        "size": "256",
                        "groups": 1,
                        "consumers": 10,
                        "sweep": {"consume": ["during", "after"]},
                    },
                    small={**_SHORTER, "processes": 2, "consumers": 2},
                ),
            ),
            assumed=_AWS_OPEN,
        ),
    )
}


def find_preset(name: str) -> Preset:
    if name not in PRESETS:
        raise ConfigError(f"there is no preset {name!r}: there are {', '.join(PRESETS)}")
    return PRESETS[name]


def workloads_of(preset: Preset, *, scale: str, changes: Given) -> list[Workload]:
    return [parse_workload(given_of(part, scale=scale, changes=changes), name=part.name) for part in preset.parts]


def given_of(part: Part, *, scale: str, changes: Given) -> dict[str, Any]:
    """The workload as YAML would have it. What is set beside it wins over both paper and scale."""
    match scale:
        case "small":
            given = {**part.published, **part.small}
        case "full":
            given = dict(part.published)
        case _:
            given = _scaled(part.published, _factor(scale))
    sweep = {key: values for key, values in given.pop("sweep", {}).items() if key not in changes}
    swept = changes.get("sweep", {})
    given = {key: value for key, value in given.items() if value is not None and key not in swept}
    return {"name": part.name, **given, **({"sweep": sweep} if sweep else {}), **changes}


def _factor(scale: str) -> float:
    try:
        factor = float(scale)
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise ConfigError(f"a scale is {SMALL}, {FULL} or a number such as 0.1, not {scale!r}")
    return factor


def _scaled(given: Given, factor: float) -> dict[str, Any]:
    scaled = dict(given)
    if (rate := given.get("rate")) not in (None, "max"):
        scaled["rate"] = max(1, round(parse_rate_per_s(str(rate)) * factor))
    if (messages := given.get("messages")) is not None:
        scaled["messages"] = _fewer(messages, factor)
    sweep = given.get("sweep", {})
    if "messages" in sweep:
        scaled["sweep"] = {**sweep, "messages": [_fewer(each, factor) for each in sweep["messages"]]}
    return scaled


def _fewer(messages: int, factor: float) -> int:
    return max(1, round(messages * factor))
