"""Bugs planted in the group machine, each of which must be found by watching random lives of a group.

What nobody can find, nobody has tested.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headrace.coordination import coordinator, group, joining, offsets, rebalance, sessions, storing, syncing
from headrace.coordination.coordinator import Coordinator
from headrace.coordination.decision import Decision, Now, TimerKind
from headrace.coordination.group import Group
from headrace.coordination.members import Member
from headrace.coordination.records import GroupStored
from headrace.errors import ErrorCode
from tests.property.group_history import History
from tests.unit.coordination.driven_groups import DrivenGroups

SEEDS = 150
STEPS = 150
Plant = Callable[[pytest.MonkeyPatch], None]


def accept_any_generation(patch: pytest.MonkeyPatch) -> None:
    genuine = offsets.check_commit

    def check(found: Group | None, request: dict[str, Any], *, version: int) -> ErrorCode:
        code = genuine(found, request, version=version)
        return ErrorCode.NONE if code is ErrorCode.ILLEGAL_GENERATION else code

    patch.setattr(offsets, "check_commit", check)


def accept_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offsets, "check_commit", lambda found, request, *, version: ErrorCode.NONE)


def fence_nobody(patch: pytest.MonkeyPatch) -> None:
    def keep_old(self: Group, member: Member, *, of: str) -> Group:
        old = replace(self.members[of], waiting_join=None, waiting_sync=None)
        return replace(self, members={**self.members, of: old, member.member_id: member})

    patch.setattr(group.Group, "with_successor", keep_old)


def answer_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    genuine = DrivenGroups.submit

    def submit(self: DrivenGroups, decision: Decision) -> bool:
        is_done = genuine(self, decision)
        durable = self.durable
        if is_done:
            self.sync()
        self.durable = durable
        return is_done

    patch.setattr(DrivenGroups, "submit", submit)


def keep_the_generation(patch: pytest.MonkeyPatch) -> None:
    genuine = rebalance._begin_generation

    def begin(decision: Decision, before: Group) -> None:
        genuine(decision, replace(before, generation=max(before.generation - 1, 0)))

    patch.setattr(rebalance, "_begin_generation", begin)


def forget_who_waits(patch: pytest.MonkeyPatch) -> None:
    """Who asks again takes the place of the first answer, which nobody gives any more."""
    genuine = joining._updated

    def updated(decision: Decision, member: Member, *arguments: Any) -> Member:
        return genuine(decision, replace(member, waiting_join=None), *arguments)

    patch.setattr(joining, "_updated", updated)


def forget_who_waits_for_an_assignment(patch: pytest.MonkeyPatch) -> None:
    def take_back(decision: Decision) -> None:
        decision.group = decision.group.with_members(
            replace(member, assignment=b"", waiting_sync=None) for member in decision.group.members.values()
        )

    patch.setattr(rebalance, "_take_back_assignments", take_back)


def no_sessions_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    genuine = Coordinator.start

    def start(self: Coordinator, now: Now) -> None:
        known, self._groups = self._groups, {}
        genuine(self, now)
        self._groups = known

    patch.setattr(Coordinator, "start", start)


def no_limit_for_joining(patch: pytest.MonkeyPatch) -> None:
    _without_timer(patch, TimerKind.JOIN)


def no_limit_for_syncing(patch: pytest.MonkeyPatch) -> None:
    _without_timer(patch, TimerKind.SYNC)


def _without_timer(patch: pytest.MonkeyPatch, forgotten: TimerKind) -> None:
    genuine = Decision.set_timer

    def set_timer(self: Decision, kind: TimerKind, delay_ms: int, *, member_id: str = "") -> None:
        # The first generation of a group needs its timer to come about at all.
        if kind is not forgotten or (kind is TimerKind.JOIN and self.group.initial_wait is not None):
            genuine(self, kind, delay_ms, member_id=member_id)

    patch.setattr(Decision, "set_timer", set_timer)


def write_generations_down_as_they_begin(patch: pytest.MonkeyPatch) -> None:
    """And not when they are complete: a restart then calls members by assignments that they never had."""
    genuine = rebalance._begin_generation

    def begin(decision: Decision, before: Group) -> None:
        genuine(decision, before)
        decision.records.append(storing.stored(decision.group))

    patch.setattr(rebalance, "_begin_generation", begin)


def restore_without_assignments(patch: pytest.MonkeyPatch) -> None:
    genuine = storing.restored

    def restored(record: GroupStored) -> Group:
        found = genuine(record)
        return found.with_members(replace(member, assignment=b"") for member in found.members.values())

    patch.setattr(coordinator, "restored", restored)


def assign_to_everybody(patch: pytest.MonkeyPatch) -> None:
    genuine = syncing._complete_generation

    def complete(decision: Decision, assignments: dict[str, bytes]) -> None:
        everything = b"".join(assignments.values())
        genuine(decision, dict.fromkeys(assignments, everything))

    patch.setattr(syncing, "_complete_generation", complete)


def end_sessions_of_those_who_wait(patch: pytest.MonkeyPatch) -> None:
    """Members expire while a rebalance runs."""
    patch.setattr(Member, "is_excused", property(lambda self: False))


def never_end_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(coordinator, "session_is_over", lambda decision, member_id, settings: None)


def let_members_leave_silently(patch: pytest.MonkeyPatch) -> None:
    """The others are not told, and what it owned is owned by nobody."""
    patch.setattr(sessions, "rebalance", lambda decision, settings: None)


def lead_without_having_joined(patch: pytest.MonkeyPatch) -> None:
    def leader(found: Group) -> Member | None:
        return found.members[found.leader_id or ""]

    patch.setattr(rebalance, "_joined_leader", leader)


def follow_a_static_member_without_a_record(patch: pytest.MonkeyPatch) -> None:
    genuine = joining._resume

    def resume(decision: Decision, *arguments: Any, **more: Any) -> None:
        genuine(decision, *arguments, **more)
        decision.records.clear()

    patch.setattr(joining, "_resume", resume)


PLANTED: list[Plant] = [
    accept_any_generation,
    accept_anybody,
    answer_before_it_is_durable,
    assign_to_everybody,
    end_sessions_of_those_who_wait,
    fence_nobody,
    follow_a_static_member_without_a_record,
    forget_who_waits,
    forget_who_waits_for_an_assignment,
    keep_the_generation,
    lead_without_having_joined,
    let_members_leave_silently,
    never_end_sessions,
    no_limit_for_joining,
    no_limit_for_syncing,
    no_sessions_after_a_restart,
    restore_without_assignments,
    write_generations_down_as_they_begin,
]


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    for seed in range(SEEDS):
        try:
            History(seed).run(STEPS)
        except (AssertionError, KeyError, IndexError):
            return
    pytest.fail(f"{SEEDS} lives of a group with this bug, and nobody noticed")


def test_without_a_bug_nothing_is_found() -> None:
    for seed in range(10):
        History(seed).run(STEPS)
