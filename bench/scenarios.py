"""The rows of the race: one table, read by runner and report.

Rows of one block share one fresh start of the broker and run in this order, so that a consumer finds what
the producer before it wrote. The bounds are the project's promise; where none was promised the row asks for
'at least equal'.
"""

import fnmatch
from dataclasses import dataclass
from typing import Final

from bench.loads import (
    BareConsume,
    BareProduce,
    Consume,
    EndToEnd,
    FanOut,
    Idle,
    JavaProduce,
    Load,
    Produce,
    Restart,
)
from bench.results import Requirement, at_most, times_kafka


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    title: str
    block: str
    load: Load
    requires: tuple[Requirement, ...]
    quick: bool = True  # Whether the smoke run includes it.


SATURATION_ROW: Final = "end-to-end-saturation"

_LOADED: Final = at_most("memory_mb_peak", 150)
_EQUAL_RATE: Final = (times_kafka("messages_per_s", 1.0), _LOADED)
_EQUAL_LATENCY: Final = (times_kafka("latency_ms_p50", 1.0), times_kafka("latency_ms_p99", 1.0), _LOADED)
# A log must not cost more per byte, nor hold more memory, as it grows: the second half against the first.
_FLAT: Final = (at_most("cpu_second_half_ratio", 1.25), at_most("memory_mb_growth", 16))

_LARGE_BATCHES: Final = {
    "linger.ms": "50",
    "batch.num.messages": "10000",
    "batch.size": "1000000",
    "queue.buffering.max.messages": "1000000",
}
_ONE_PER_REQUEST: Final = {
    "linger.ms": "0",
    "batch.num.messages": "1",
    "queue.buffering.max.messages": "1000000",
}
_PACED: Final = {"producer:linger.ms": "1", "socket.nagle.disable": "true"}

_BULK: Final = Produce(topic="bulk", messages=8_000_000, properties=_LARGE_BATCHES)
# Batches as large as librdkafka makes of these messages for the row above: just below a million bytes.
_BARE: Final = BareProduce(topic="bare", batches=1700, batch_messages=4750)
_LONG_LOG: Final = Produce(topic="long", messages=10_000_000, message_bytes=1000, properties=_LARGE_BATCHES)
_WIDE: Final = Produce(
    topic="wide",
    messages=2_000_000,
    partitions=1000,
    properties=_LARGE_BATCHES | {"linger.ms": "100"},
)


# Run and forgotten after each start but that of the row about starting: a JVM needs its hot code compiled
# before it shows what it can do, and a broker that has served for a minute is what people have.
_WARM: Final = Produce(topic="warm-up", messages=1_000_000, properties=_LARGE_BATCHES)
WARM_UP: Final[tuple[Load, ...]] = (
    _WARM,
    Consume(of=_WARM),
    Produce(topic="warm-up-single", messages=10_000, properties=_ONE_PER_REQUEST),
)


def _single(name: str, title: str, *, acks: str, clients: int, messages: int, times: float) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        block="single",
        load=Produce(topic=name, messages=messages, acks=acks, clients=clients, properties=_ONE_PER_REQUEST),
        requires=(times_kafka("messages_per_s", times), _LOADED),
    )


def _java(batch_bytes: int, acks: str) -> Scenario:
    name = f"java-{batch_bytes // 1024}k-acks-{acks}"
    return Scenario(
        name=name,
        title=f"Java producer, 200 B, {batch_bytes // 1024} KiB batches, acks={acks}",
        block="java",
        load=JavaProduce(topic=name, messages=1_500_000, acks=acks, properties={"batch.size": str(batch_bytes)}),
        requires=_EQUAL_RATE,
        # The smoke run needs each path once, not each combination.
        quick=(batch_bytes, acks) == (16384, "all"),
    )


SCENARIOS: Final = (
    Scenario(
        name="start",
        title="fresh start, then idle",
        block="start",
        load=Idle(),
        requires=(at_most("start_s", 0.4), at_most("memory_mb_idle", 60)),
    ),
    Scenario(
        name="produce-200b",
        title="produce 200 B, large batches, acks=1",
        block="bulk",
        load=_BULK,
        requires=(times_kafka("messages_per_s", 1.5), times_kafka("cpu_s_per_gb", 0.5), _LOADED),
    ),
    Scenario(
        name="consume-200b",
        title="consume 200 B",
        block="bulk",
        load=Consume(of=_BULK),
        requires=(times_kafka("messages_per_s", 1.25), times_kafka("cpu_s_per_gb", 0.5), _LOADED),
    ),
    Scenario(
        name="restart",
        title="restart with a warm cache, to the first records",
        block="bulk",
        load=Restart(of=_BULK),
        requires=(at_most("start_s", 0.4),),
    ),
    Scenario(
        name="produce-200b-bare",
        title="produce 200 B, acks=1, batches made beforehand",
        block="bare",
        load=_BARE,
        requires=(times_kafka("messages_per_s", 1.5), times_kafka("cpu_s_per_gb", 0.5), _LOADED),
    ),
    Scenario(
        name="consume-200b-bare",
        title="consume 200 B, batches not opened",
        block="bare",
        load=BareConsume(of=_BARE),
        requires=(times_kafka("messages_per_s", 1.25), times_kafka("cpu_s_per_gb", 0.5), _LOADED),
    ),
    *(_java(batch_bytes, acks) for batch_bytes in (16384, 65536) for acks in ("0", "1", "all")),
    _single("single-acks-0", "one message per request, acks=0", acks="0", clients=1, messages=100_000, times=4),
    _single("single-acks-1", "one message per request, acks=1", acks="1", clients=1, messages=40_000, times=4),
    _single(
        "single-acks-1-x8",
        "one message per request, acks=1, 8 connections",
        acks="1",
        clients=8,
        messages=80_000,
        times=1,
    ),
    Scenario(
        name="fan-out",
        title="512 B over 108 partitions, three consumers of everything (rate in)",
        block="fan-out",
        load=FanOut(
            produce=JavaProduce(
                topic="fan-out",
                messages=500_000,
                message_bytes=512,
                partitions=108,
                acks="all",
                properties={"linger.ms": "10"},
            ),
            consumers=3,
        ),
        requires=_EQUAL_RATE,
    ),
    Scenario(
        name=SATURATION_ROW,
        title="end to end 200 B, as fast as it goes",
        block="end-to-end",
        load=EndToEnd(topic="saturation", messages=3_000_000, properties=_PACED),
        requires=_EQUAL_RATE,
    ),
    Scenario(
        name="end-to-end-low",
        title="end to end 200 B, open loop at 1,000/s",
        block="end-to-end",
        load=EndToEnd(
            topic="low",
            rate_per_s=1000,
            properties=_PACED | {"producer:linger.ms": "0"},
        ),
        requires=_EQUAL_LATENCY,
    ),
    *(
        Scenario(
            name=f"end-to-end-{percent}",
            title=f"end to end 200 B, open loop at {percent}% of Kafka's saturation",
            block="open-loop",
            load=EndToEnd(topic=f"open-{percent}", saturation_share=percent / 100, properties=_PACED),
            requires=(*_EQUAL_LATENCY, times_kafka("latency_ms_p999", 1.0)),
            quick=percent == 50,
        )
        for percent in (50, 80)
    ),
    Scenario(
        name="partitions-1000-produce",
        title="1,000 partitions: produce 200 B, acks=1",
        block="wide",
        load=_WIDE,
        requires=_EQUAL_RATE,
        quick=False,
    ),
    Scenario(
        name="partitions-1000-consume",
        title="1,000 partitions: consume",
        block="wide",
        load=Consume(of=_WIDE),
        requires=_EQUAL_RATE,
        quick=False,
    ),
    Scenario(
        name="partitions-1000-restart",
        title="1,000 partitions: restart with a warm cache",
        block="wide",
        load=Restart(of=_WIDE),
        requires=(times_kafka("start_s", 1.0),),
        quick=False,
    ),
    Scenario(
        name="log-10gb-produce",
        title="10 GB log: produce 1 kB, acks=1",
        block="long",
        load=_LONG_LOG,
        requires=(*_EQUAL_RATE, *_FLAT),
        quick=False,
    ),
    Scenario(
        name="log-10gb-consume",
        title="10 GB log: consume all of it",
        block="long",
        load=Consume(of=_LONG_LOG),
        requires=(*_EQUAL_RATE, *_FLAT),
        quick=False,
    ),
)


def blocks(rows: tuple[Scenario, ...]) -> list[tuple[Scenario, ...]]:
    """Rows grouped by block, in the order of the table."""
    names = list(dict.fromkeys(row.block for row in rows))
    return [tuple(row for row in rows if row.block == name) for name in names]


def choose(patterns: list[str] | None, *, quick: bool) -> tuple[Scenario, ...]:
    """Rows by name, with those whose data or figures they need; without names all, or those of a smoke run."""
    rows = SCENARIOS
    if patterns is None:
        return tuple(row for row in rows if row.quick or not quick)
    chosen = {row.name for row in rows if any(fnmatch.fnmatch(row.name, pattern) for pattern in patterns)}
    missing = [pattern for pattern in patterns if not any(fnmatch.fnmatch(row.name, pattern) for row in rows)]
    if missing:
        names = ", ".join(row.name for row in rows)
        raise LookupError(f"no such row: {', '.join(missing)}; there are {names}")
    for row in rows:
        if row.name in chosen:
            chosen |= {needed.name for needed in rows if _needs(row, needed)}
    return tuple(row for row in rows if row.name in chosen)


def _needs(row: Scenario, other: Scenario) -> bool:
    match row.load:
        case Consume(of=produce) | Restart(of=produce):
            return other.load is produce
        case BareConsume(of=bare_produce):
            return other.load is bare_produce
        case EndToEnd(saturation_share=share) if share is not None:
            return other.name == SATURATION_ROW
        case _:
            return False
