"""A thousand members in two hundred groups on one node: a storm of joins, a minute of heartbeats, turnover, a restart.

    python -m tests.proofs.groups [--members 1000] [--seconds 60] [--broker headrace|apache]

The broker makes no new group wait for more members, so that a storm costs each group several generations. The same
crowd is sent to Apache Kafka where the whole proof is run, for its figures to stand beside ours; without Java the page
says that it lacks them.
"""

import argparse
import asyncio
import resource
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from headrace.lab.readings.process_tree import cpu_s, resident_bytes
from headrace.testing.node_process import NodeProcess
from tests.oracle.kafka import ApacheKafka, java_command
from tests.proofs.crowd import HEARTBEAT_S, SESSION_MS, Crowd
from tests.proofs.nodes import running
from tests.proofs.proof import Facts, Slice

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0"}
STEADY_S: Final = 60.0
STEADY_S_IN_CI: Final = 10.0
APACHES_FIGURES: Final = "Apache Kafka's figures"  # What a page lacks without Java.
_DESCRIPTORS: Final = 8192


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...


class Findings(NamedTuple):
    settle_s: float  # From the first connection until every group is whole.
    heartbeats: int
    heartbeat_ms_p50: float  # After the time that each was due.
    heartbeat_ms_p99: float
    heartbeat_ms_max: float
    silence_s_max: float  # Between two answers to a member, by which its session lives.
    cpu_percent: float  # Of one core, while there were only heartbeats.
    resident_mb: float
    turnover_settle_s: float  # One member of each group leaves and comes back, all at once.
    restart_settle_s: float  # From the broker's start until every member was answered as one.
    joined_again_after_restart: int
    given_up: int  # Members that the broker had given up, over the restart too.


def run(work: Slice) -> Facts:
    members = len(work.units)
    with_apache = work.is_full and work.has(java_command, or_lacks=APACHES_FIGURES)
    node = NodeProcess(work.scratch / "data", settings=SETTINGS)
    with running(node):
        ours = look(node, members, steady_s=STEADY_S if work.is_full else STEADY_S_IN_CI)
        node.stop()
    check(ours)
    work.advance(members)
    facts: Facts = dict(ours._asdict())
    if with_apache:
        with ApacheKafka(work.scratch / "apache", properties=SETTINGS) as kafka:
            theirs = look(kafka, members, steady_s=STEADY_S)
        facts |= {f"apache_{name}": value for name, value in theirs._asdict().items()}
    return facts


def check(found: Findings) -> None:
    assert found.given_up == 0, f"{found.given_up} members were given up"
    again = found.joined_again_after_restart
    assert again == 0, f"{again} members had to join again after the restart"
    assert found.silence_s_max < SESSION_MS / 1000, f"a member was not answered for {found.silence_s_max:.1f} s"


def look(broker: Broker, members: int, *, steady_s: float) -> Findings:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(soft, _DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
    return asyncio.run(_look(broker, members, steady_s=steady_s))


async def _look(broker: Broker, members: int, *, steady_s: float) -> Findings:
    crowd = Crowd(broker.bootstrap, members)
    await crowd.wake()
    crowd.enter()
    try:
        settle_s = await crowd.settle()

        await asyncio.sleep(1)
        crowd.take_beats()
        began_s, cpu_before_s = time.monotonic(), cpu_s(broker.pid)
        await asyncio.sleep(steady_s)
        cpu_percent = 100 * (cpu_s(broker.pid) - cpu_before_s) / (time.monotonic() - began_s)
        beats = crowd.take_beats()
        assert beats.answered > members * steady_s / HEARTBEAT_S / 2, f"{beats.answered} heartbeats were answered"
        resident_mb = resident_bytes(broker.pid) / 1e6

        for group in crowd.groups.values():
            group[0].leave_and_come_back()
        turnover_settle_s = await crowd.settle()
        silence_s_max = crowd.silence_s_max  # What comes now is not the members' silence but the broker's absence.

        generations = {group: whole[0].generation for group, whole in crowd.groups.items()}
        await asyncio.to_thread(broker.stop)
        began_s = time.monotonic()
        await asyncio.to_thread(broker.start)
        await crowd.wait_until(lambda: all(one.is_settled and one.heard_s > began_s for one in crowd.members))
        await crowd.settle()
        restart_settle_s = time.monotonic() - began_s
        again = sum(one.generation != generations[one.group] for one in crowd.members)
    finally:
        await crowd.disperse()
    return Findings(
        settle_s=settle_s,
        heartbeats=beats.answered,
        heartbeat_ms_p50=beats.late_ms_p50,
        heartbeat_ms_p99=beats.late_ms_p99,
        heartbeat_ms_max=beats.late_ms_max,
        silence_s_max=silence_s_max,
        cpu_percent=cpu_percent,
        resident_mb=resident_mb,
        turnover_settle_s=turnover_settle_s,
        restart_settle_s=restart_settle_s,
        joined_again_after_restart=again,
        given_up=crowd.given_up,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=STEADY_S)
    parser.add_argument("--broker", choices=["headrace", "apache"], default="headrace")
    given = parser.parse_args()
    if given.broker == "apache":
        with ApacheKafka.temporary(properties=SETTINGS) as kafka:
            found = look(kafka, given.members, steady_s=given.seconds)
    else:
        with (
            tempfile.TemporaryDirectory(prefix="headrace-crowd-") as directory,
            running(NodeProcess(Path(directory) / "data", settings=SETTINGS)) as node,
        ):
            found = look(node, given.members, steady_s=given.seconds)
            node.stop()
    for name, value in found._asdict().items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")


if __name__ == "__main__":
    main()
