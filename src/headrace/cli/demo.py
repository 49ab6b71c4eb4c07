"""`headrace demo`: a node, stock clients, a kill -9 in the middle, and a count of what was promised.

Events of a busy web server are written by an idempotent producer while the node is killed and started again on
the same port and data. What the node acknowledged goes into one ledger, what it gives back afterwards into
another; the demo succeeds if the two are equal: nothing lost, nothing twice, nothing out of order. Then a consumer
group gains a member and loses another while it reads (`demo_group`), and must have missed nothing either. In the end
the topic is read once more, as an Arrow table (`demo_arrow`).
"""

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from headrace.cli import demo_arrow, demo_group
from headrace.cli.connection import FETCH_STEADILY
from headrace.cli.output import AsJson, CommandError, console, print_json, print_table, progress, size_text
from headrace.cli.stopping import StopRequest
from headrace.lab import weblog
from headrace.testing.node_process import NodeProcess

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

TOPIC: Final = "weblog"
_POLL_EVERY: Final = 1_000
_READ_MESSAGES: Final = 10_000
_GROUP_EVENTS_MAX: Final = 20_000
_QUIET_S_MAX: Final = 60.0  # With nothing acknowledged or read for so long, the demo has failed.
_ENTRY: Final = Struct(">qii")
_CLIENT: Final = {
    "log_level": 0,
    "reconnect.backoff.max.ms": 500,  # The node is back in a moment; no need to wait ten seconds for it.
}


@dataclass(slots=True)
class Tally:
    """One partition's share of a ledger: how many messages, and a hash over all of them in their order."""

    count: int = 0
    last_offset: int = -1
    digest: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=8))

    def add(self, offset: int, key: bytes, value: bytes) -> None:
        self.count += 1
        self.last_offset = offset
        self.digest.update(_ENTRY.pack(offset, len(key), len(value)) + key + value)

    def fields(self) -> dict[str, int | str]:
        return {"count": self.count, "last_offset": self.last_offset, "hash": self.digest.hexdigest()}


class Ledger:
    """What was acknowledged, or what was read. Equal ledgers hold the same messages at the same offsets."""

    def __init__(self, partitions: int) -> None:
        self.tallies = [Tally() for _ in range(partitions)]
        self.failures: list[str] = []

    @property
    def count(self) -> int:
        return sum(tally.count for tally in self.tallies)

    def add(self, message: Any) -> None:
        self.tallies[message.partition()].add(message.offset(), message.key(), message.value())

    def on_delivery(self, error: "KafkaError | None", message: Any) -> None:
        if error is None:
            self.add(message)
        else:
            self.failures.append(error.str())

    def agrees_with(self, other: "Ledger") -> bool:
        return [one.fields() for one in self.tallies] == [one.fields() for one in other.tallies]


@dataclass(slots=True)
class Timing:
    start_s: float = 0.0
    restart_s: float = 0.0
    killed_at: int = 0
    write_s: float = 0.0
    read_s: float = 0.0


def demo(
    events: Annotated[int, typer.Option(min=1_000, help="How many to write.")] = 300_000,
    partitions: Annotated[int, typer.Option(min=1, max=64)] = 4,
    seed: Annotated[int, typer.Option(help="Another seed, another log.")] = 1995,
    as_json: AsJson = False,
) -> None:
    """Write web-log events, kill the node half-way, read all back, compare."""
    out = Console(quiet=True) if as_json else console()
    with (
        StopRequest() as stop,
        tempfile.TemporaryDirectory(prefix="headrace-demo-") as directory,
        NodeProcess(Path(directory) / "data", settings=demo_group.NODE_SETTINGS) as node,
    ):
        out.print(f"A node is ready on {node.bootstrap} after {node.ready_s:.2f} s, data in {directory}.")
        timing = Timing(start_s=node.ready_s)
        _create_topic(node.bootstrap, partitions)
        lines = islice(weblog.lines(seed), events)
        written = _write(node, lines, Ledger(partitions), events, timing, out, stop.check)
        read = _read(node.bootstrap, Ledger(partitions), written.count, timing, out, stop.check)
        arrow = demo_arrow.play(node.bootstrap, TOPIC)
        disk_bytes = sum(file.stat().st_size for file in node.data.glob(f"{TOPIC}-[0-9]*/*.log"))
        group = demo_group.play(
            node.bootstrap,
            Path(directory),
            events=min(events, _GROUP_EVENTS_MAX),
            seed=seed,
            client=_CLIENT,
            check_stop=stop.check,
            out=out,
        )
        node.stop()
    agree = written.agrees_with(read) and (arrow is None or arrow.rows == written.count)
    if as_json:
        print_json(_fields(written, read, timing, group, arrow, disk_bytes=disk_bytes, agree=agree))
    else:
        _show(written, read, timing, disk_bytes=disk_bytes)
        _show_group(group)
        _show_arrow(arrow, out)
    if written.failures or not agree:
        raise CommandError(
            f"what was read is not what was acknowledged; {len(written.failures)} deliveries failed"
            + "".join(f"\n  {text}" for text in written.failures[:3])
        )
    if not group.is_good:
        raise CommandError(
            f"the group lost {group.lost:,} of {len(group.acknowledged):,} events; partitions by member: {group.owned}"
            + "".join(f"\n  {text}" for text in group.failures[:3])
        )
    out.print("[bold green]Every acknowledged event is there, once, in order; the group has missed none.[/]")


def _create_topic(bootstrap: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**_CLIENT, "bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, partitions, 1)], request_timeout=10).values():
        future.result()


def _write(
    node: NodeProcess,
    lines: Iterable[bytes],
    acknowledged: Ledger,
    events: int,
    timing: Timing,
    out: Console,
    check_stop: Callable[[], None],
) -> Ledger:
    from confluent_kafka import Producer

    settings = {"enable.idempotence": True, "linger.ms": 5, "queue.buffering.max.messages": 50_000}
    producer = Producer(
        {
            **_CLIENT,
            **settings,
            "bootstrap.servers": node.bootstrap,
            "on_delivery": acknowledged.on_delivery,
        }
    )
    began_s = time.monotonic()
    with _bar(out) as bars:
        bar = bars.add_task("writing", total=events)
        watch = _Watch("acknowledged")

        def hear(wait_s: float) -> None:
            """Take what the node answered; when it has answered half, kill it."""
            check_stop()
            producer.poll(wait_s)
            count = acknowledged.count
            bars.update(bar, completed=count)
            if not timing.killed_at and count >= events // 2:
                timing.killed_at = count
                node.kill()
                out.print(f"Killed with -9 after {count:,} acknowledged events.")
                node.start()
                timing.restart_s = node.ready_s
                out.print(f"Ready again on {node.bootstrap} after {node.ready_s:.2f} s.")
            watch.saw(count + len(acknowledged.failures))

        for number, line in enumerate(lines, 1):
            while not _queued(producer, line):
                hear(0.01)
            if number % _POLL_EVERY == 0:
                hear(0)
        while acknowledged.count + len(acknowledged.failures) < events:
            hear(0.05)
    timing.write_s = time.monotonic() - began_s
    return acknowledged


def _queued(producer: "Producer", line: bytes) -> bool:
    try:
        producer.produce(TOPIC, line, weblog.host_of(line))
    except BufferError:  # Full.
        return False
    return True


def _read(
    bootstrap: str,
    read: Ledger,
    expected: int,
    timing: Timing,
    out: Console,
    check_stop: Callable[[], None],
) -> Ledger:
    """Everything that the topic holds, however much that is: more than was acknowledged is as wrong as less."""
    from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

    group = {"group.id": "headrace-demo", "enable.auto.commit": False, "enable.partition.eof": True}
    group |= FETCH_STEADILY
    consumer = Consumer({**_CLIENT, **group, "bootstrap.servers": bootstrap})
    began_s = time.monotonic()
    unfinished = set(range(len(read.tallies)))
    watch = _Watch("read")
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in unfinished])
        with _bar(out) as bars:
            bar = bars.add_task("reading", total=expected)
            while unfinished:
                check_stop()
                for message in consumer.consume(_READ_MESSAGES, 0.05):
                    error = message.error()
                    if error is None:
                        read.add(message)
                    elif error.code() == KafkaError._PARTITION_EOF:
                        unfinished.discard(message.partition())
                    else:
                        raise KafkaException(error)
                bars.update(bar, completed=read.count)
                watch.saw(read.count)
    finally:
        consumer.close()
    timing.read_s = time.monotonic() - began_s
    return read


class _Watch:
    """Nothing waits for ever: a number that stands still for too long ends the demo."""

    def __init__(self, what: str, *, now: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._now = now
        self._count = -1
        self._since_s = now()

    def saw(self, count: int) -> None:
        now_s = self._now()
        if count != self._count:
            self._count, self._since_s = count, now_s
        elif now_s - self._since_s > _QUIET_S_MAX:
            raise CommandError(f"stuck for {_QUIET_S_MAX:.0f} s with {count:,} events {self._what}")


def _bar(out: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return progress(*columns, on=out)


def _fields(
    written: Ledger,
    read: Ledger,
    timing: Timing,
    group: demo_group.Outcome,
    arrow: demo_arrow.Outcome | None,
    *,
    disk_bytes: int,
    agree: bool,
) -> dict[str, object]:
    return {
        "acknowledged": [tally.fields() for tally in written.tallies],
        "read": [tally.fields() for tally in read.tallies],
        "failed": len(written.failures),
        "agree": agree,
        "disk_bytes": disk_bytes,
        **asdict(timing),
        "group": group.fields(),
        "arrow": None if arrow is None else arrow.fields(),
    }


def _show(written: Ledger, read: Ledger, timing: Timing, *, disk_bytes: int) -> None:
    good, bad = Text("equal", style="green"), Text("DIFFERENT", style="bold red")
    rows = [
        (
            number,
            f"{acknowledged.count:,}",
            f"{found.count:,}",
            found.last_offset,
            acknowledged.digest.hexdigest(),
            found.digest.hexdigest(),
            good if acknowledged.fields() == found.fields() else bad,
        )
        for number, (acknowledged, found) in enumerate(zip(written.tallies, read.tallies, strict=True))
    ]
    columns = ("partition", "acknowledged", "read", "last offset", "hash acknowledged", "hash read", "verdict")
    print_table(columns, rows, right=columns[:4])
    figures = [
        ("written", f"{written.count / timing.write_s:,.0f} events/s, the kill and the restart included"),
        ("read", f"{read.count / timing.read_s:,.0f} events/s"),
        ("on disk", size_text(disk_bytes)),
        ("first start", f"{timing.start_s * 1000:.0f} ms to the first client"),
        ("restart after kill -9", f"{timing.restart_s * 1000:.0f} ms, at {timing.killed_at:,} acknowledged"),
    ]
    print_table(("figure", "value"), figures)


def _show_group(group: demo_group.Outcome) -> None:
    rows = [
        (name, f"{count:,}", Text("killed", style="red") if name == demo_group.VICTIM else group.owned.get(name))
        for name, count in group.counts.items()
    ]
    print_table(("member", "read", "partitions in the end"), rows, right=("read",))
    figures = [
        ("written to the group's topic", f"{len(group.acknowledged):,}"),
        ("read by somebody", f"{len(group.read):,}; {group.lost:,} lost"),
        ("read twice", f"{group.read_again:,}, by who followed one that could not commit any more"),
        ("the whole scene", f"{group.elapsed_s:.1f} s"),
    ]
    print_table(("figure", "value"), figures)


def _show_arrow(arrow: demo_arrow.Outcome | None, out: Console) -> None:
    if arrow is None:
        out.print("The topic can be read as an Arrow table, too: pip install 'headrace[arrow]'.")
        return
    print_table(("most wanted pages", "times"), [(page, f"{times:,}") for page, times in arrow.pages], right=("times",))
    rate = f"{arrow.rows / arrow.read_s:,.0f} rows/s"
    out.print(
        f"Counted in an Arrow table of {arrow.rows:,} rows, which took {arrow.read_s:.2f} s to read ({rate}) and "
        f"{arrow.count_s:.2f} s to count."
    )
