"""The coordinator of the groups in one partition of `__consumer_offsets`.

How to drive it. A request or a due timer becomes a decision, which changes nothing. Append its records as one batch to
the partition. If that worked, enact the decision at once, before the next one is made, and send its answers when
everything appended so far is durable: also answers without records of their own, since they may tell of state whose
records are not durable yet. If it did not work, abandon the decision: then nothing has happened, and whoever asked is
refused.

    decision = coordinator.decide_join(request, caller, now)
    append(map(encode_record, decision.records))   # If there are any. On failure: abandon, and refuse the caller.
    coordinator.enact(decision)
    for ticket, response in decision.answers: ...   # The caller's ticket may be among them, or be answered later.

A restart replays the partition with `apply`, then calls `start`: every member has a fresh session. State that `apply`
restores is the last that was complete; what a rebalance did since is forgotten, and its members find out.

Every ticket is answered exactly once, if time goes on and due timers are looked at. Not known here: topics, their ids,
who may do what, where the log is. A handler leaves out of a request what must not reach the group.
"""

import uuid
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, assert_never

from headrace.coordination import answers
from headrace.coordination.deadlines import Deadlines
from headrace.coordination.decision import Decision, Now, Timer, TimerKind
from headrace.coordination.describing import described, listed
from headrace.coordination.group import Group, GroupState
from headrace.coordination.joining import NEWCOMER, check_join, join
from headrace.coordination.members import Caller
from headrace.coordination.offsets import (
    Offsets,
    commit,
    delete_offsets,
    expired,
    fetch,
    forget,
    forget_all,
)
from headrace.coordination.rebalance import join_time_is_up, prepare, sync_time_is_up
from headrace.coordination.records import (
    GroupForgotten,
    GroupRecord,
    GroupStored,
    OffsetCommitted,
    OffsetForgotten,
)
from headrace.coordination.sessions import heartbeat, leave, session_is_over
from headrace.coordination.settings import GroupSettings
from headrace.coordination.storing import restored, stored
from headrace.coordination.syncing import check_sync, sync
from headrace.errors import ErrorCode
from headrace.ids import TopicPartition
from headrace.protocol.schema import Value

# A timer whose records could not be written is due again after this long.
_RETRY_MS = 1_000


class CoordinatorStatistics(NamedTuple):
    groups_by_state: dict[str, int]
    members: int
    pending_joins: int
    offsets: int
    waiting_answers: int
    timers: int


class Coordinator:
    __slots__ = ("_deadlines", "_groups", "_offsets", "_random_bytes", "_settings", "_turn")

    def __init__(self, settings: GroupSettings, *, random_bytes: Callable[[int], bytes]) -> None:
        self._settings = settings
        self._random_bytes = random_bytes
        self._groups: dict[str, Group] = {}
        self._offsets: dict[str, Offsets] = {}
        self._deadlines = Deadlines()
        self._turn = 0

    # Requests

    def decide_join(self, request: Value, caller: Caller, now: Now) -> Decision:
        code = check_join(request, self._settings)
        group_id, member_id = request["group_id"], request["member_id"]
        before = self._groups.get(group_id)
        if code is ErrorCode.NONE and before is None and member_id != NEWCOMER:
            code = ErrorCode.UNKNOWN_MEMBER_ID
        if code is not ErrorCode.NONE:
            return self._refusal(now, caller, answers.join_refused(caller.version, code, member_id=member_id))
        group = Group(group_id=group_id, state_since_ms=now.wall_ms) if before is None else before
        decision = self._decision(now, group)
        join(decision, request, caller, settings=self._settings, fresh_uuid=self._fresh_uuid)
        if before is None:
            if decision.group is group:
                decision.forget_group()  # Who was not let in founds no group.
            else:
                decision.records.insert(0, stored(group))
        return decision

    def decide_sync(self, request: Value, caller: Caller, now: Now) -> Decision:
        code = check_sync(request, caller)
        if code is not ErrorCode.NONE:
            return self._refusal(now, caller, answers.refused(code))
        return self._decide_as_member(sync, request, caller, now)

    def decide_heartbeat(self, request: Value, caller: Caller, now: Now) -> Decision:
        return self._decide_as_member(heartbeat, request, caller, now)

    def _decide_as_member(
        self, act: Callable[[Decision, Value, Caller], None], request: Value, caller: Caller, now: Now
    ) -> Decision:
        group_id = request["group_id"]
        # Offsets may be committed under an empty name, so there may be such a group; but nobody can be a member of it.
        group = self._groups.get(group_id) if group_id else None
        if group is None:
            code = ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
            return self._refusal(now, caller, answers.refused(code))
        decision = self._decision(now, group)
        act(decision, request, caller)
        return decision

    def decide_leave(self, request: Value, caller: Caller, now: Now) -> Decision:
        group_id = request["group_id"]
        if not group_id:
            return self._refusal(now, caller, answers.refused(ErrorCode.INVALID_GROUP_ID))
        # Of a group that is not there nobody can be a member; each is told so.
        group = self._groups.get(group_id)
        decision = self._decision(now, Group(group_id=group_id) if group is None else group)
        leave(decision, request, caller, settings=self._settings)
        if group is None:
            decision.forget_group()
        return decision

    def decide_commit(self, request: Value, caller: Caller, now: Now) -> Decision:
        decision = self._decision(now, self._groups.get(request["group_id"]))
        commit(decision, request, caller, settings=self._settings)
        return decision

    def decide_delete_offsets(self, request: Value, caller: Caller, now: Now) -> Decision:
        group_id = request["group_id"]
        if not group_id:
            return self._refusal(now, caller, answers.refused(ErrorCode.INVALID_GROUP_ID))
        decision = self._decision(now, self._groups.get(group_id))
        delete_offsets(decision, request, caller, self._offsets.get(group_id, {}))
        return decision

    def decide_delete_groups(self, group_ids: Iterable[str], caller: Caller, now: Now) -> Decision:
        """Those of this coordinator, each named once."""
        decision = self._decision(now)
        results = []
        for group_id in group_ids:
            group = self._groups.get(group_id)
            code = ErrorCode.NONE
            if group is None:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            elif group.state is not GroupState.EMPTY:
                code = ErrorCode.NON_EMPTY_GROUP
            else:
                decision.records += forget_all(group_id, self._offsets.get(group_id, {}))
                decision.records.append(GroupForgotten(group_id))
            results.append({"group_id": group_id, "error_code": code})
        decision.answer(caller, {"results": results})
        return decision

    def decide_partitions_deleted(self, partitions: Collection[TopicPartition], now: Now) -> Decision:
        """Nobody reads on in partitions that are gone. Nobody asked either: there is no answer."""
        decision = self._decision(now)
        for group_id, offsets in self._offsets.items():
            gone = [
                (topic, index)
                for topic, indexes in offsets.items()
                for index in indexes
                if (topic, index) in partitions
            ]
            decision.records += forget(group_id, gone)
        return decision

    # Questions

    def fetch_offsets(self, group_request: Value) -> Value:
        """For one group of those that `answers.fetch_groups` finds in a request."""
        return fetch(group_request, self._offsets.get(group_request["group_id"], {}))

    def describe(self, group_id: str, *, version: int) -> Value:
        return described(group_id, self._groups.get(group_id), version=version)

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Value]:
        return listed(self._groups.values(), states=states, types=types)

    def group(self, group_id: str) -> Group | None:
        """As it stands; a value, which stays as it is."""
        return self._groups.get(group_id)

    def statistics(self) -> CoordinatorStatistics:
        groups = self._groups.values()
        by_state = dict.fromkeys((state.value for state in GroupState if state is not GroupState.DEAD), 0)
        for group in groups:
            by_state[group.state.value] += 1
        members = [member for group in groups for member in group.members.values()]
        return CoordinatorStatistics(
            groups_by_state=by_state,
            members=len(members),
            pending_joins=sum(len(group.pending_joins) for group in groups),
            offsets=sum(len(indexes) for offsets in self._offsets.values() for indexes in offsets.values()),
            waiting_answers=sum(
                (member.waiting_join is not None) + (member.waiting_sync is not None) for member in members
            ),
            timers=len(self._deadlines),
        )

    # Time

    def next_deadline_us(self) -> int | None:
        """When `decide_due` has something to decide, by the monotonic clock."""
        return self._deadlines.next_us()

    def decide_due(self, now: Now) -> Decision | None:
        """What follows from the first timer that is due. Enacted or abandoned, it is due no longer: ask again."""
        timer = self._deadlines.due(now.mono_us)
        if timer is None:
            return None
        if timer.kind is TimerKind.RETENTION:
            decision = self._decision(now, cause=timer)
            decision.timers[timer] = now.after_ms(self._settings.offsets_retention_check_ms)
            self._forget_expired(decision)
            return decision
        group = self._groups.get(timer.group_id)
        decision = self._decision(now, group, cause=timer)
        decision.timers[timer] = None
        if group is None:
            return decision  # It was deleted while its timers ran.
        match timer.kind:
            case TimerKind.SESSION:
                session_is_over(decision, timer.member_id, self._settings)
            case TimerKind.JOIN:
                join_time_is_up(decision, self._settings)
            case TimerKind.SYNC:
                sync_time_is_up(decision, self._settings)
            case _:
                assert_never(timer.kind)
        return decision

    def decide_retention(self, now: Now) -> Decision:
        """As when it is time to look for what has expired, whenever that is."""
        decision = self._decision(now)
        self._forget_expired(decision)
        return decision

    def _forget_expired(self, decision: Decision) -> None:
        """Old offsets, and then groups that have neither offsets nor members."""
        now_ms, retention_ms = decision.now.wall_ms, self._settings.offsets_retention_ms
        for group_id, group in self._groups.items():
            offsets = self._offsets.get(group_id, {})
            gone = expired(group, offsets, now_ms=now_ms, retention_ms=retention_ms)
            decision.records += forget(group_id, gone)
            is_unused = group.state is GroupState.EMPTY and not group.pending_joins
            if is_unused and len(gone) == sum(map(len, offsets.values())):
                decision.records.append(GroupForgotten(group_id))

    # Change

    def enact(self, decision: Decision) -> None:
        """Its records are in the log: so be it."""
        assert decision.turn == self._turn, "enacted late: something else was decided on the same state"
        self._turn += 1
        for record in decision.records:
            self.apply(record)
        group = decision.group_or_none
        if group is not None:
            self._groups[group.group_id] = group
        for timer, at_us in decision.timers.items():
            if at_us is None:
                self._deadlines.cancel(timer)
            else:
                self._deadlines.set(timer, at_us)

    def abandon(self, decision: Decision, now: Now) -> None:
        """Its records could not be written. Whoever waits goes on waiting; a timer that was due is due again soon."""
        assert decision.turn == self._turn
        if decision.cause is not None:
            self._deadlines.set(decision.cause, now.after_ms(_RETRY_MS))

    def apply(self, record: GroupRecord) -> None:
        """What the log says. All that is durable of groups changes here alone."""
        match record:
            case OffsetCommitted(group_id, topic, partition, committed):
                if group_id not in self._groups:
                    self._groups[group_id] = Group(group_id=group_id)  # Offsets without members ever.
                self._offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = committed
            case OffsetForgotten(group_id, topic, partition):
                self._forget_offset(group_id, topic, partition)
            case GroupStored(group_id=group_id):
                self._groups[group_id] = restored(record)
            case GroupForgotten(group_id):
                self._groups.pop(group_id, None)
            case _:
                assert_never(record)

    def _forget_offset(self, group_id: str, topic: str, partition: int) -> None:
        offsets = self._offsets.get(group_id, {})
        indexes = offsets.get(topic, {})
        indexes.pop(partition, None)
        if not indexes:
            offsets.pop(topic, None)
        if not offsets:
            self._offsets.pop(group_id, None)

    def start(self, now: Now) -> None:
        """Everything was replayed: members are expected to be heard of from now on."""
        self._deadlines.set(Timer(TimerKind.RETENTION), now.after_ms(self._settings.offsets_retention_check_ms))
        for group in list(self._groups.values()):
            decision = self._decision(now, group)
            for member in group.members.values():
                decision.set_timer(TimerKind.SESSION, member.session_timeout_ms, member_id=member.member_id)
            if len(group.members) > self._settings.members_max:
                prepare(decision, self._settings)  # The limit was lowered: whoever joins first keeps its place.
            assert not decision.records
            assert not decision.answers
            self.enact(decision)

    def decide_unload(self, code: ErrorCode, now: Now) -> Decision:
        """Another node coordinates these groups from now on: nobody waits here any longer. It is the last decision."""
        decision = self._decision(now)
        for group in self._groups.values():
            group.moved_to(GroupState.DEAD, now_ms=now.wall_ms)
            for member in group.members.values():
                if (caller := member.waiting_join) is not None:
                    decision.answer(caller, answers.join_refused(caller.version, code, member_id=member.member_id))
                if member.waiting_sync is not None:
                    decision.answer(member.waiting_sync, answers.refused(code))
        return decision

    def _decision(self, now: Now, group: Group | None = None, *, cause: Timer | None = None) -> Decision:
        return Decision(now, turn=self._turn, group=group, cause=cause)

    def _refusal(self, now: Now, caller: Caller, response: Value) -> Decision:
        decision = self._decision(now)
        decision.answer(caller, response)
        return decision

    def _fresh_uuid(self) -> str:
        return str(uuid.UUID(bytes=self._random_bytes(16), version=4))
