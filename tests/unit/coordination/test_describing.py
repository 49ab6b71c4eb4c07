"""ListGroups, DescribeGroups and statistics."""

from typing import Any

import pytest

from headrace.coordination import answers
from headrace.coordination.group import TRANSITIONS, Group, GroupState
from headrace.errors import ErrorCode
from headrace.protocol.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    sync_group,
)
from headrace.protocol.schema import ApiMessages, Value
from tests.unit.coordination.driven_groups import DrivenGroups, subscription


@pytest.fixture
def groups() -> DrivenGroups:
    return DrivenGroups()


def describe(groups: DrivenGroups, group_id: str, version: int = 6) -> Value:
    api = describe_groups.API
    response = {"groups": [groups.coordinator.describe(group_id, version=version)]}
    (group,) = api.response.decode(api.response.encode(response, version), version)["groups"]
    found: Value = group
    return found


def names(groups: DrivenGroups, **filters: Any) -> set[str]:
    response = {"groups": groups.coordinator.list_groups(**filters)}
    api = list_groups.API
    listed = api.response.decode(api.response.encode(response, 5), 5)["groups"]
    return {group["group_id"] for group in listed}


@pytest.fixture
def every_state(groups: DrivenGroups) -> DrivenGroups:
    groups.commit(group_id="simple")
    groups.register(group_id="empty")
    groups.rebalance(new=1, group_id="stable")
    (leader,) = groups.rebalance(new=1, group_id="preparing")
    groups.send_join(groups.register(group_id="preparing"), group_id="preparing")
    assert leader in groups.group("preparing").members
    groups.join(groups.register(group_id="completing"), group_id="completing")
    return groups


def test_groups_are_listed_by_state(every_state: DrivenGroups) -> None:
    groups = every_state
    assert names(groups) == {"simple", "empty", "stable", "preparing", "completing"}
    assert names(groups, states=["Stable"]) == {"stable"}
    assert names(groups, states=["EMPTY", " preparingrebalance "]) == {"simple", "empty", "preparing"}
    assert names(groups, states=["CompletingRebalance"]) == {"completing"}
    assert names(groups, states=["nonsense"]) == set()


def test_groups_are_listed_by_type(every_state: DrivenGroups) -> None:
    everything = names(every_state)
    assert names(every_state, types=["classic"]) == names(every_state, types=["Classic", "share"]) == everything
    assert names(every_state, types=["consumer"]) == names(every_state, types=["nonsense"]) == set()


def test_a_listed_group_says_what_it_is(groups: DrivenGroups) -> None:
    groups.rebalance(new=1)
    (listed,) = groups.coordinator.list_groups()
    assert listed == {
        "group_id": "group",
        "protocol_type": "consumer",
        "group_state": "Stable",
        "group_type": "classic",
    }


def test_a_stable_group_is_described_with_what_its_members_said_and_were_given(groups: DrivenGroups) -> None:
    joined = groups.join(instance_id="one", protocols={"range": subscription("t")}, client_id="me")
    member_id = joined["member_id"]
    groups.send_sync(member_id, 1, {member_id: b"all"}, instance_id="one")
    described = describe(groups, "group")
    assert (described["error_code"], described["group_state"]) == (0, "Stable")
    assert (described["protocol_type"], described["protocol_data"]) == ("consumer", "range")
    assert described["members"] == [
        {
            "member_id": member_id,
            "group_instance_id": "one",
            "client_id": "me",
            "client_host": "/127.0.0.1",
            "member_metadata": subscription("t"),
            "member_assignment": b"all",
        }
    ]


def test_a_group_that_rebalances_is_described_without(every_state: DrivenGroups) -> None:
    for group_id, state, count in (
        ("preparing", "PreparingRebalance", 2),
        ("completing", "CompletingRebalance", 1),
        ("empty", "Empty", 0),
        ("simple", "Empty", 0),
    ):
        described = describe(every_state, group_id)
        assert (described["group_state"], described["protocol_data"]) == (state, "")
        assert [member["member_metadata"] for member in described["members"]] == [b""] * count


@pytest.mark.parametrize("version", [0, 5, 6])
def test_a_group_that_is_not_there_is_dead(groups: DrivenGroups, version: int) -> None:
    described = describe(groups, "nobody's", version)
    assert described["group_state"] == "Dead"
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0
    assert described["error_code"] == expected
    assert described["error_message"] == ("Group nobody's not found." if version >= 6 else None)


def test_statistics_count_everything(every_state: DrivenGroups) -> None:
    statistics = every_state.coordinator.statistics()
    assert statistics.groups_by_state == {
        "Empty": 2,
        "PreparingRebalance": 1,
        "CompletingRebalance": 1,
        "Stable": 1,
    }
    assert (statistics.members, statistics.pending_joins, statistics.offsets) == (4, 1, 1)
    assert statistics.waiting_answers == len(every_state.waiting) == 1


def test_a_group_moves_only_as_the_table_allows() -> None:
    assert set(TRANSITIONS) == set(GroupState)
    for before in GroupState:
        for after in GroupState:
            group = Group(group_id="g", state=before)
            if after in TRANSITIONS[before]:
                assert group.moved_to(after, now_ms=5).state is after
                assert group.moved_to(after, now_ms=5).state_since_ms == 5
            else:
                with pytest.raises(AssertionError, match="g:"):
                    group.moved_to(after, now_ms=5)


def every_version(*apis: ApiMessages) -> list[Any]:
    return [
        pytest.param(api, version, id=f"{api.name}-v{version}")
        for api in apis
        for version in range(api.version_min, api.version_max + 1)
    ]


@pytest.mark.parametrize(
    ("api", "version"),
    every_version(join_group.API, sync_group.API, heartbeat.API, leave_group.API, offset_delete.API, list_groups.API),
)
def test_refusals_that_are_nothing_but_a_code_fit_every_version(api: ApiMessages, version: int) -> None:
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    response = answers.refused(code)
    if api is join_group.API:
        response = answers.join_refused(version, code, member_id="m")
    assert api.response.decode(api.response.encode(response, version), version)["error_code"] == code


@pytest.mark.parametrize(("api", "version"), every_version(offset_commit.API, describe_groups.API, delete_groups.API))
def test_refusals_of_each_item_fit_every_version(api: ApiMessages, version: int) -> None:
    code = ErrorCode.NOT_COORDINATOR
    if api is offset_commit.API:
        request = {"group_id": "g", "topics": [{"name": "t", "topic_id": b"i" * 16, "partitions": [{}]}]}
        decoded = api.request.decode(api.request.encode(request, version), version)
        told = api.response.encode(answers.commit_refused(decoded, code), version)
        item = api.response.decode(told, version)["topics"][0]["partitions"][0]
    elif api is describe_groups.API:
        told = api.response.encode({"groups": [answers.describe_refused("g", code)]}, version)
        item = api.response.decode(told, version)["groups"][0]
        assert item["group_id"] == "g"
    else:
        told = api.response.encode(answers.delete_refused(["g"], code), version)
        item = api.response.decode(told, version)["results"][0]
        assert item["group_id"] == "g"
    assert item["error_code"] == code
