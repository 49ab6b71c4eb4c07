"""One random life of a consumer group, from a seed, watched from outside.

Consumers behave as real ones do: they join, sync, send heartbeats, commit what they own, and go back to joining when
they are told to. They also pause for too long, lose their connection with an answer on its way, die, leave, come back
under their instance id while their old self lives on, change their minds, and send what they should have sent long ago.
Meanwhile the power fails, the disk fills up, and time passes.

What must hold is looked at after every step, by what clients were told wherever that is possible:

- in one generation, a partition has one owner;
- a commit is accepted from the owner in the present generation, and from nobody else;
- the log replayed gives the state that the live coordinator last called complete, and all offsets;
- no answer waits longer than members said that they would, and in the end none waits at all;
- left alone, the group settles: everybody is in one generation and every partition is owned;
- once everybody is gone, the group is empty, and no timer is left running.
"""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from headrace.coordination.coordinator import Coordinator
from headrace.coordination.decision import Decision
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Ticket
from headrace.coordination.records import GroupStored, Unread, encode_record, parse_record
from headrace.coordination.settings import GroupSettings
from headrace.coordination.storing import stored
from headrace.errors import ErrorCode
from headrace.protocol.messages import join_group, sync_group
from headrace.protocol.schema import Value
from tests.unit.coordination.driven_groups import GROUP, DrivenGroups, subscription

PARTITIONS = 6
CONSUMERS_MAX = 7
SESSION_MS = (6_000, 10_000, 45_000)
REBALANCE_MS = (5_000, 20_000, 60_000)
HEARTBEAT_MS = 2_000
# Sessions of those who died, a rebalance that waits for members who are not coming, and one for their assignment.
SETTLING_S = (max(SESSION_MS) + 3 * max(REBALANCE_MS)) // 1000
COMPLETE = {GroupState.STABLE, GroupState.EMPTY}


class WatchedGroups(DrivenGroups):
    """Beside the coordinator runs a second one, which knows nothing but the log."""

    def __init__(self, settings: GroupSettings, *, seed: int) -> None:
        super().__init__(settings, seed=seed)
        self.syncs_at_once = False
        self.shadow = self._new_coordinator()
        self.complete: GroupStored | None = None  # How the group stood when it last was complete.
        self.decided_at_us: dict[Ticket, int] = {}
        self._seen: Group | None = None

    def submit(self, decision: Decision) -> bool:
        before = len(self.log)
        is_done = super().submit(decision)
        if is_done:
            self.decided_at_us.update((ticket, self.mono_us) for ticket, _ in decision.answers)
        for key, value in self.log[before:]:
            record = parse_record(key, value)
            assert not isinstance(record, Unread)
            self.shadow.apply(record)
        before_group, self._seen = self._seen, self.coordinator.group(GROUP)
        group = self._seen
        if group is None:
            self.complete = None
        elif group is before_group:
            pass
        elif group.state in COMPLETE:
            self.complete = stored(group)
        elif self.complete is None:
            # It was founded and left its first state in one step.
            found = parse_record(*self.log[-1])
            assert isinstance(found, GroupStored)
            self.complete = found
        return is_done

    def restart(self) -> None:
        super().restart()
        self.shadow = self.replayed()
        group = self.shadow.group(GROUP)
        self.complete = None if group is None else stored(group)


@dataclass(eq=False)
class Consumer:
    """What a client knows of itself."""

    name: str
    instance_id: str | None
    session_ms: int
    rebalance_ms: int
    version: int
    topics: tuple[str, ...] = ("topic",)
    member_id: str = ""
    generation: int = -1
    owned: tuple[int, ...] = ()
    joined: Value | None = None  # The last answer, until it is synced.
    ticket: Ticket | None = None
    is_member: bool = False
    paused_until_us: int = 0  # It does nothing at all.
    busy_until_us: int = 0  # Only its heartbeats go on.
    past: list[tuple[str, int, tuple[int, ...]]] = field(default_factory=list)  # Who it was, and what it owned then.

    @property
    def identity(self) -> str:
        return self.instance_id or self.member_id

    def forget_membership(self, *, keep_id: bool) -> None:
        self.is_member, self.joined, self.owned = False, None, ()
        if not keep_id:
            self.member_id, self.generation = "", -1


class History:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.settings = GroupSettings(
            initial_rebalance_delay_ms=self.chance.choice((0, 0, 3_000)),
            members_max=self.chance.choice((2**31 - 1, 2**31 - 1, 4)),
            offsets_retention_check_ms=10**9,
        )
        self.groups = WatchedGroups(self.settings, seed=seed)
        if self.chance.random() < 0.5:
            self.at_once(
                lambda: self.groups.commit(partition=PARTITIONS)
            )  # It begins without members; somebody uses it for its offsets.
        self.rebalance_ms_max = self.chance.choice(REBALANCE_MS)
        self.consumers: list[Consumer] = []
        self.zombies: list[Consumer] = []
        self.happened: Counter[str] = Counter()
        # What clients were told.
        self.generation = 0  # The newest that anybody heard of.
        self.owners: dict[tuple[int, int], str] = {}  # By generation and partition.
        self.current_ids: dict[str, str] = {}  # Of instances.
        self.gone: set[str] = set()  # Ids that have left.
        self.offsets: dict[int, int] = {}
        self.asked_at_us: dict[Ticket, int] = {}
        self.askers: dict[Ticket, tuple[str, int]] = {}  # Under which id, and in which generation.
        self.joined_ids: dict[int, set[str]] = {}  # Who was told that they are in a generation.
        self.stalled_ms = 0  # How long the disk was full.
        self.names = 0
        self.replay_seen: tuple[int, Group | None] = (-1, None)  # What was looked at needs no second look.

    # One life

    def run(self, steps: int) -> None:
        for _ in range(self.chance.randrange(4)):
            self.arrive()
        for _ in range(steps):
            self.step()
            self.check()
        self.settle()
        self.end()

    def step(self) -> None:
        do = self.chance.choices(
            (self.act, self.pass_time, self.arrive, self.die, self.return_static, self.fail_power, self.fill_disk),
            (100, 15, 4 if len(self.consumers) < CONSUMERS_MAX else 0, 1, 2, 1, 1),
        )[0]
        do()
        if self.groups.disk_is_full:
            if self.chance.random() < 0.3:
                self.groups.disk_is_full = False
        elif self.groups.durable < len(self.groups.log) and self.chance.random() < 0.05:
            self.fail_power()
        elif self.chance.random() < 0.6:
            self.groups.sync()

    def act(self) -> None:
        everybody = [*self.consumers, *self.zombies]
        if everybody:
            consumer = self.chance.choice(everybody)
            if self.chance.random() < 0.1:
                self.commit_late(consumer)
            else:
                self.consumer_acts(consumer, is_tame=False)

    def pass_time(self) -> None:
        delay_ms = self.chance.choice((1, 100, 1_000, 1_000, 3_000, 3_000, 10_000, 30_000))
        if self.groups.disk_is_full:
            self.stalled_ms += delay_ms
        elif self.chance.random() < 0.9:
            self.groups.sync()
        for _ in range(delay_ms // HEARTBEAT_MS):
            self.groups.advance(HEARTBEAT_MS)
            for consumer in self.consumers:
                if self.groups.mono_us < consumer.busy_until_us and consumer.generation >= 0:
                    self.at_once(lambda consumer=consumer: self.heartbeat(consumer))
        self.groups.advance(delay_ms % HEARTBEAT_MS)

    def arrive(self) -> None:
        self.names += 1
        instance_id = f"static-{self.names}" if self.chance.random() < 0.4 else None
        self.consumers.append(self.new_consumer(instance_id))

    def new_consumer(self, instance_id: str | None) -> Consumer:
        return Consumer(
            name=f"c{self.names}",
            instance_id=instance_id,
            session_ms=self.chance.choice(SESSION_MS),
            rebalance_ms=self.chance.randrange(1_000, self.rebalance_ms_max),
            version=self.chance.choice((5, 7, 9) if instance_id else (1, 3, 5, 9)),
        )

    def die(self) -> None:
        if self.consumers:
            self.consumers.remove(self.chance.choice(self.consumers))
            self.happened["death"] += 1

    def return_static(self) -> None:
        """Another process of an instance, while the first may still run."""
        statics = [consumer for consumer in self.consumers if consumer.instance_id]
        if statics:
            old = self.chance.choice(statics)
            self.consumers[self.consumers.index(old)] = self.new_consumer(old.instance_id)
            if self.chance.random() < 0.5:
                self.zombies.append(old)
            self.happened["static restart"] += 1

    def fail_power(self) -> None:
        self.check_told()
        self.groups.restart()
        self.happened["power failure"] += 1
        for consumer in (*self.consumers, *self.zombies):
            consumer.ticket = None
        group = self.groups.coordinator.group(GROUP)
        self.generation = 0 if group is None else group.generation
        self.gone -= set() if group is None else set(group.members)  # That they left may not have been durable.
        lost = [key for key in self.owners if key[0] > self.generation]
        assert not lost, "somebody was told what they own in a generation that was not durable"
        if group is not None and group.leader_id is not None:
            self.joined_ids.setdefault(group.generation, set()).add(group.leader_id)  # Its answer was lost, maybe.
        # What a static member was called last may not have been durable; then it is what it was called before.
        self.current_ids = {
            member.instance_id: member.member_id
            for member in (group.members.values() if group else ())
            if member.instance_id
        }
        for partition, offset in self.offsets.items():
            assert self.groups.offset(partition=partition) == offset, "an acknowledged offset is lost"

    def fill_disk(self) -> None:
        self.groups.disk_is_full = True
        self.happened["full disk"] += 1

    # What consumers do

    def consumer_acts(self, consumer: Consumer, *, is_tame: bool) -> None:
        if self.groups.mono_us < max(consumer.paused_until_us, consumer.busy_until_us):
            return
        if consumer.ticket is not None:
            if consumer.ticket in self.groups.answers:
                self.hear(consumer)
            elif consumer.ticket in self.groups.refused:
                consumer.ticket = None
                consumer.forget_membership(keep_id=True)
            elif not is_tame and self.chance.random() < 0.1:
                consumer.ticket = None  # Its connection broke; it asks again.
                self.happened["lost answer"] += 1
            return
        if not is_tame and self.chance.random() < 0.02:
            consumer.paused_until_us = self.groups.mono_us + self.chance.choice((2_000, 15_000, 90_000)) * 1000
            self.happened["pause"] += 1
        elif not is_tame and self.chance.random() < (0.1 if consumer.joined else 0.02):
            consumer.busy_until_us = self.groups.mono_us + self.chance.choice((30_000, 120_000)) * 1000
            self.happened["busy"] += 1
        elif not consumer.is_member and consumer.joined is None:
            self.send_join(consumer)
        elif consumer.joined is not None:
            self.send_sync(consumer)
        elif is_tame:
            self.send_heartbeat(consumer)
            if consumer.is_member:
                self.send_commit(consumer)
        else:
            do = self.chance.choices((self.send_heartbeat, self.send_commit, self.change, self.leave), (50, 30, 5, 10))[
                0
            ]
            do(consumer)

    def note_asked(self, ticket: Ticket) -> Ticket:
        self.asked_at_us[ticket] = self.groups.mono_us
        return ticket

    def send_join(self, consumer: Consumer) -> None:
        consumer.ticket = self.note_asked(
            self.groups.send_join(
                consumer.member_id,
                instance_id=consumer.instance_id,
                version=consumer.version,
                protocols={"range": subscription(*consumer.topics), "sticky": b"x"},
                session_timeout_ms=consumer.session_ms,
                rebalance_timeout_ms=consumer.rebalance_ms,
                client_id=consumer.name,
            )
        )
        self.askers[consumer.ticket] = (consumer.member_id, -1)

    def send_sync(self, consumer: Consumer) -> None:
        joined = consumer.joined
        assert joined is not None
        assignments: dict[str, list[int]] = {member["member_id"]: [] for member in joined["members"]}
        leads = joined["leader"] == consumer.member_id and not joined["skip_assignment"]
        if leads:
            for partition in range(PARTITIONS):
                assignments[self.chance.choice(list(assignments))].append(partition)
        consumer.ticket = self.note_asked(
            self.groups.send_sync(
                consumer.member_id,
                joined["generation_id"],
                {key: bytes(partitions) for key, partitions in assignments.items()} if leads else {},
                instance_id=consumer.instance_id,
            )
        )
        self.askers[consumer.ticket] = (consumer.member_id, joined["generation_id"])

    def hear(self, consumer: Consumer) -> None:
        ticket, consumer.ticket = consumer.ticket, None
        assert ticket is not None
        response = self.groups.answers[ticket]
        if self.groups.asked[ticket][0] is join_group.API:
            self.hear_join(consumer, response)
        else:
            assert self.groups.asked[ticket][0] is sync_group.API
            self.hear_sync(consumer, response)

    def hear_join(self, consumer: Consumer, response: Value) -> None:
        match response["error_code"]:
            case ErrorCode.NONE:
                consumer.member_id, consumer.generation = response["member_id"], response["generation_id"]
                consumer.joined = response
                self.happened["join"] += 1
                if response["leader"] == consumer.member_id:
                    assert consumer.member_id in [member["member_id"] for member in response["members"]]
                else:
                    assert response["members"] == []
            case ErrorCode.MEMBER_ID_REQUIRED:
                assert consumer.instance_id is None
                consumer.member_id = response["member_id"]
            case ErrorCode.UNKNOWN_MEMBER_ID:
                consumer.forget_membership(keep_id=False)
            case ErrorCode.FENCED_INSTANCE_ID:
                self.be_fenced(consumer)
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case ErrorCode.GROUP_MAX_SIZE_REACHED:
                consumer.forget_membership(keep_id=False)
                self.happened["full group"] += 1
            case code:
                raise AssertionError(f"a join was answered with {code}")

    def hear_sync(self, consumer: Consumer, response: Value) -> None:
        match response["error_code"]:
            case ErrorCode.NONE:
                consumer.joined, consumer.is_member = None, True
                consumer.owned = tuple(response["assignment"])
                consumer.past.append((consumer.member_id, consumer.generation, consumer.owned))
                self.happened["generation"] += 1
            case ErrorCode.UNKNOWN_MEMBER_ID:
                consumer.forget_membership(keep_id=False)
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                consumer.forget_membership(keep_id=True)
            case ErrorCode.FENCED_INSTANCE_ID:
                self.be_fenced(consumer)
            case code:
                raise AssertionError(f"a sync was answered with {code}")

    def be_fenced(self, consumer: Consumer) -> None:
        self.happened["fenced"] += 1
        if consumer in self.zombies:
            self.zombies.remove(consumer)
        consumer.forget_membership(keep_id=False)

    def at_once(self, answer: Any) -> Any:
        """Heartbeats and commits are answered as soon as what they tell of is durable. A full disk answers nothing."""
        was_at_once, self.groups.syncs_at_once = self.groups.syncs_at_once, True
        try:
            return answer()
        finally:
            self.groups.syncs_at_once = was_at_once

    def send_heartbeat(self, consumer: Consumer) -> None:
        self.react(consumer, self.at_once(lambda: self.heartbeat(consumer)))

    def heartbeat(self, consumer: Consumer) -> int:
        code = self.groups.heartbeat(consumer.member_id, consumer.generation, instance_id=consumer.instance_id)
        if code == ErrorCode.NONE:
            self.check_told()
            assert consumer.generation == self.generation, "a heartbeat of a generation that has passed was welcome"
        return code

    def react(self, consumer: Consumer, code: int) -> None:
        match code:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS | ErrorCode.ILLEGAL_GENERATION:
                consumer.forget_membership(keep_id=True)
            case ErrorCode.UNKNOWN_MEMBER_ID | ErrorCode.GROUP_ID_NOT_FOUND:
                consumer.forget_membership(keep_id=False)
            case ErrorCode.FENCED_INSTANCE_ID:
                self.be_fenced(consumer)
            case _:
                raise AssertionError(f"answered with {code}")

    def send_commit(self, consumer: Consumer) -> None:
        if consumer.owned and not self.groups.disk_is_full:
            partition = self.chance.choice(consumer.owned)
            code = self.commit(consumer, consumer.member_id, consumer.generation, partition)
            self.react(consumer, code)

    def commit_late(self, consumer: Consumer) -> None:
        """Something that should have arrived in an earlier life."""
        if consumer.past and not self.groups.disk_is_full:
            member_id, generation, owned = self.chance.choice(consumer.past)
            if owned:
                self.commit(consumer, member_id, generation, self.chance.choice(owned))

    def commit(self, consumer: Consumer, member_id: str, generation: int, partition: int) -> int:
        offset = self.offsets.get(partition, 0) + 1
        code: int = self.at_once(
            lambda: self.groups.commit(
                member_id, generation, offset, instance_id=consumer.instance_id, partition=partition
            )
        )
        if code != ErrorCode.NONE:
            self.happened["commit refused"] += 1
            return code
        self.happened["commit"] += 1
        assert generation == self.generation, "a commit of a generation that has passed was accepted"
        assert self.owners[generation, partition] == (consumer.instance_id or member_id), "a commit of no owner's"
        assert member_id not in self.gone, "a commit of a member that has left was accepted"
        if consumer.instance_id:
            assert self.current_ids[consumer.instance_id] == member_id, "a commit of a fenced instance was accepted"
        self.offsets[partition] = offset
        return code

    def change(self, consumer: Consumer) -> None:
        consumer.topics = self.chance.choice((("topic",), ("topic", "other"), ("topic", "third")))
        consumer.forget_membership(keep_id=True)

    def leave(self, consumer: Consumer) -> None:
        if self.groups.disk_is_full:
            return
        (code,) = self.at_once(lambda: self.groups.leave((consumer.member_id, consumer.instance_id)))
        if code == ErrorCode.NONE:
            self.gone.add(consumer.member_id)
            self.happened["leave"] += 1
        if consumer in self.consumers:
            self.consumers.remove(consumer)

    # What must hold

    def check(self) -> None:
        self.check_told()
        self.check_waits()
        self.check_replay()

    def check_told(self) -> None:
        """What every client was told so far, whether it listened or not."""
        leaders = set()
        for ticket in [ticket for ticket in self.asked_at_us if ticket in self.groups.answers]:
            api, response = self.groups.asked[ticket][0], self.groups.answers[ticket]
            if response["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID:
                waited_us = self.groups.decided_at_us[ticket] - self.asked_at_us[ticket]
                was_welcome = waited_us > 0 and self.askers[ticket][0] not in self.gone
                assert not was_welcome, "a member was sent away while it waited"
            elif response["error_code"] == ErrorCode.NONE and api is join_group.API:
                generation = response["generation_id"]
                self.generation = max(self.generation, generation)
                self.joined_ids.setdefault(generation, set()).add(response["member_id"])
                leaders.add((generation, response["leader"]))
                self.note_id(response["member_id"])
            elif response["error_code"] == ErrorCode.NONE:
                self.note_owner(ticket, response)
            del self.asked_at_us[ticket]
        for generation, leader in leaders:
            assert leader in self.joined_ids[generation], "the leader does not know that it leads"

    def note_id(self, member_id: str) -> None:
        instance_id = self.instance_of(member_id)
        if instance_id is not None:
            self.current_ids[instance_id] = member_id

    @staticmethod
    def instance_of(member_id: str) -> str | None:
        return member_id[:-37] if member_id.startswith("static-") else None

    def note_owner(self, ticket: Ticket, response: Value) -> None:
        member_id, generation = self.askers[ticket]
        owner = self.instance_of(member_id) or member_id
        for partition in response["assignment"]:
            found = self.owners.setdefault((generation, partition), owner)
            assert found == owner, f"generation {generation} gives partition {partition} to {found} and to {owner}"

    def check_waits(self) -> None:
        longest_ms = max(self.rebalance_ms_max, self.settings.initial_rebalance_delay_ms) + self.stalled_ms
        longest_ms += 1_000 * self.happened["full disk"]  # What a timer could not do, it tries again a second later.
        for ticket in self.asked_at_us.keys() - self.groups.asked.keys() | self.groups.refused:
            self.asked_at_us.pop(ticket, None)  # Nobody is owed an answer.
        for ticket, asked_at_us in self.asked_at_us.items():
            # That an answer which is decided still has to become durable is not the group's doing.
            waited_ms = (self.groups.decided_at_us.get(ticket, self.groups.mono_us) - asked_at_us) / 1000
            assert waited_ms <= longest_ms, f"{ticket} waits for {waited_ms} ms"

    def check_replay(self) -> None:
        live, shadow = self.groups.coordinator, self.groups.shadow
        seen = (len(self.groups.log), live.group(GROUP))
        if self.replay_seen[0] == seen[0] and self.replay_seen[1] is seen[1]:
            return
        self.replay_seen = seen
        group = shadow.group(GROUP)
        assert (None if group is None else stored(group)) == self.groups.complete, "the log says something else"
        asked = {"group_id": GROUP, "topics": None}
        assert live.fetch_offsets(asked) == shadow.fetch_offsets(asked)

    # The end of it

    def settle(self) -> None:
        """Nothing fails any more. Within a few timeouts everybody is in one generation, and goes on working."""
        self.groups.disk_is_full = False
        self.groups.sync()
        self.zombies.clear()
        for consumer in self.consumers:
            consumer.paused_until_us = consumer.busy_until_us = 0
            consumer.ticket = None
        del self.consumers[self.settings.members_max :]
        for _ in range(SETTLING_S):
            for consumer in list(self.consumers):
                for _ in range(3):
                    self.consumer_acts(consumer, is_tame=True)
                    self.groups.sync()
                    self.check()
            if self.is_settled():
                break
            self.groups.advance(1_000)
            self.groups.sync()
            self.check()
        assert self.is_settled(), f"not settled after {SETTLING_S} seconds"
        for consumer in self.consumers:
            for partition in consumer.owned:
                assert self.commit(consumer, consumer.member_id, consumer.generation, partition) == ErrorCode.NONE

    def is_settled(self) -> bool:
        """Everybody is in, in one generation, and every partition is owned."""
        if not self.consumers:
            return True
        group = self.groups.coordinator.group(GROUP)
        return (
            group is not None
            and group.state is GroupState.STABLE
            and set(group.members) == {consumer.member_id for consumer in self.consumers}
            and all(consumer.is_member and consumer.generation == group.generation for consumer in self.consumers)
            and sorted(index for consumer in self.consumers for index in consumer.owned) == list(range(PARTITIONS))
        )

    def end(self) -> None:
        """Everybody is gone. Nobody waits for an answer, and the group is empty."""
        self.consumers.clear()
        if self.chance.random() < 0.5:
            self.fail_power()
        self.groups.advance(max(SESSION_MS) + 2 * max(REBALANCE_MS) + self.settings.new_member_join_timeout_ms)
        self.groups.sync()
        self.check()
        assert self.groups.waiting == set()
        group = self.groups.coordinator.group(GROUP)
        assert group is None or group.state is GroupState.EMPTY
        assert self.groups.coordinator.statistics().timers == 1  # Retention.
        restarted: Coordinator = self.groups.replayed()
        assert restarted.group(GROUP) == group
        assert [encode_record(record) for record in self.groups.records()] == self.groups.log
