"""Three processes read twelve partitions through message streams, while members leave, are killed and fall asleep.

    python -m tests.proofs.streams [--rounds 60] [--broker headrace|apache]

Messages are written all the time. In each round one of the three leaves, is killed, or is stopped until the group has
gone on without it and then woken with orders to commit what it had; who left is followed by a new one, sometimes
before the group has noticed. A round ends when everything written so far was delivered. What the members wrote down is
judged by `stream_history.py`. The same is done to Apache Kafka where the whole proof is run; without Java the page says
that it lacks that.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.client import Message, Producer
from headrace.testing.node_process import NodeProcess
from tests.clients.group_view import Onlooker
from tests.oracle.kafka import ApacheKafka, java_command
from tests.proofs.groups import APACHES_FIGURES
from tests.proofs.nodes import running
from tests.proofs.proof import Facts, Slice
from tests.proofs.stream_history import Broken, History

SETTINGS: Final = {"group.initial.rebalance.delay.ms": "0", "group.min.session.timeout.ms": "1000"}
GROUP: Final = "streams"
TOPIC: Final = "streams"
PARTITIONS: Final = 12
MEMBERS: Final = 3
SET_MESSAGES: Final = 20
SETS_PER_S: Final = 40
ROUND_S_MAX: Final = 90.0
LEAVE_S_MAX: Final = 30.0
_LOOK_S: Final = 0.05
_ROOT: Final = Path(__file__).resolve().parents[2]


class Broker(Protocol):
    @property
    def bootstrap(self) -> str: ...


class Findings(NamedTuple):
    messages: int
    deliveries: int
    repeated: int  # Deliveries of what was delivered before: after kills and stalls, and of what was in hand.
    generations: int
    left: int
    killed: int
    stalled: int
    commits_accepted: int
    commits_refused: int
    late_commits_refused: int  # By members who were woken after the group had gone on.
    round_s_max: float


class MemberProcess:
    def __init__(self, name: str, bootstrap: str, directory: Path, *, streams: int) -> None:
        self.name = name
        self._diary = directory / f"{name}.jsonl"
        self._complaints = directory / f"{name}.log"
        self._read_to = 0
        self._diary.touch()
        command = [sys.executable, "-m", "tests.proofs.stream_member", bootstrap, GROUP, TOPIC, str(streams)]
        with self._complaints.open("wb") as complaints:
            self._process = subprocess.Popen(
                [*command, str(self._diary)], cwd=_ROOT, stdin=subprocess.DEVNULL, stdout=complaints, stderr=complaints
            )

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def tell(self, history: History) -> None:
        """What it wrote since it was last asked."""
        with self._diary.open("rb") as diary:
            diary.seek(self._read_to)
            written = diary.read()
        whole = written[: written.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.splitlines():
            history.feed(self.name, json.loads(line))

    def check_running(self) -> None:
        if (status := self._process.poll()) is not None:
            raise Broken(f"{self.name} ended with status {status}:\n{self._complaints.read_text()[-3000:]}")

    def end(self, how: signal.Signals) -> None:
        self.send(how)
        try:
            status = self._process.wait(LEAVE_S_MAX)
        except subprocess.TimeoutExpired:
            self.close()
            raise Broken(f"{self.name} does not leave:\n{self._complaints.read_text()[-3000:]}") from None
        expected = 0 if how is signal.SIGTERM else -how
        if status != expected:
            raise Broken(f"{self.name} ended with status {status}:\n{self._complaints.read_text()[-3000:]}")

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Writing:
    """A producer that never pauses, and how much of each partition is acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(bootstrap)
        self._counts = dict.fromkeys(range(PARTITIONS), 0)
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def counts(self) -> dict[int, int]:
        if self._failure is not None:
            raise Broken(f"the producer failed: {self._failure}") from self._failure
        return dict(self._counts)

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._producer.close()

    def _run(self) -> None:
        try:
            partition = 0
            while not self._is_over.wait(1 / SETS_PER_S):
                first = self._counts[partition]
                values = [b"%d:%d" % (partition, first + number) for number in range(SET_MESSAGES)]
                receipt = self._producer.send(TOPIC, [Message(value, partition=partition) for value in values])
                written = receipt.result(ROUND_S_MAX)
                assert [one.offset for one in written] == list(range(first, first + SET_MESSAGES)), written
                self._counts[partition] += SET_MESSAGES
                partition = (partition + 1) % PARTITIONS
        except BaseException as error:
            self._failure = error


class Scene:
    """The group, and what happens to it."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self.history = History()
        self.members: list[MemberProcess] = []
        self._ended: list[MemberProcess] = []
        self._number = 0
        self.left = self.killed = self.stalled = self.late_commits_refused = 0
        self.writing = Writing(bootstrap)

    def join(self, chance: random.Random) -> None:
        self._number += 1
        name = f"member-{self._number}"
        self.members.append(MemberProcess(name, self._bootstrap, self._directory, streams=chance.randint(1, 3)))

    def leave(self, member: MemberProcess) -> None:
        member.end(signal.SIGTERM)
        self._gone(member)
        self.left += 1

    def kill(self, member: MemberProcess) -> None:
        member.end(signal.SIGKILL)
        self._gone(member)
        self.killed += 1

    def stall(self, member: MemberProcess) -> None:
        """It wakes up to commit what it had, after others were given it."""
        self.wait(lambda: self.history.has_read(member.name), "it has something to commit")
        member.send(signal.SIGSTOP)
        others = {one.name for one in self.members if one is not member}
        self.wait(lambda: self._owners() <= others and len(self.history.owners()) == PARTITIONS, "the others take over")
        refused, tried = self.history.commits_refused[member.name], len(self.history.tried[member.name])
        member.send(signal.SIGUSR1)
        member.send(signal.SIGCONT)
        self.wait(lambda: len(self.history.tried[member.name]) > tried, "it has tried to commit")
        late, refused = self.history.tried[member.name][-1], self.history.commits_refused[member.name] - refused
        if not 0 < late <= refused:  # What it had sent before it fell asleep may be refused as well.
            raise Broken(f"{member.name} woke up as nobody's owner, and of {late} commits {refused} were refused")
        self.late_commits_refused += late
        self.stalled += 1

    def _owners(self) -> set[str]:
        return set(self.history.owners().values())

    def _gone(self, member: MemberProcess) -> None:
        member.tell(self.history)
        self.history.forget(member.name)
        self.members.remove(member)
        self._ended.append(member)

    def settle(self) -> None:
        """Until all who are there have a share, and everything written until now was delivered."""
        self.wait(lambda: self._owners() == {one.name for one in self.members}, "everybody has a share")
        self.wait(lambda: len(self.history.owners()) == PARTITIONS, "every partition has an owner")
        counts = self.writing.counts
        self.wait(lambda: self._has(counts), "what was written is delivered")

    def _has(self, counts: dict[int, int]) -> bool:
        return all(len(self.history.delivered[partition]) >= count for partition, count in counts.items())

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + ROUND_S_MAX
        while True:
            for member in self.members:
                member.check_running()
                member.tell(self.history)
            if is_so():
                return
            if time.monotonic() > deadline_s:
                owners, shares = self.history.owners(), {p: len(d) for p, d in self.history.delivered.items()}
                raise Broken(f"waiting until {what}: owners {owners}, delivered {shares} of {self.writing.counts}")
            time.sleep(_LOOK_S)

    def end(self) -> dict[int, int]:
        """Nothing more is written; everybody reads the rest and leaves. What was written to each partition."""
        self.writing.end()
        counts = self.writing.counts
        self.wait(lambda: self._has(counts), "all is delivered")
        for member in list(self.members):
            self.leave(member)
        return counts

    def close(self) -> None:
        for member in self.members:
            member.close()
        self.writing.end()


@contextmanager
def scene(bootstrap: str, directory: Path) -> Iterator[Scene]:
    directory.mkdir(parents=True, exist_ok=True)
    made = Scene(bootstrap, directory)
    try:
        yield made
    finally:
        made.close()


def look(broker: Broker, directory: Path, rounds: range, *, done: Callable[[int], None]) -> Findings:
    create_topic(broker.bootstrap)
    round_s_max = 0.0
    with scene(broker.bootstrap, directory) as stage:
        chance = random.Random(0)
        for _ in range(MEMBERS):
            stage.join(chance)
        stage.settle()
        for number in rounds:
            began_s = time.monotonic()
            play(stage, number)
            round_s_max = max(round_s_max, time.monotonic() - began_s)
            done(1)
        counts = stage.end()
    history = stage.history
    history.check_owners()
    history.check_delivered(counts)
    committed = Onlooker(broker.bootstrap).committed(GROUP)
    if history.commits_accepted == 0:
        raise Broken("no commit was accepted")
    if committed != counts:
        raise Broken(f"everybody has left, and {committed} is committed of {counts}")
    return Findings(
        messages=sum(counts.values()),
        deliveries=history.deliveries,
        repeated=history.repeated,
        generations=history.generation_max,
        left=stage.left,
        killed=stage.killed,
        stalled=stage.stalled,
        commits_accepted=history.commits_accepted,
        commits_refused=sum(history.commits_refused.values()),
        late_commits_refused=stage.late_commits_refused,
        round_s_max=round_s_max,
    )


def play(stage: Scene, number: int) -> None:
    """One round. The kinds take turns; the rest is chosen by its number."""
    chance = random.Random(number)
    time.sleep(chance.random() * 0.5)
    member = chance.choice(stage.members)
    match number % 3:
        case 0:
            stage.leave(member)
        case 1:
            stage.kill(member)
        case 2:
            stage.stall(member)
    if len(stage.members) < MEMBERS:
        if chance.random() < 0.5:
            stage.settle()  # The others take over first.
        stage.join(chance)
    stage.settle()


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(TOPIC, num_partitions=PARTITIONS, replication_factor=1)])[TOPIC].result(30)


def run(work: Slice) -> Facts:
    with_apache = work.is_full and work.has(java_command, or_lacks=APACHES_FIGURES)
    with running(NodeProcess(work.scratch / "data", settings=SETTINGS)) as node:
        ours = look(node, work.scratch / "members", work.units, done=work.advance)
        node.stop()
    facts: Facts = dict(ours._asdict())
    if with_apache:
        with ApacheKafka(work.scratch / "apache", properties=SETTINGS) as kafka:
            theirs = look(kafka, work.scratch / "members-of-apache", work.units, done=lambda rounds: None)
        facts |= {f"apache_{name}": value for name, value in theirs._asdict().items()}
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--broker", choices=["headrace", "apache"], default="headrace")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-streams-") as name:
        directory = Path(name)

        def look_at(broker: Broker) -> Findings:
            say = lambda rounds: print(".", end="", flush=True)  # noqa: E731
            return look(broker, directory / "members", range(given.rounds), done=say)

        if given.broker == "apache":
            with ApacheKafka(directory / "apache", properties=SETTINGS) as kafka:
                found = look_at(kafka)
        else:
            with running(NodeProcess(directory / "data", settings=SETTINGS)) as node:
                found = look_at(node)
                node.stop()
    print()
    for fact, value in found._asdict().items():
        print(f"{fact:28} {value:.3f}" if isinstance(value, float) else f"{fact:28} {value:,}")


if __name__ == "__main__":
    main()
