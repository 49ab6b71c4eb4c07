"""A coordinator with a log, a clock and a memory of what it was asked: what a node is to it, and no more.

Every record goes through its bytes, every response through the wire format of the version it is for: what comes out
is what a client would see. Every ticket is answered once, or the test fails.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace.coordination.coordinator import Coordinator
from headrace.coordination.decision import Decision, Now
from headrace.coordination.group import Group
from headrace.coordination.members import Caller, Ticket
from headrace.coordination.records import GroupRecord, Unread, encode_record, parse_record
from headrace.coordination.settings import GroupSettings
from headrace.protocol.messages import (
    delete_groups,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    sync_group,
)
from headrace.protocol.schema import ApiMessages, Value

GROUP = "group"
TOPIC = "topic"
Protocols = dict[str, bytes] | list[tuple[str, bytes]]
START_MS = 1_700_000_000_000
# Kafka's broker tests use the same: no waiting for members unless that is what is tested.
AT_ONCE = GroupSettings(initial_rebalance_delay_ms=0)


def subscription(*topics: str, user_data: bytes = b"") -> bytes:
    """What a consumer says when it joins, in the first version of it."""
    out = bytearray(b"\x00\x00" + len(topics).to_bytes(4, "big"))
    for topic in topics:
        out += len(topic.encode()).to_bytes(2, "big") + topic.encode()
    return bytes(out + len(user_data).to_bytes(4, "big") + user_data)


class DrivenGroups:
    def __init__(self, settings: GroupSettings = AT_ONCE, *, seed: int = 0) -> None:
        self.settings = settings
        self.log: list[tuple[bytes, bytes | None]] = []
        self.answers: dict[Ticket, Value] = {}
        self.asked: dict[Ticket, tuple[ApiMessages, int]] = {}
        self.refused: set[Ticket] = set()  # What could not be written down; a node answers these itself.
        self.mono_us, self.wall_ms = 5_000_000, START_MS
        self._random = random.Random(seed)
        self._tickets = itertools.count()
        self.syncs_at_once = True
        self.durable = 0
        self._unsent: list[tuple[Ticket, Value]] = []
        self._is_held = False
        self.disk_is_full = False
        self.coordinator = self._new_coordinator()
        self.coordinator.start(self.now)

    def _new_coordinator(self) -> Coordinator:
        return Coordinator(self.settings, random_bytes=self._random.randbytes)

    @property
    def now(self) -> Now:
        return Now(self.mono_us, self.wall_ms)

    def group(self, group_id: str = GROUP) -> Group:
        group = self.coordinator.group(group_id)
        assert group is not None
        return group

    @property
    def waiting(self) -> set[Ticket]:
        return self.asked.keys() - self.answers.keys() - self.refused

    # Asking

    def ask(
        self,
        api: ApiMessages,
        version: int,
        decide: Callable[[Value, Caller, Now], Decision],
        request: Value,
        *,
        client_id: str = "client",
    ) -> Ticket:
        request = api.request.decode(api.request.encode(request, version), version)
        ticket = Ticket(next(self._tickets))
        self.asked[ticket] = (api, version)
        caller = Caller(ticket, version, client_id, "/127.0.0.1")
        if not self.submit(decide(request, caller, self.now)):
            self.refused.add(ticket)
        if not self._is_held:
            self.run_due()
        return ticket

    @contextmanager
    def held(self) -> Iterator[None]:
        """What is sent meanwhile arrives together: timers that are due at once are looked at afterwards."""
        self._is_held = True
        yield
        self._is_held = False
        self.run_due()

    def submit(self, decision: Decision) -> bool:
        """Whether it could be done."""
        if self.disk_is_full and decision.records:
            self.coordinator.abandon(decision, self.now)
            return False
        self.log += [encode_record(record) for record in decision.records]
        self.coordinator.enact(decision)
        self._unsent += decision.answers
        if self.syncs_at_once:
            self.sync()
        return True

    def sync(self) -> None:
        """All that was appended is durable. What was decided so far is answered."""
        self.durable = len(self.log)
        unsent, self._unsent = self._unsent, []
        for ticket, response in unsent:
            assert ticket not in self.answers, "answered twice"
            api, version = self.asked[ticket]
            self.answers[ticket] = api.response.decode(api.response.encode(response, version), version)

    def send_join(
        self,
        member_id: str = "",
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        version: int = 9,
        protocols: Protocols | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 60_000,
        client_id: str = "client",
    ) -> Ticket:
        protocols = {"range": subscription(TOPIC)} if protocols is None else protocols
        spoken = protocols.items() if isinstance(protocols, dict) else protocols
        request = {
            "group_id": group_id,
            "member_id": member_id,
            "group_instance_id": instance_id,
            "session_timeout_ms": session_timeout_ms,
            "rebalance_timeout_ms": rebalance_timeout_ms,
            "protocol_type": protocol_type,
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in spoken],
        }
        return self.ask(join_group.API, version, self.coordinator.decide_join, request, client_id=client_id)

    def send_sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        version: int = 4,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Ticket:
        request = {
            "group_id": group_id,
            "member_id": member_id,
            "generation_id": generation,
            "group_instance_id": instance_id,
            "protocol_type": protocol_type,
            "protocol_name": protocol_name,
            "assignments": [
                {"member_id": key, "assignment": assignment} for key, assignment in (assignments or {}).items()
            ],
        }
        return self.ask(sync_group.API, version, self.coordinator.decide_sync, request)

    def heartbeat(
        self, member_id: str, generation: int, *, group_id: str = GROUP, instance_id: str | None = None
    ) -> int:
        request = {
            "group_id": group_id,
            "member_id": member_id,
            "generation_id": generation,
            "group_instance_id": instance_id,
        }
        return self._code(self.ask(heartbeat.API, 4, self.coordinator.decide_heartbeat, request))

    def leave(self, *members: tuple[str, str | None], group_id: str = GROUP) -> list[int]:
        request = {
            "group_id": group_id,
            "members": [{"member_id": key, "group_instance_id": instance_id} for key, instance_id in members],
        }
        response = self.answers[self.ask(leave_group.API, 5, self.coordinator.decide_leave, request)]
        assert response["error_code"] == 0
        told = response["members"]
        assert [(member["member_id"], member["group_instance_id"]) for member in told] == list(members)
        return [member["error_code"] for member in told]

    def commit(
        self,
        member_id: str = "",
        generation: int = -1,
        offset: int = 7,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        version: int = 9,
        topic: str = TOPIC,
        partition: int = 0,
        metadata: str | None = "",
        **more: Any,
    ) -> int:
        item = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
        request = {
            "group_id": group_id,
            "member_id": member_id,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": instance_id,
            "topics": [{"name": topic, "partitions": [item]}],
            **more,
        }
        response = self.answers[self.ask(offset_commit.API, version, self.coordinator.decide_commit, request)]
        (told,) = response["topics"]
        assert told["name"] == topic
        (answered,) = told["partitions"]
        assert answered["partition_index"] == partition
        code: int = answered["error_code"]
        return code

    def offset(self, *, group_id: str = GROUP, topic: str = TOPIC, partition: int = 0) -> int:
        asked = {"group_id": group_id, "topics": [{"name": topic, "partition_indexes": [partition]}]}
        found = self.coordinator.fetch_offsets(asked)
        offset: int = found["topics"][0]["partitions"][0]["committed_offset"]
        return offset

    def delete_offsets(self, *partitions: int, group_id: str = GROUP, topic: str = TOPIC) -> Value:
        topics = [{"name": topic, "partitions": [{"partition_index": index} for index in partitions]}]
        request = {"group_id": group_id, "topics": topics}
        return self.answers[self.ask(offset_delete.API, 0, self.coordinator.decide_delete_offsets, request)]

    def delete_group(self, group_id: str = GROUP) -> int:
        def decide(request: Value, caller: Caller, now: Now) -> Decision:
            return self.coordinator.decide_delete_groups(request["groups_names"], caller, now)

        response = self.answers[self.ask(delete_groups.API, 2, decide, {"groups_names": [group_id]})]
        (result,) = response["results"]
        assert result["group_id"] == group_id
        code: int = result["error_code"]
        return code

    def _code(self, ticket: Ticket) -> int:
        code: int = self.answers[ticket]["error_code"]
        return code

    # Whole exchanges

    def join(self, member_id: str = "", **how: Any) -> Value:
        """A join that is answered at once."""
        return self.answers[self.send_join(member_id, **how)]

    def register(self, **how: Any) -> str:
        """Ask for an id."""
        response = self.join(**how)
        assert response["error_code"] == 79
        member_id: str = response["member_id"]
        return member_id

    def rebalance(self, *joining: str, new: int = 0, group_id: str = GROUP, **how: Any) -> list[str]:
        """These join again and new ones with them; all sync. The ids of all, the leader's first.

        Everybody is assigned their own name.
        """
        ids = [*joining, *(self.register(group_id=group_id, **how) for _ in range(new))]
        with self.held():
            tickets = [self.send_join(member_id, group_id=group_id, **how) for member_id in ids]
        joined = [self.answers[ticket] for ticket in tickets]
        assert [response["error_code"] for response in joined] == [0] * len(ids)
        leader, generation = joined[0]["leader"], joined[0]["generation_id"]
        followers = [member_id for member_id in ids if member_id != leader]
        syncs = [self.send_sync(member_id, generation, group_id=group_id) for member_id in followers]
        parts = {member_id: member_id.encode() for member_id in ids}
        syncs.append(self.send_sync(leader, generation, parts, group_id=group_id))
        assert [self.answers[ticket]["error_code"] for ticket in syncs] == [0] * len(ids)
        return [leader, *followers]

    # Time

    def run_due(self) -> None:
        while (decision := self.coordinator.decide_due(self.now)) is not None:
            self.submit(decision)

    def advance(self, delay_ms: int) -> None:
        """Both clocks, stopping wherever something is due."""
        end_us = self.mono_us + delay_ms * 1000
        while (at_us := self.coordinator.next_deadline_us()) is not None and at_us <= end_us:
            self._move_to(max(at_us, self.mono_us))
            self.run_due()
        self._move_to(end_us)

    def _move_to(self, mono_us: int) -> None:
        self.wall_ms += (mono_us - self.mono_us) // 1000
        self.mono_us = mono_us

    # Restarts

    def replayed(self) -> Coordinator:
        coordinator = self._new_coordinator()
        for record in self.records():
            coordinator.apply(record)
        return coordinator

    def records(self) -> list[GroupRecord]:
        found = []
        for key, value in self.log:
            record = parse_record(key, value)
            assert not isinstance(record, Unread)
            found.append(record)
        return found

    def restart(self) -> None:
        """The power fails: what is not durable is gone, and so are all connections; nobody is owed an answer."""
        del self.log[self.durable :]
        self._unsent.clear()
        for ticket in self.waiting:
            del self.asked[ticket]
        self.coordinator = self.replayed()
        self.coordinator.start(self.now)
