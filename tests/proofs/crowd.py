"""A crowd of group members in one process, each with a connection of its own, speaking the bare protocol.

A member joins, takes its part, and sends heartbeats at a fixed rate; told to, it leaves and comes back; cut off, it
connects again and goes on. The crowd counts what a member would suffer from: heartbeats that are answered late, by the
time they were due and not by when they could be sent, and members that the broker gave up. Knows nothing of who the
broker is.
"""

import asyncio
import random
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from headrace.errors import ErrorCode
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages import find_coordinator, heartbeat, join_group, leave_group, sync_group
from headrace.protocol.schema import ApiMessages, Value

GROUP_MEMBERS: Final = 5
GROUP_PARTITIONS: Final = 12
SESSION_MS: Final = 10_000
REBALANCE_MS: Final = 60_000
HEARTBEAT_S: Final = 3.0
SETTLE_S_MAX: Final = 120.0
_AGAIN_S: Final = 0.1
_LOOK_S: Final = 0.02
_SUBSCRIPTION: Final = bytes.fromhex("0000000000010005") + b"crowd" + bytes.fromhex("ffffffff")
_ABSENT: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}
_LOST: Final = (ConnectionError, asyncio.IncompleteReadError, TimeoutError)


class Connection:
    """One request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client_id: str) -> None:
        self._reader, self._writer, self._client_id = reader, writer, client_id

    async def ask(self, api: ApiMessages, version: int, request: Value) -> Value:
        header = encode_request_header(
            api_key=api.key, api_version=version, correlation_id=1, client_id=self._client_id
        )
        body = header + api.request.encode(request, version)
        self._writer.write(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", await self._reader.readexactly(4))
        answer = await self._reader.readexactly(size)
        _, position = parse_response_header(answer, api_key=api.key, api_version=version)
        return api.response.decode(answer, version, position)

    def close(self) -> None:
        self._writer.close()


class Beats(NamedTuple):
    """Heartbeats over some time: how many, and how long after they were due they were answered."""

    answered: int
    late_ms_p50: float
    late_ms_p99: float
    late_ms_max: float


class Member:
    def __init__(self, crowd: "Crowd", group: str, number: int) -> None:
        self.group = group
        self.generation = -1
        self.part: frozenset[int] = frozenset()
        self.is_settled = False
        self.heard_s = 0.0  # When it was last answered as a member.
        self._crowd = crowd
        self._name = f"{group}-{number}"
        self._id = ""
        self._told_to_leave = asyncio.Event()

    def leave_and_come_back(self) -> None:
        self.is_settled = False
        self._told_to_leave.set()

    async def live(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with self._crowd.connection(self._name) as connection:
                    while True:
                        if not self.is_settled:
                            await self._join(connection)
                        await self._beat(connection)
            except _LOST:
                await asyncio.sleep(_AGAIN_S)

    async def _join(self, connection: Connection) -> None:
        while not self.is_settled:
            joined = await connection.ask(join_group.API, 9, self._join_request())
            code = ErrorCode(joined["error_code"])
            if code is ErrorCode.MEMBER_ID_REQUIRED:
                self._id = joined["member_id"]
            elif code is ErrorCode.NONE:
                await self._take_part(connection, joined)
            else:
                await self._recover(code)

    async def _take_part(self, connection: Connection, joined: Value) -> None:
        self._id, self.generation = joined["member_id"], joined["generation_id"]
        members = [one["member_id"] for one in joined["members"]]  # Known to the leader alone.
        parts = [
            {"member_id": member_id, "assignment": bytes(range(GROUP_PARTITIONS)[index :: len(members)])}
            for index, member_id in enumerate(members)
        ]
        request = {
            **self._as_member(),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": parts,
        }
        synced = await connection.ask(sync_group.API, 5, request)
        code = ErrorCode(synced["error_code"])
        if code is ErrorCode.NONE:
            self.part = frozenset(synced["assignment"])
            self.heard_s = time.monotonic()
            self.is_settled = True
        else:
            await self._recover(code)

    async def _beat(self, connection: Connection) -> None:
        """Heartbeats, until something has to be done."""
        due_s = time.monotonic() + random.random() * HEARTBEAT_S
        while True:
            try:
                await asyncio.wait_for(self._told_to_leave.wait(), max(due_s - time.monotonic(), 0))
            except TimeoutError:
                pass
            else:
                await self._leave(connection)
                return
            answer = await connection.ask(heartbeat.API, 4, self._as_member())
            code = ErrorCode(answer["error_code"])
            if code is not ErrorCode.NONE:
                self.is_settled = code in _ABSENT  # Who has no coordinator is a member still, as far as it knows.
                await self._recover(code)
                if not self.is_settled:
                    return
                continue
            now_s = time.monotonic()
            self._crowd.note_beat(late_s=now_s - due_s, silence_s=now_s - self.heard_s)
            self.heard_s = now_s
            due_s += HEARTBEAT_S

    async def _leave(self, connection: Connection) -> None:
        self._told_to_leave.clear()
        self.is_settled = False
        request = {"group_id": self.group, "members": [{"member_id": self._id}]}
        await connection.ask(leave_group.API, 5, request)
        self._id, self.generation, self.part = "", -1, frozenset()

    async def _recover(self, code: ErrorCode) -> None:
        """What a client does with an error: join again, under a new id if it must, or ask again a little later."""
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._crowd.given_up += 1
            self._id = ""
        elif code in _ABSENT:
            await asyncio.sleep(_AGAIN_S)
        else:
            assert code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION), code.name

    def _as_member(self) -> Value:
        return {"group_id": self.group, "generation_id": self.generation, "member_id": self._id}

    def _join_request(self) -> Value:
        return {
            "group_id": self.group,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "member_id": self._id,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": _SUBSCRIPTION}],
        }


class Crowd:
    def __init__(self, bootstrap: str, members: int) -> None:
        assert members % GROUP_MEMBERS == 0
        self._host, port = bootstrap.rsplit(":", 1)
        self._port = int(port)
        self.given_up = 0
        self.silence_s_max = 0.0  # The longest that a member waited to be answered as one.
        self._late_s: list[float] = []
        self.groups: dict[str, list[Member]] = {}
        for number in range(members):
            group = f"crowd-{number // GROUP_MEMBERS}"
            self.groups.setdefault(group, []).append(Member(self, group, number % GROUP_MEMBERS))
        self._lives: list[asyncio.Task[None]] = []

    @property
    def members(self) -> list[Member]:
        return [member for group in self.groups.values() for member in group]

    @asynccontextmanager
    async def connection(self, client_id: str) -> AsyncIterator[Connection]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        connection = Connection(reader, writer, client_id)
        try:
            yield connection
        finally:
            connection.close()

    async def wake(self) -> None:
        """Until the broker coordinates every one of the groups: what it needs for that is made on demand."""
        async with self.connection("crowd") as connection:
            for group in self.groups:
                while True:
                    found = await connection.ask(find_coordinator.API, 3, {"key": group, "key_type": 0})
                    stranger = {"group_id": group, "generation_id": 0, "member_id": "stranger"}
                    known = await connection.ask(heartbeat.API, 4, stranger)
                    if not {found["error_code"], known["error_code"]} & _ABSENT:
                        break
                    await asyncio.sleep(_AGAIN_S)

    def enter(self) -> None:
        """Everybody connects and joins at once."""
        self._lives = [asyncio.create_task(member.live()) for member in self.members]

    async def settle(self) -> float:
        """Until every group is whole, of one generation, and shared out; how many seconds that took."""
        began_s = time.monotonic()
        await self.wait_until(self._is_settled)
        return time.monotonic() - began_s

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + SETTLE_S_MAX
        while not is_so():
            for life in self._lives:
                if life.done():
                    life.result()  # A member that ended tells why.
            left = sum(not member.is_settled for member in self.members)
            assert time.monotonic() < deadline_s, f"{left} members are not settled"
            await asyncio.sleep(_LOOK_S)

    def _is_settled(self) -> bool:
        for members in self.groups.values():
            if not all(member.is_settled for member in members):
                return False
            if len({member.generation for member in members}) != 1:
                return False
            parts = sorted(partition for member in members for partition in member.part)
            assert parts == list(range(GROUP_PARTITIONS)), f"{members[0].group} is shared out as {parts}"
        return True

    def note_beat(self, *, late_s: float, silence_s: float) -> None:
        self._late_s.append(late_s)
        self.silence_s_max = max(self.silence_s_max, silence_s)

    def take_beats(self) -> Beats:
        """Since they were last taken."""
        late, self._late_s = sorted(self._late_s), []
        if not late:
            return Beats(0, 0.0, 0.0, 0.0)

        def quantile_ms(share: float) -> float:
            return 1000 * late[min(int(share * len(late)), len(late) - 1)]

        return Beats(len(late), quantile_ms(0.5), quantile_ms(0.99), 1000 * late[-1])

    async def disperse(self) -> None:
        for life in self._lives:
            life.cancel()
        for ended in await asyncio.gather(*self._lives, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended
