"""The demo's second scene: two members read what is being written, a third joins, one is killed.

Events are written at a steady pace; each member is a process of its own that reports every message it read. In
the end every acknowledged event was read by somebody, and each partition belongs to one member. Events that the
killed one had read but not committed are read again by whoever follows it: at least once is what a group promises.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console

from headrace.cli.demo_member import digest_of
from headrace.cli.output import CommandError
from headrace.lab import weblog

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

TOPIC: Final = "weblog-live"
GROUP: Final = "weblog-readers"
NODE_SETTINGS: Final = {
    "group.min.session.timeout.ms": "500",  # Else nobody is missed before six seconds have passed.
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
PARTITIONS: Final = 6
VICTIM: Final = "ada"
SESSION_TIMEOUT_MS: Final = 1_500  # As soon as that somebody who was killed is missed.
_PACE_S: Final = 1.2  # How long each half of the events is spread over.
_STEP_S: Final = 0.02
_WAIT_S_MAX: Final = 60.0  # For any one thing to happen.


Place = tuple[int, int]  # Partition and offset.


class Member:
    """A process, and what it has reported so far."""

    def __init__(self, name: str, bootstrap: str, directory: Path, session_timeout_ms: int) -> None:
        self.name = name
        self.count = 0
        self.was_killed = False
        self._path = directory / f"{name}.txt"
        self._path.touch()
        self._position = 0
        command = [sys.executable, "-P", "-m", "headrace.cli.demo_member", bootstrap, GROUP, TOPIC, name]
        self._process = subprocess.Popen([*command, str(self._path), str(session_timeout_ms)], process_group=0)

    def reported(self) -> list[tuple[Place, str]]:
        """Place and digest of each message that it read since last asked."""
        with self._path.open("rb") as report:
            report.seek(self._position)
            whole, _, _ = report.read().rpartition(b"\n")  # It may be in the middle of a line.
        if not whole:
            return []
        self._position += len(whole) + 1
        entries = [line.split() for line in whole.decode().split("\n")]
        self.count += len(entries)
        return [((int(partition), int(offset)), digest) for partition, offset, digest in entries]

    def check_running(self) -> None:
        if not self.was_killed and self._process.poll() is not None:
            raise CommandError(f"member {self.name} ended by itself with status {self._process.returncode}")

    def kill(self) -> None:
        """No goodbye: the group learns of it when the session times out."""
        self.was_killed = True
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass(slots=True)
class Outcome:
    """What was written, who read it, and who owns what in the end."""

    acknowledged: dict[Place, str] = field(default_factory=dict)
    read: dict[Place, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    read_again: int = 0
    elapsed_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    owned: dict[str, list[int]] = field(default_factory=dict)  # Partitions by member.

    @property
    def lost(self) -> int:
        return sum(self.read.get(place) != digest for place, digest in self.acknowledged.items())

    @property
    def invented(self) -> int:
        return len(self.read.keys() - self.acknowledged.keys())

    @property
    def is_good(self) -> bool:
        """Nothing lost, nothing made up, and each partition with one of those who are left."""
        owned = sorted(partition for own in self.owned.values() for partition in own)
        is_shared = owned == list(range(PARTITIONS)) and VICTIM not in self.owned
        return is_shared and not self.lost and not self.invented and not self.failures

    def fields(self) -> dict[str, object]:
        return {
            "acknowledged": len(self.acknowledged),
            "read": len(self.read),
            "lost": self.lost,
            "read_again": self.read_again,
            "members": [
                {"name": name, "read": count, "killed": name == VICTIM, "partitions": self.owned.get(name, [])}
                for name, count in self.counts.items()
            ],
            "elapsed_s": self.elapsed_s,
        }


class Scene:
    """Time passes in `wait_until`: what is due is written, what was read is taken down."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        *,
        client: Mapping[str, Any],
        check_stop: Callable[[], None],
        session_timeout_ms: int = SESSION_TIMEOUT_MS,
    ) -> None:
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient

        settings = {**client, "bootstrap.servers": bootstrap}
        self.outcome = Outcome()
        self.members: dict[str, Member] = {}
        self._bootstrap = bootstrap
        self._directory = directory
        self._check_stop = check_stop
        self._session_timeout_ms = session_timeout_ms
        self._admin = AdminClient(settings)
        self._producer = Producer(
            {**settings, "enable.idempotence": True, "linger.ms": 5, "on_delivery": self._note_delivery}
        )
        self._lines: list[bytes] = []  # Being written, at a steady pace from when it was begun.
        self._written = 0
        self._began_s = 0.0
        self._expected = 0

    def create_topic(self) -> None:
        from confluent_kafka.admin import NewTopic

        for future in self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)], request_timeout=10).values():
            future.result()

    def start(self, name: str) -> None:
        self.members[name] = Member(name, self._bootstrap, self._directory, self._session_timeout_ms)

    def begin_writing(self, lines: list[bytes]) -> None:
        """What was begun before is finished first."""
        self._lines = self._lines[self._written :] + lines
        self._written = 0
        self._began_s = time.monotonic()
        self._expected += len(lines)

    def is_all_read(self) -> bool:
        answered = len(self.outcome.acknowledged) + len(self.outcome.failures)
        return answered == self._expected and len(self.outcome.read) >= len(self.outcome.acknowledged)

    def owned(self) -> dict[str, list[int]]:
        """Partitions by member; nothing while the group is still sharing them out."""
        from confluent_kafka import ConsumerGroupState

        (future,) = self._admin.describe_consumer_groups([GROUP], request_timeout=10).values()
        group = future.result()
        if group.state is not ConsumerGroupState.STABLE:
            return {}
        return {
            member.client_id: sorted(one.partition for one in member.assignment.topic_partitions)
            for member in group.members
        }

    def is_shared_by(self, *names: str) -> bool:
        owned = self.owned()
        return owned.keys() == set(names) and all(owned.values())

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + _WAIT_S_MAX
        while not condition():
            self._check_stop()
            self._step()
            if time.monotonic() > deadline_s:
                raise CommandError(f"waited {_WAIT_S_MAX:.0f} s, and {what} has not come about")

    def _step(self) -> None:
        share = min(1.0, (time.monotonic() - self._began_s) / _PACE_S)
        due = max(self._written, round(share * len(self._lines)))
        for line in self._lines[self._written : due]:
            self._producer.produce(TOPIC, line, weblog.host_of(line))
        self._written = due
        self._producer.poll(_STEP_S)
        for member in self.members.values():
            member.check_running()
            for place, digest in member.reported():
                self.outcome.read_again += place in self.outcome.read
                if self.outcome.read.setdefault(place, digest) != digest:
                    self.outcome.failures.append(f"{place} was read as something else the second time")
            self.outcome.counts[member.name] = member.count

    def _note_delivery(self, error: "KafkaError | None", message: Any) -> None:
        if error is None:
            place = (message.partition(), message.offset())
            self.outcome.acknowledged[place] = digest_of(message.key(), message.value())
        else:
            self.outcome.failures.append(error.str())


def play(
    bootstrap: str,
    directory: Path,
    *,
    events: int,
    seed: int,
    client: Mapping[str, Any],
    check_stop: Callable[[], None],
    out: Console,
) -> Outcome:
    """The scene, on a node that is running. `client` are settings for every client in it."""
    began_s = time.monotonic()
    scene = Scene(bootstrap, directory, client=client, check_stop=check_stop)
    outcome = scene.outcome
    try:
        scene.create_topic()
        scene.start("ada")
        scene.start("ben")
        scene.wait_until("a group of two", lambda: scene.is_shared_by("ada", "ben"))
        out.print(f"A group of two, ada and ben, reads {PARTITIONS} partitions while they are being written.")
        lines = list(islice(weblog.lines(seed), events))
        scene.begin_writing(lines[: events // 2])
        scene.wait_until("a quarter read", lambda: len(outcome.read) >= events // 4)
        scene.start("cem")
        scene.wait_until("a group of three", lambda: scene.is_shared_by("ada", "ben", "cem"))
        out.print(f"A third, cem, has joined; {len(outcome.read):,} events were read so far.")
        scene.begin_writing(lines[events // 2 :])
        scene.wait_until("three quarters read", lambda: len(outcome.read) >= events * 3 // 4)
        scene.members[VICTIM].kill()
        out.print(f"One of them, {VICTIM}, was killed with -9 after {len(outcome.read):,} events.")
        scene.wait_until("everything read", scene.is_all_read)
        scene.wait_until("a group of the two who are left", lambda: scene.is_shared_by("ben", "cem"))
        outcome.owned = scene.owned()
    finally:
        for member in scene.members.values():
            member.close()
    outcome.elapsed_s = time.monotonic() - began_s
    return outcome
