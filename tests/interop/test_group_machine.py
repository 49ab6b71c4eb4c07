"""The group machine against Apache Kafka's coordinator: random conversations with both, answer by answer.

Four clients of one group, two of them static, join, sync, send heartbeats, commit, leave and lie, in versions picked at
random; an administrator looks on. After every request both coordinators must have answered the same clients the same
things, and must keep the same clients waiting. Member ids differ; they are compared by who was given them.

Left out, because we differ on purpose: who leaves while its SyncGroup waits is answered here, and never by Kafka; who
was given an id and leaves without using it disturbs nobody here, and in Kafka may cause a rebalance; a JoinGroup or
OffsetCommit that is refused founds no group here. Left out as well, because Kafka leaves it to chance: who leads when a
leader leaves several others.
"""

import random
import re
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from headrace.coordination import answers
from headrace.coordination.decision import Decision, Now
from headrace.coordination.group import Group, GroupState
from headrace.coordination.members import Caller, Ticket
from headrace.coordination.utf16 import offsets_partition
from headrace.errors import ErrorCode
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import (
    create_topics,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from headrace.protocol.schema import ApiMessages, Value
from tests.oracle.kafka import ApacheKafka
from tests.unit.coordination.driven_groups import AT_ONCE, DrivenGroups, subscription

CLIENT_ID = "client"
TOPICS = ("machine-a", "machine-b")
PARTITIONS = 3
STEPS = 45
SEEDS = 40
# Whoever is not answered within the first waits, as it seems; who should not wait is given the second.
PATIENCE_S, PATIENCE_S_MAX = 0.04, 5.0
LAG_S_MAX = 1.0
SESSION_MS, REBALANCE_MS = 60_000, 120_000
_MADE_UP_ID = re.compile(r"-[0-9a-f]{8}-[0-9a-f-]{27}$")

Decide = Callable[[Value, Caller, Now], Decision]
# What a client asks: the same of both, but for the ids that each of them gave out.
Body = Callable[[Callable[[str], str]], Value]


class Wire:
    """One connection to Kafka, with at most one request under way."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self._socket = socket.create_connection((kafka.host, kafka.port))
        self._received = b""
        self._asked: tuple[ApiMessages, int] | None = None

    def send(self, api: ApiMessages, version: int, body: Value) -> None:
        assert self._asked is None
        header = encode_request_header(api_key=api.key, api_version=version, correlation_id=1, client_id=CLIENT_ID)
        data = header + api.request.encode(body, version)
        self._socket.sendall(struct.pack(">i", len(data)) + data)
        self._asked = (api, version)

    def wait(self, patience_s: float) -> Value | None:
        """The answer, or None where it does not come in time."""
        assert self._asked is not None
        api, version = self._asked
        until = time.monotonic() + patience_s
        while (left_s := until - time.monotonic()) > 0:
            if len(self._received) >= 4:
                (size,) = struct.unpack_from(">i", self._received)
                if len(self._received) >= 4 + size:
                    data, self._received = self._received[4 : 4 + size], self._received[4 + size :]
                    _, position = parse_response_header(data, api_key=api.key, api_version=version)
                    self._asked = None
                    return api.response.decode(data, version, position)
            self._socket.settimeout(left_s)
            try:
                data = self._socket.recv(1 << 20)
            except TimeoutError:
                return None
            assert data, "Kafka closed the connection"
            self._received += data
        return None

    def ask(self, api: ApiMessages, version: int, body: Value) -> Value:
        self.send(api, version, body)
        answer = self.wait(PATIENCE_S_MAX)
        assert answer is not None
        return answer

    def close(self) -> None:
        self._socket.close()


class Client:
    """What one client knows, in terms of names: who it was told it is is one, whatever the id."""

    def __init__(self, number: int, wire: Wire, instance_id: str | None) -> None:
        self.number, self.wire, self.instance_id = number, wire, instance_id
        self.name, self.generation = "", -1
        self.members: list[str] = []  # Those it was told of as the leader.
        self.has_to_sync = False
        self.protocols = {"range": subscription(TOPICS[0])}
        self.ticket: Ticket | None = None
        self.asked = ""


class Conversation:
    def __init__(self, kafka: ApacheKafka, seed: int) -> None:
        self.chance = random.Random(seed)
        self.group_id = f"machine-{seed}-{time.time_ns()}"
        self.ours = DrivenGroups(AT_ONCE, seed=seed)
        # Names of ids, and ids of names, there and here.
        self.names: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.ids: tuple[dict[str, str], dict[str, str]] = ({}, {})
        self.clients = [Client(number, Wire(kafka), f"static-{number}" if number > 1 else None) for number in range(4)]
        self.admin = Wire(kafka)
        self.compared = 0

    def close(self) -> None:
        for wire in (self.admin, *(client.wire for client in self.clients)):
            wire.close()

    def run(self) -> None:
        for _ in range(STEPS):
            client = self.chance.choice(self.clients)
            if client.ticket is not None:
                self.look_on()
                continue
            if client.has_to_sync and self.chance.random() < 0.6:
                self.sync(client)
                continue
            do = self.chance.choices(
                (self.join, self.sync, self.beat, self.commit, self.leave, self.lie, self.delete_offsets, self.delete),
                (30, 30, 8, 12, 5, 5, 2, 1),
            )[0]
            do(client)
            if self.chance.random() < 0.2:
                self.look_on()

    # Both at once

    def ask(
        self, client: Client, api: ApiMessages, version: int, decide: Decide, body: Body, *, what: str = ""
    ) -> None:
        there, here = (lambda name, ids=ids: ids.get(name, name) for ids in self.ids)
        client.wire.send(api, version, body(there))
        client.ticket = self.ours.ask(api, version, decide, body(here), client_id=CLIENT_ID)
        client.asked = f"{api.name} v{version} {what} of client {client.number}"
        self.hear()

    def hear(self) -> None:
        """Everybody who is answered here must be there, and nobody else."""
        for client in self.clients:
            if client.ticket is None:
                continue
            here = self.ours.answers.get(client.ticket)
            there = client.wire.wait(PATIENCE_S if here is None else PATIENCE_S_MAX)
            if here is None:
                assert there is None, f"{client.asked}: Kafka answers {there}"
                continue
            assert there is not None, f"{client.asked}: Kafka waits; we answer {here}"
            self.name(there.get("member_id"), here.get("member_id"))
            self.compare(client.asked, there, here)
            client.ticket = None
            self.take_in(client, self.named(there, 0))

    def name(self, there: str | None, here: str | None) -> None:
        if there and here and there not in self.names[0]:
            name = f"<{len(self.ids[0])}>"
            for side, member_id in enumerate((there, here)):
                self.names[side][member_id] = name
                self.ids[side][name] = member_id

    def compare(self, asked: str, there: Value, here: Value) -> None:
        self.compared += 1
        ours, kafkas = self.named(here, 1), self.named(there, 0)
        assert ours == kafkas, f"{asked}:\nours    {ours}\nKafka's {kafkas}"

    def named(self, item: Any, side: int) -> Any:
        """With names for ids, without order, which Kafka leaves to chance."""
        match item:
            case dict():
                return {key: self.named(value, side) for key, value in item.items() if key != "throttle_time_ms"}
            case list():
                return sorted((self.named(value, side) for value in item), key=repr)
            case str():
                return self.names[side].get(item) or _MADE_UP_ID.sub("-?", item)
            case _:
                return item

    def take_in(self, client: Client, response: Value) -> None:
        code = response.get("error_code")
        if client.asked.startswith("JoinGroup v") and "a lie" not in client.asked:
            if code in {ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED}:
                client.name = response["member_id"]
            if code == ErrorCode.NONE:
                client.generation, client.has_to_sync = response["generation_id"], True
                client.members = [member["member_id"] for member in response["members"]]
        gone = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
        if code in gone and client.asked.startswith(("JoinGroup", "SyncGroup")) and "a lie" not in client.asked:
            client.name = ""

    # What clients ask

    def version(self, api: ApiMessages, client: Client, *, instances_since: int, version_max: int) -> int:
        return self.chance.randint(instances_since if client.instance_id else api.version_min, version_max)

    def join(self, client: Client) -> None:
        if self.chance.random() < 0.3:
            client.protocols = self.chance.choice(
                [
                    {"range": subscription(TOPICS[0])},
                    {"range": subscription(TOPICS[0]), "sticky": subscription(TOPICS[0])},
                    {"range": subscription(*TOPICS), "sticky": b""},
                    {"nobody else's": b""} if self.chance.random() < 0.2 else {"range": b""},
                ]
            )
        protocols = [{"name": name, "metadata": metadata} for name, metadata in client.protocols.items()]
        is_back = client.instance_id is not None and self.chance.random() < 0.15
        name = "" if is_back else client.name
        session_ms = SESSION_MS if self.chance.random() < 0.97 else 10
        protocol_type = "consumer" if self.chance.random() < 0.98 else "connect"
        if not self.is_there and "range" not in client.protocols:
            return
        if not self.is_there and session_ms != SESSION_MS:
            return

        def body(id_of: Callable[[str], str]) -> Value:
            return {
                "group_id": self.group_id,
                "session_timeout_ms": session_ms,
                "rebalance_timeout_ms": REBALANCE_MS,
                "member_id": id_of(name),
                "group_instance_id": client.instance_id,
                "protocol_type": protocol_type,
                "protocols": protocols,
            }

        version = self.version(join_group.API, client, instances_since=5, version_max=9)
        what = "anew" if is_back else ""
        self.ask(client, join_group.API, version, self.ours.coordinator.decide_join, body, what=what)

    @property
    def group(self) -> Group | None:
        return self.ours.coordinator.group(self.group_id)

    @property
    def is_there(self) -> bool:
        return self.group is not None

    def sync(self, client: Client) -> None:
        client.has_to_sync = False
        version = self.version(sync_group.API, client, instances_since=3, version_max=5)
        generation = client.generation + self.chance.choices((0, -1, 1), (95, 3, 2))[0]
        claims: Value = {}
        if version >= 5:
            claims["protocol_type"] = self.chance.choices(("consumer", "connect", None), (90, 5, 5))[0]
            claims["protocol_name"] = self.chance.choices(("range", "sticky", None), (85, 10, 5))[0]
        parts = {name: b"part of " + name.encode() for name in client.members}

        def body(id_of: Callable[[str], str]) -> Value:
            return {
                "group_id": self.group_id,
                "generation_id": generation,
                "member_id": id_of(client.name),
                "group_instance_id": client.instance_id,
                "assignments": [{"member_id": id_of(name), "assignment": part} for name, part in parts.items()],
                **claims,
            }

        what = f"of generation {generation}"
        self.ask(client, sync_group.API, version, self.ours.coordinator.decide_sync, body, what=what)

    def beat(self, client: Client) -> None:
        generation = self.chance.choices((client.generation, -1, 0, 99), (80, 5, 5, 10))[0]

        def body(id_of: Callable[[str], str]) -> Value:
            return {
                "group_id": self.group_id,
                "generation_id": generation,
                "member_id": id_of(client.name),
                "group_instance_id": client.instance_id,
            }

        version = self.version(heartbeat.API, client, instances_since=3, version_max=4)
        self.ask(client, heartbeat.API, version, self.ours.coordinator.decide_heartbeat, body)

    def commit(self, client: Client) -> None:
        is_simple = self.chance.random() < 0.2
        generation = -1 if is_simple else client.generation - (self.chance.random() < 0.15)
        metadata = self.chance.choice((None, "", "m", "x" * 4_097 if self.is_there else ""))
        item = {
            "partition_index": self.chance.randrange(PARTITIONS),
            "committed_offset": self.chance.randrange(1_000),
            "committed_metadata": metadata,
        }
        topic = self.chance.choice(TOPICS)

        def body(id_of: Callable[[str], str]) -> Value:
            return {
                "group_id": self.group_id,
                "generation_id_or_member_epoch": generation,
                "member_id": "" if is_simple else id_of(client.name),
                "group_instance_id": None if is_simple else client.instance_id,
                "topics": [{"name": topic, "partitions": [item]}],
            }

        version = self.version(offset_commit.API, client, instances_since=7, version_max=9)
        what = f"of generation {generation}"
        self.ask(client, offset_commit.API, version, self.ours.coordinator.decide_commit, body, what=what)

    def leave(self, client: Client) -> None:
        leaver, group = self.chance.choice(self.clients), self.group
        member_id = self.ids[1].get(leaver.name, "")
        instance_id = leaver.instance_id
        by_instance = instance_id is not None and self.chance.random() < 0.5
        if by_instance and group is not None and (found := group.instance(instance_id or "")) is not None:
            member_id = found.member_id
        if group is not None:
            leads_many = group.leader_id == member_id and len(group.members) > 2
            is_pending = member_id in group.pending_joins and group.state is not GroupState.PREPARING
            if leads_many or is_pending or (leaver.asked.startswith("SyncGroup") and leaver.ticket is not None):
                return
        name = self.chance.choices(("" if by_instance else leaver.name, "nobody"), (80, 20))[0]

        def body(id_of: Callable[[str], str]) -> Value:
            member = {"member_id": id_of(name), "group_instance_id": None if name == "nobody" else instance_id}
            if version < 3:
                return {"group_id": self.group_id, "member_id": member["member_id"]}
            return {"group_id": self.group_id, "members": [member]}

        version = self.version(leave_group.API, leaver, instances_since=3, version_max=5)
        self.ask(client, leave_group.API, version, self.ours.coordinator.decide_leave, body)

    def lie(self, client: Client) -> None:
        coordinator = self.ours.coordinator
        group_id = self.chance.choice((self.group_id, "no group", ""))
        liar: Value = {
            "group_id": group_id,
            "member_id": self.chance.choice(("liar", self.ids[0].get(client.name, "") and "somebody else")),
            "group_instance_id": self.chance.choice((None, "static-3", "static-9")),
        }
        if not liar["member_id"]:
            return
        lies: list[tuple[ApiMessages, Value, Decide]] = [
            (
                join_group.API,
                {
                    "session_timeout_ms": SESSION_MS,
                    "rebalance_timeout_ms": REBALANCE_MS,
                    "protocol_type": "consumer",
                    "protocols": [{"name": "range", "metadata": b""}],
                },
                coordinator.decide_join,
            ),
            (sync_group.API, {"generation_id": 1}, coordinator.decide_sync),
            (heartbeat.API, {"generation_id": 1}, coordinator.decide_heartbeat),
            (
                offset_commit.API,
                {
                    "generation_id_or_member_epoch": 1,
                    "topics": [{"name": TOPICS[0], "partitions": [{"partition_index": 0}]}],
                },
                coordinator.decide_commit,
            ),
        ]
        api, more, decide = self.chance.choice(lies)
        versions = {"JoinGroup": (5, 9), "SyncGroup": (3, 4), "Heartbeat": (3, 4), "OffsetCommit": (7, 9)}
        self.ask(
            client, api, self.chance.randint(*versions[api.name]), decide, lambda _: {**liar, **more}, what="a lie"
        )

    def delete_offsets(self, client: Client) -> None:
        body = {
            "group_id": self.chance.choice((self.group_id, self.group_id, "no group", "")),
            "topics": [
                {
                    "name": self.chance.choice(TOPICS),
                    "partitions": [{"partition_index": index} for index in range(PARTITIONS)],
                }
            ],
        }
        self.ask(client, offset_delete.API, 0, self.ours.coordinator.decide_delete_offsets, lambda _: body)

    def delete(self, client: Client) -> None:
        def decide(request: Value, caller: Caller, now: Now) -> Decision:
            return self.ours.coordinator.decide_delete_groups(request["groups_names"], caller, now)

        version = self.chance.randint(0, 2)
        self.ask(client, delete_groups.API, version, decide, lambda _: {"groups_names": [self.group_id]})

    # What an administrator sees

    def look_on(self) -> None:
        look = self.chance.choice((self.fetched, self.described, self.listed))
        api, version, body, response = look()
        here = api.response.decode(api.response.encode(response, version), version)
        # Kafka shows what is durable, and answers who joins a moment before the group is.
        until = time.monotonic() + LAG_S_MAX
        while True:
            there = self.admin.ask(api, version, body)
            if api is list_groups.API:
                there["groups"] = [group for group in there["groups"] if group["group_id"] == self.group_id]
            if self.named(there, 0) == self.named(here, 1) or time.monotonic() > until:
                break
            time.sleep(0.01)
        self.compare(f"{api.name} v{version} {body}", there, here)

    def fetched(self) -> tuple[ApiMessages, int, Value, Value]:
        api, version = offset_fetch.API, self.chance.randint(1, 9)
        topics = None
        if version == 1 or self.chance.random() < 0.5:
            topics = [{"name": topic, "partition_indexes": [0, 2, 7]} for topic in TOPICS]
        body: Value = {"group_id": self.group_id, "topics": topics}
        if version >= 8:
            body = {"groups": [{"group_id": group_id, "topics": topics} for group_id in (self.group_id, "no group")]}
        request = api.request.decode(api.request.encode(body, version), version)
        found = [self.ours.coordinator.fetch_offsets(item) for item in answers.fetch_groups(request, version)]
        return api, version, body, answers.fetched(request, found, version)

    def described(self) -> tuple[ApiMessages, int, Value, Value]:
        version = self.chance.randint(0, 6)
        group_ids = [self.group_id, "no group"]
        found = [self.ours.coordinator.describe(group_id, version=version) for group_id in group_ids]
        return describe_groups.API, version, {"groups": group_ids}, {"groups": found}

    def listed(self) -> tuple[ApiMessages, int, Value, Value]:
        version = self.chance.randint(4, 5)
        states = self.chance.choice(([], ["stable"], ["Empty", "PreparingRebalance"], ["nonsense"]))
        types = self.chance.choice(([], ["classic"], ["Classic"], ["consumer"])) if version >= 5 else []
        found = self.ours.coordinator.list_groups(states=states, types=types)
        return list_groups.API, version, {"states_filter": states, "types_filter": types}, {"groups": found}


@pytest.fixture(scope="module")
def coordinating_kafka(apache: ApacheKafka) -> Iterator[ApacheKafka]:
    """With the topics that are committed, and a coordinator that is awake."""
    wire = Wire(apache)
    topics = [{"name": topic, "num_partitions": PARTITIONS, "replication_factor": 1} for topic in TOPICS]
    wire.ask(create_topics.API, 5, {"topics": topics, "timeout_ms": 10_000})
    until = time.monotonic() + 60
    while wire.ask(find_coordinator.API, 2, {"key": "any", "key_type": 0})["error_code"] != 0:
        assert time.monotonic() < until, "Kafka does not coordinate groups"
        time.sleep(0.2)
    # One group for each of its partitions says when all are there.
    groups = {offsets_partition(str(number), partitions=50): str(number) for number in range(1_000)}
    for group_id in groups.values():
        stranger = {"group_id": group_id, "member_id": "stranger"}
        while wire.ask(sync_group.API, 0, stranger)["error_code"] != ErrorCode.UNKNOWN_MEMBER_ID:
            assert time.monotonic() < until, "Kafka does not load its groups"
            time.sleep(0.05)
    yield apache
    wire.close()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_kafka_says_the_same(coordinating_kafka: ApacheKafka, seed: int) -> None:
    conversation = Conversation(coordinating_kafka, seed)
    try:
        conversation.run()
    finally:
        conversation.close()
    assert conversation.compared > STEPS // 2
