"""Bad members: each gets Kafka's error, and the healthy group beside it does not notice."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import ErrorCode
from headrace.protocol.messages import (
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_fetch,
    sync_group,
)
from headrace.protocol.schema import Value
from headrace.testing.node_process import NodeProcess
from tests.hostile.frames import error_codes, framed, header
from tests.hostile.group_abuse import ABUSES, LONG_NAME
from tests.hostile.honest_group import HonestGroup, join_request
from tests.hostile.target import TOPIC, Wire, resident_mb
from tests.waiting import wait_until

SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory: Path = tmp_path_factory.mktemp("bad-groups")
    with NodeProcess(directory / "data", settings=SETTINGS) as process:
        yield process
        process.stop()


@pytest.fixture(scope="module")
def honest(node: NodeProcess) -> Iterator[HonestGroup]:
    with HonestGroup(node.bootstrap) as group:
        yield group
        group.wait_round()


@pytest.mark.parametrize("name", ABUSES)
def test_the_error_is_kafkas_and_costs_its_sender_alone(name: str, node: NodeProcess, honest: HonestGroup) -> None:
    abuse = ABUSES[name]
    with Wire(node.bootstrap) as wire:
        answer = wire.call(abuse.api.key, abuse.version, abuse.request(honest))
    assert error_codes(answer) - {ErrorCode.NONE} == {abuse.expected} - {ErrorCode.NONE}, answer
    honest.wait_round()


def test_what_was_refused_left_nothing_behind(node: NodeProcess, honest: HonestGroup) -> None:
    """Who was not let in founds no group; and who only looks at one does not either."""
    with Wire(node.bootstrap) as wire:
        wire.call(join_group.API.key, 9, join_request("refused", protocols=[]))
        asked = {"group_id": "refused", "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        wire.call(offset_fetch.API.key, 7, asked)
        listed = wire.call(list_groups.API.key, 5, {"states_filter": [], "types_filter": []})
    assert "refused" not in {group["group_id"] for group in listed["groups"]}
    honest.wait_round()


def test_a_group_of_10000_letters_lives_like_any_other(node: NodeProcess, honest: HonestGroup) -> None:
    """Its name fits where names are written. A member can join, is described, and leaves."""
    with Wire(node.bootstrap) as wire:
        generation, member_id = join_alone(wire, LONG_NAME, subscription=b"")
        beat = {"group_id": LONG_NAME, "generation_id": generation, "member_id": member_id}
        assert wire.call(heartbeat.API.key, 4, beat)["error_code"] == ErrorCode.NONE
        described = wire.call(describe_groups.API.key, 5, {"groups": [LONG_NAME]})["groups"][0]
        assert (described["group_state"], len(described["members"])) == ("Stable", 1)
        gone = {"group_id": LONG_NAME, "members": [{"member_id": member_id}]}
        assert error_codes(wire.call(leave_group.API.key, 5, gone)) == {ErrorCode.NONE}
    honest.wait_round()


def test_a_name_longer_than_any_string_closes_the_connection(node: NodeProcess, honest: HonestGroup) -> None:
    """Strings end at 32,767 bytes, also where the encoding could say more."""
    name = b"x" * 40_000
    length = bytes([(len(name) + 1) & 0x7F | 0x80, (len(name) + 1) >> 7 & 0x7F | 0x80, (len(name) + 1) >> 14])
    with Wire(node.bootstrap) as wire:
        wire.call(18, 0, {})
        wire.send(framed(header(heartbeat.API.key, 4) + b"\0" + length + name + b"\0" * 20))
        assert wire.receive() is None
    honest.wait_round()


@pytest.mark.parametrize("seed", range(5))
def test_garbage_for_a_subscription_is_its_groups_affair(seed: int, tmp_path: Path) -> None:
    """Nobody but the members of a group reads what they say of themselves, and what its leader gives them."""
    chance = random.Random(seed)
    garbage, parts = chance.randbytes(chance.randrange(1, 500)), chance.randbytes(chance.randrange(1, 500))
    with NodeProcess(tmp_path / "data", settings=SETTINGS) as node:
        with HonestGroup(node.bootstrap) as honest, Wire(node.bootstrap) as wire:
            join_alone(wire, "garbage", subscription=garbage, assignment=parts)
            check_described(wire, garbage, parts)
            honest.wait_round()
        # It is written as it came, and read so again.
        node.kill()
        node.start()
        with Wire(node.bootstrap) as wire:
            check_described(wire, garbage, parts)
        node.stop()


def check_described(wire: Wire, subscription: bytes, assignment: bytes) -> None:
    def describe() -> list[Value]:
        groups: list[Value] = wire.call(describe_groups.API.key, 5, {"groups": ["garbage", "honest-group"]})["groups"]
        return groups

    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    wait_until(lambda: loading not in {group["error_code"] for group in describe()}, "what was written is read again")
    garbage, honest = describe()
    (member,) = garbage["members"]
    assert (member["member_metadata"], member["member_assignment"]) == (subscription, assignment)
    assert len(honest["members"]) == 2


def test_a_leader_that_makes_up_members_harms_nobody(node: NodeProcess, honest: HonestGroup) -> None:
    """Whom it invents, nobody misses; whom it forgets gets nothing; whose members it names, keep what they have."""
    with Wire(node.bootstrap) as wire:
        invented = [("invented", b"x"), (honest.dynamic_id, b"stolen"), (honest.static_id, b"stolen")]
        generation, member_id = join_alone(wire, "inventive", subscription=b"s", others=invented)
        described = wire.call(describe_groups.API.key, 5, {"groups": ["inventive", honest.group]})["groups"]
        assert [one["member_id"] for one in described[0]["members"]] == [member_id]
        assert b"stolen" not in {one["member_assignment"] for one in described[1]["members"]}
        assert generation == 1
    honest.wait_round()


def test_an_assignment_beyond_the_size_of_a_record_is_refused(node: NodeProcess, honest: HonestGroup) -> None:
    with Wire(node.bootstrap) as wire:
        joined = ask_to_join(wire, "huge", subscription=b"s" * 20_000)
        request = sync_request("huge", joined, [(joined["member_id"], b"x" * 1_040_000)])
        assert wire.call(sync_group.API.key, 5, request)["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    honest.wait_round()


def test_asking_for_ids_without_end_takes_little_memory(node: NodeProcess, honest: HonestGroup) -> None:
    before_mb = resident_mb(node.pid)
    codes = set()
    with Wire(node.bootstrap) as wire:
        for _ in range(30):
            for _ in range(500):
                wire.ask(join_group.API.key, 9, join_request("flooded"))
            codes |= {wire.answer(join_group.API.key, 9)["error_code"] for _ in range(500)}
    assert codes == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.GROUP_MAX_SIZE_REACHED}
    assert resident_mb(node.pid) - before_mb < 30
    honest.wait_round()


# --- A member by hand ------------------------------------------------------------------------------------------------


def join_alone(
    wire: Wire,
    group: str,
    *,
    subscription: bytes,
    assignment: bytes = b"",
    others: list[tuple[str, bytes]] | None = None,
) -> tuple[int, str]:
    """The only member of a group, with its assignment; its generation and id."""
    joined = ask_to_join(wire, group, subscription=subscription)
    request = sync_request(group, joined, [(joined["member_id"], assignment), *(others or [])])
    synced = wire.call(sync_group.API.key, 5, request)
    assert (synced["error_code"], synced["assignment"]) == (ErrorCode.NONE, assignment)
    return joined["generation_id"], joined["member_id"]


def ask_to_join(wire: Wire, group: str, *, subscription: bytes) -> Value:
    protocols = [{"name": "range", "metadata": subscription}]
    asked = wire.call(join_group.API.key, 9, join_request(group, protocols=protocols))
    assert asked["error_code"] == ErrorCode.MEMBER_ID_REQUIRED
    joined = wire.call(join_group.API.key, 9, join_request(group, asked["member_id"], protocols=protocols))
    assert joined["error_code"] == ErrorCode.NONE, joined
    return joined


def sync_request(group: str, joined: Value, parts: list[tuple[str, bytes]]) -> Value:
    return {
        "group_id": group,
        "generation_id": joined["generation_id"],
        "member_id": joined["member_id"],
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": member_id, "assignment": part} for member_id, part in parts],
    }
