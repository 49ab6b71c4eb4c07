"""Lives of consumer groups, played by any client on any broker.

A life writes messages, has members come and go in every way there is, and holds two things throughout. Whenever the
group is settled, the broker's account and the members' own agree, and every partition has exactly one owner. And in the
end every message of every partition was delivered, unchanged and at its offset: at least once where members were
killed, exactly once where nobody was.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, NamedTuple

from tests.clients.drivers import DRIVERS
from tests.clients.group_processes import MemberProcess
from tests.clients.group_view import GroupView, Onlooker
from tests.clients.scenario import Message, fingerprint, messages, spread

PARTITIONS = 6
SETTLE_S_MAX = 60.0
# A dead member is missed after this long. Long enough for a machine that is busy with a dozen groups.
SESSION_MS = 6_000
PATIENT_SESSION_MS = 30_000
HEARTBEAT_MS = 200
_LOOK_S = 0.05
_STEADY_S = 1.0
_WRITER = DRIVERS["confluent-kafka"]

# Brokers must let sessions be so short, not wait for more members than there are, and keep messages of long ago.
BROKER_SETTINGS = {
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",
}


class GroupClient(NamedTuple):
    """A client that can be a member, and what it can do as one."""

    name: str
    command: Callable[[], Sequence[str]]  # Builds what has to be built.
    assignors: tuple[str, ...]
    # The assignor with which a static member of it comes back unnoticed, if there is any.
    static: str | None
    # Assignors that leave a member, as far as is fair, what it has already.
    keeping: frozenset[str] = frozenset({"sticky", "cooperative-sticky"})
    positions: bool = True  # Commits when told, seeks, pauses.
    # Whether it may commit, when it leaves, what it has not shown.
    leaves_carelessly: bool = False
    # Whether it stays a member while its broker is away for a moment, and does not join again.
    is_patient: bool = True
    # What one says that gave its broker up and so leaves and joins again, if it is patient otherwise.
    gives_up: str | None = None


class LiveGroup:
    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = self.topic = name
        self.members: dict[str, MemberProcess] = {}
        self.expected: dict[int, list[str]] = {partition: [] for partition in range(PARTITIONS)}
        self.onlooker = Onlooker(bootstrap)
        self._all: list[MemberProcess] = []
        self._seed = 0
        _WRITER.create_topic(bootstrap, self.topic, partitions=PARTITIONS)

    # --- What happens ------------------------------------------------------------------------------------------

    def join(
        self,
        name: str,
        client: GroupClient,
        *,
        assignor: str,
        instance: str | None = None,
        session_ms: int = SESSION_MS,
        commits: str = "each",
        starts_again: bool = False,
    ) -> MemberProcess:
        """`starts_again` lets it be started anew where its library gives up, for a broker that is away for long."""
        config: dict[str, Any] = {
            "bootstrap": self.bootstrap,
            "group": self.name,
            "topic": self.topic,
            "assignor": assignor,
            "instance": instance,
            "session_ms": session_ms,
            "heartbeat_ms": HEARTBEAT_MS,
            "commits": commits,
            "starts_again": starts_again,
        }
        member = MemberProcess(name, client.command(), config)
        self.members[name] = member
        self._all.append(member)
        return member

    def leave(self, *names: str) -> None:
        for name in names:
            self.members.pop(name).leave()

    def kill(self, name: str) -> None:
        self.members.pop(name).kill()

    def write(self, count: int = 60, *, partitions: Iterable[int] = range(PARTITIONS)) -> None:
        """So many messages, over all or some partitions."""
        self._seed += 1
        chosen = list(partitions)
        sent = dict(zip(chosen, spread(awkward(count, seed=self._seed), len(chosen)).values(), strict=True))
        for partition, some in sent.items():
            self.expected[partition] += map(fingerprint, some)
        _WRITER.produce(self.bootstrap, self.topic, sent, codec="none", acks="all")

    # --- What must be so ---------------------------------------------------------------------------------------

    def wait_settled(self) -> dict[str, frozenset[int]]:
        """Until everybody agrees; then: who owns what."""
        view: GroupView | None = None

        def is_settled() -> bool:
            nonlocal view
            self.check_members()
            view = self.onlooker.look(self.name)
            owned = {name: member.owned for name, member in self.members.items()}
            if view is None or view.state != ("STABLE" if owned else "EMPTY") or view.owned != owned:
                return False
            owners = Counter(partition for partitions in owned.values() for partition in partitions)
            assert max(owners.values(), default=1) == 1, f"a partition has two owners: {owned}"
            # A client may lead before it knows of its topic, and then shares out nothing.
            return not owned or len(owners) == PARTITIONS

        self.wait(is_settled, lambda: f"the broker says {view}, the members {self._claims()}")
        assert view is not None
        sizes = [len(partitions) for partitions in view.owned.values()]
        assert not sizes or max(sizes) - min(sizes) <= 1, f"not shared fairly: {view.owned}"
        return view.owned

    def wait_steady(self) -> int:
        """Until no client has second thoughts any more, as some have when they hear of their topic; the generation."""
        seen: list[int | None] = []

        def is_steady() -> bool:
            generation = self.onlooker.generation(self.name)
            seen[:] = [*seen, generation] if generation is not None and generation in seen[-1:] else [generation]
            return len(seen) * _LOOK_S > _STEADY_S

        self.wait(is_steady, lambda: f"one generation, not {seen}")
        self.wait_settled()
        (generation,) = set(seen)
        assert generation is not None
        return generation

    def wait_delivered(self) -> None:
        """Until everything that was written has come, to whomever."""

        def missing() -> list[tuple[int, int]]:
            came = {(one.partition, one.offset) for member in self._all for one in list(member.deliveries)}
            return [
                (partition, offset)
                for partition, hashes in self.expected.items()
                for offset in range(len(hashes))
                if (partition, offset) not in came
            ]

        def is_delivered() -> bool:
            self.check_members()
            return not missing()

        def what() -> str:
            left = missing()
            committed = self.onlooker.committed(self.name)
            return f"{len(left)} messages, the first {left[:3]}; {self._claims()}; committed: {committed}"

        self.wait(is_delivered, what)

    def wait_committed(self, ends: dict[int, int] | None = None) -> None:
        """Until the broker has everything, or just so much, as read."""
        expected = ends or {partition: len(hashes) for partition, hashes in self.expected.items()}

        def is_committed() -> bool:
            self.check_members()
            return self.onlooker.committed(self.name) == expected

        self.wait(is_committed, lambda: f"{expected} committed, not {self.onlooker.committed(self.name)}")

    def check_deliveries(self, *, exactly_once: bool) -> None:
        """What came is what was written, in every partition; the order is that of the offsets."""
        came: dict[tuple[int, int], list[str]] = {}
        for member in self._all:
            for one in member.deliveries:
                came.setdefault((one.partition, one.offset), []).append(one.hash)
        for partition, hashes in self.expected.items():
            found = [came[partition, offset][0] for offset in range(len(hashes))]
            assert found == hashes, f"partition {partition} is not what was written"
        assert all(len(set(hashes)) == 1 for hashes in came.values()), "not everybody read the same"
        written = {(partition, offset) for partition, hashes in self.expected.items() for offset in range(len(hashes))}
        assert set(came) == written, "more came than was written"
        if exactly_once:
            twice = {place: len(hashes) for place, hashes in came.items() if len(hashes) > 1}
            assert not twice, f"delivered more than once: {twice}; {[one.failures for one in self._all]}"

    def check_members(self) -> None:
        for member in self.members.values():
            member.check_running()

    def wait(self, is_so: Callable[[], bool], what: Callable[[], str], *, timeout_s: float = SETTLE_S_MAX) -> None:
        deadline_s = time.monotonic() + timeout_s
        while not is_so():
            assert time.monotonic() < deadline_s, f"{self.name}: still waiting: {what()}"
            time.sleep(_LOOK_S)

    def _claims(self) -> dict[str, tuple[list[int], list[str]]]:
        return {name: (sorted(one.owned), one.failures[-3:]) for name, one in self.members.items()}

    def close(self) -> None:
        with ExitStack() as closing:
            for member in self._all:
                closing.callback(member.close)


@contextmanager
def live_group(bootstrap: str, name: str) -> Iterator[LiveGroup]:
    group = LiveGroup(bootstrap, name)
    try:
        yield group
    finally:
        group.close()


def awkward(count: int, *, seed: int) -> list[Message]:
    """As `messages` has them, but with headers that every client can tell: kcat prints them as text, and kafkajs sorts
    those of one name together."""
    return [
        one._replace(headers=(("empty", b""), ("trace", b"%d" % number), ("trace", b"again")) if one.headers else ())
        for number, one in enumerate(messages(count, seed=seed))
    ]


# --- Lives -----------------------------------------------------------------------------------------------------------


def come_and_go(bootstrap: str, name: str, clients: Sequence[GroupClient], assignor: str) -> None:
    """Members join, leave and are killed, while messages are written. Three clients, or three times the same."""
    first, second, third = clients
    is_keeping = all(assignor in client.keeping for client in clients)
    with live_group(bootstrap, name) as group:
        group.write()
        a = group.join("a", first, assignor=assignor)
        assert group.wait_settled() == {"a": frozenset(range(PARTITIONS))}
        group.write()
        before = len(a.owned_before)
        group.join("b", second, assignor=assignor)
        two = group.wait_settled()
        if is_keeping:
            assert two["a"] < frozenset(range(PARTITIONS))
        if assignor == "cooperative-sticky":
            # What a member keeps, it never lets go of on the way.
            assert all(seen >= two["a"] for seen in a.owned_before[before:]), a.owned_before[before:]
        group.write()
        group.join("c", third, assignor=assignor)
        three = group.wait_settled()
        if is_keeping:
            assert three["a"] < two["a"]
            assert three["b"] < two["b"]
        group.write()
        if second.leaves_carelessly:
            group.wait_delivered()
        group.leave("b")
        last = group.wait_settled()
        if is_keeping:
            assert last["a"] > three["a"]
            assert last["c"] > three["c"]
        group.write()
        group.wait_delivered()
        group.check_deliveries(exactly_once=True)

        group.kill("c")
        group.write()
        assert group.wait_settled() == {"a": frozenset(range(PARTITIONS))}
        group.wait_delivered()
        group.check_deliveries(exactly_once=False)
        group.leave("a")
        assert group.wait_settled() == {}
        group.wait_committed()


def static_restart(bootstrap: str, name: str, client: GroupClient, assignor: str) -> None:
    """Each of two static members is killed and comes back, the leader too; the other is not asked to join again."""
    with live_group(bootstrap, name) as group:

        def join(one: str) -> None:
            instance = f"instance-{one}"
            group.join(one, client, assignor=assignor, instance=instance, session_ms=PATIENT_SESSION_MS)

        join("a")
        group.wait_settled()
        join("b")
        group.wait_settled()
        generation = group.wait_steady()
        settled = group.wait_settled()
        group.write()
        group.wait_delivered()
        for gone, other in (("a", "b"), ("b", "a")):
            seen = len(group.members[other].owned_before)
            group.kill(gone)
            join(gone)
            group.write()
            assert group.wait_settled() == settled
            group.wait_delivered()
            found = group.onlooker.generation(group.name)
            assert found == generation, f"rebalanced when {gone} was gone: {found}, not {generation}"
            assert len(group.members[other].owned_before) == seen, "the other member noticed"
        group.check_deliveries(exactly_once=False)
        view = group.onlooker.look(group.name)
        assert view is not None
        assert view.instances == {"a": "instance-a", "b": "instance-b"}


def positions(bootstrap: str, name: str, client: GroupClient, assignor: str) -> None:
    """Commits that are waited for and that are not, seeking back, pausing, and who comes later begins at what is
    committed."""
    with live_group(bootstrap, name) as group:
        group.write()
        member = group.join("a", client, assignor=assignor, commits="told")
        group.wait_delivered()
        assert group.onlooker.committed(group.name) == {}
        member.tell("commit")
        group.wait_committed()
        group.write()
        group.wait_delivered()
        member.tell("commit async")
        group.wait_committed()
        committed = {partition: len(hashes) for partition, hashes in group.expected.items()}

        came = len(member.deliveries)
        member.tell("seek", partition=0, offset=3)
        again = [(0, offset) for offset in range(3, committed[0])]
        member.wait(lambda: len(member.deliveries) >= came + len(again), "what it read before")
        assert [(one.partition, one.offset) for one in member.deliveries[came:]] == again

        member.tell("pause", partition=1)
        paused_at = len(group.expected[1])
        for _ in range(3):  # The others are fetched again and again meanwhile.
            group.write(12)
            others = {0, 2, 3, 4, 5}
            ends = {partition: len(group.expected[partition]) for partition in others}
            member.wait(partial(_reached, member, ends), "what was written to the others")
        assert not [one for one in member.deliveries if one.partition == 1 and one.offset >= paused_at]
        member.tell("resume", partition=1)
        group.wait_delivered()
        group.check_deliveries(exactly_once=False)

        group.leave("a")
        assert group.onlooker.committed(group.name) == committed
        later = group.join("b", client, assignor=assignor, commits="told")
        left = [(p, o) for p, hashes in group.expected.items() for o in range(committed[p], len(hashes))]
        later.wait(lambda: len(later.deliveries) >= len(left), "what was not committed")
        assert sorted((one.partition, one.offset) for one in later.deliveries) == left
        group.check_deliveries(exactly_once=False)


def _reached(member: MemberProcess, ends: dict[int, int]) -> bool:
    """Whether it was given everything up to these ends."""
    came = {(one.partition, one.offset) for one in member.deliveries}
    return all((partition, end - 1) in came for partition, end in ends.items())


def broker_restart(
    bootstrap: str, names: Sequence[tuple[str, GroupClient, str]], interrupt: Callable[[], None], *, unnoticed: bool
) -> None:
    """The broker goes away and comes back under groups that are at work, each of one client and one assignor.

    Where it is back before a client loses patience, the interruption must go `unnoticed`: the same generation goes on,
    and nothing is read twice.
    """
    with ExitStack() as stack:
        groups = [(stack.enter_context(live_group(bootstrap, name)), one, how) for name, one, how in names]
        # Who comes back under another id has the others wait for the end of its session.
        session_ms = PATIENT_SESSION_MS if unnoticed else 2 * SESSION_MS
        for group, client, assignor in groups:
            for member in "ab":
                group.join(member, client, assignor=assignor, session_ms=session_ms, starts_again=not unnoticed)
        for group, _, _ in groups:
            group.write()
            group.wait_settled()
            group.wait_delivered()
            group.wait_committed()
        generations = {group.name: group.wait_steady() for group, _, _ in groups}
        settled = {group.name: group.wait_settled() for group, _, _ in groups}
        interrupt()
        for group, _, _ in groups:
            group.onlooker.reconnect()
            group.write()
        for group, client, _ in groups:
            group.wait_delivered()
            owned, generation = group.wait_settled(), group.wait_steady()
            told = {name: member.failures[-5:] for name, member in group.members.items()}
            gave_up = client.gives_up is not None and client.gives_up in str(told)
            must_stay = unnoticed and client.is_patient and not gave_up
            if must_stay:
                assert owned == settled[group.name], group.name
                assert generation == generations[group.name], f"{group.name} was rebalanced; its members: {told}"
            group.write()
            group.wait_delivered()
            group.check_deliveries(exactly_once=must_stay)
            group.wait_committed()
