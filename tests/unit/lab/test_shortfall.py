"""Whether groups got what was there for them, and what may excuse them."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from headrace.lab.shortfall import Shortfall, find_shortfall, may_lose
from headrace.lab.workload import parse_load


def short(
    totals: Sequence[int],
    delivered: int = 1000,
    *,
    is_acknowledged: bool = True,
    may_lose: bool = False,
    settings: Mapping[str, str] | None = None,
    deleted: int = 0,
) -> Shortfall | None:
    return find_shortfall(
        totals,
        delivered,
        is_acknowledged=is_acknowledged,
        may_lose=may_lose,
        settings=settings or {},
        count_deleted=lambda: deleted,
    )


def test_groups_that_got_everything_and_more_are_not_short() -> None:
    assert short([1000]) is None
    assert short([1000, 1040]) is None
    assert short([]) is None
    assert short([0, 0], 0) is None


def test_a_group_that_stopped_short() -> None:
    found = short([900])
    assert found == Shortfall(got=900, of=1000, unconsumed=100, excuse=None)
    assert str(found) == "consumers got 900 of 1,000 messages"


def test_what_one_group_got_twice_makes_up_for_nothing() -> None:
    found = short([1100, 999])
    assert found == Shortfall(got=1999, of=2000, unconsumed=1, excuse=None)


def test_without_acknowledgements_nobody_knows_what_arrived() -> None:
    found = short([900, 1000], is_acknowledged=False)
    assert found is not None
    assert found.unconsumed == 50
    assert str(found) == (
        "consumers got 1,900 of 2,000 messages: of the others nobody knows whether they arrived, with acks=0"
    )


def test_what_a_leader_alone_had_may_be_lost_with_it() -> None:
    found = short([900], may_lose=True)
    assert found is not None
    assert found.unconsumed == 100
    assert str(found) == (
        "consumers got 900 of 1,000 messages: "
        "acks=1 lets what a leader alone had be lost with it, and a broker was killed"
    )
    assert short([1000], may_lose=True) is None


@pytest.mark.parametrize(
    ("given", "brokers", "is_allowed"),
    [
        ({"acks": 1, "faults": "kill:1@1s"}, 3, True),
        ({"acks": 1, "faults": ["pause:2@1s+1s", "kill:1@1s+1s"], "replication": 2}, 3, True),
        ({"acks": "all", "faults": "kill:1@1s", "replication": 3}, 3, False),
        ({"acks": 1, "faults": "pause:1@1s+1s", "replication": 3}, 3, False),
        ({"acks": 1, "replication": 3}, 3, False),
        ({"acks": 1, "faults": "kill:1@1s", "replication": 1}, 3, False),
        ({"acks": 1, "faults": "kill@1s"}, 1, False),
    ],
)
def test_whether_a_replica_may_lead_that_has_not_got_everything(
    given: dict[str, Any], brokers: int, is_allowed: bool
) -> None:
    load = parse_load({"rate": "10K", "duration": "10s", "warm_up": "0s", **given})
    assert may_lose(load, brokers=brokers) is is_allowed


def test_what_was_deleted_by_then_is_no_fault_of_theirs_and_explains_no_more_than_it_was() -> None:
    found = short([900, 400], deleted=600)
    assert found is not None
    assert found.excuse == "the topic's retention had deleted 600"
    found = short([900, 400], deleted=599)
    assert found is not None
    assert found.excuse is None


def test_who_begins_where_the_log_ends_is_to_leave_out_the_rest() -> None:
    found = short([0], settings={"auto.offset.reset": "latest"})
    assert found is not None
    assert (found.unconsumed, found.excuse) == (0, "they begin where the log ends (auto.offset.reset)")
    found = short([0], settings={"auto.offset.reset": "earliest"})
    assert found is not None
    assert found.excuse is None


def test_nobody_is_asked_what_was_deleted_unless_it_matters() -> None:
    def asked() -> int:
        raise AssertionError

    settings: Mapping[str, str] = {}
    assert find_shortfall([5], 5, is_acknowledged=True, settings=settings, count_deleted=asked) is None
    assert find_shortfall([4], 5, is_acknowledged=False, settings=settings, count_deleted=asked) is not None
