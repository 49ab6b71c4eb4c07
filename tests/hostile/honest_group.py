"""A healthy group beside an attack: two members, one of them static, that must not notice.

Both send heartbeats, one commits and reads back what it committed, again and again. A heartbeat that is answered with
anything but NONE, a commit that is refused or gone, a generation that ended: any of it is the attack's doing.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from headrace.errors import ErrorCode
from headrace.protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    metadata,
    offset_commit,
    offset_fetch,
    sync_group,
)
from headrace.protocol.schema import Value
from tests.hostile.target import ANSWER_S_MAX, TOPIC, Wire

GROUP: Final = "honest-group"
INSTANCE: Final = "honest-instance"
PROTOCOL: Final = "range"
# A group is coordinated at once, or after its broker has made and read its own topics.
AWAKE_S_MAX: Final = 60.0
SESSION_MS: Final = 30_000
_NOT_YET: Final = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
# Version 0 of a consumer's subscription to no topic, and an assignment of nothing.
SUBSCRIPTION: Final = bytes.fromhex("000000000000ffffffff")


def join_request(group: str, member_id: str = "", **more: object) -> Value:
    return {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": PROTOCOL, "metadata": SUBSCRIPTION}],
        **more,
    }


class HonestGroup:
    """Lives in a thread of its own until stopped. Its generation and ids are known once it was entered."""

    def __init__(self, bootstrap: str, group: str = GROUP) -> None:
        self.group = group
        self.bootstrap = bootstrap
        self.generation = 0
        self.dynamic_id = self.static_id = ""
        self.slowest_s = 0.0
        self.rounds = 0
        self.failure: BaseException | None = None
        self._wires = (Wire(bootstrap), Wire(bootstrap))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    # --- Joining -----------------------------------------------------------------------------------------------

    def _join(self) -> None:
        first, second = self._wires
        wake(first, self.group)
        asked = first.call(join_group.API.key, 9, join_request(self.group))
        assert asked["error_code"] == ErrorCode.MEMBER_ID_REQUIRED, asked
        self.dynamic_id = asked["member_id"]
        alone = first.call(join_group.API.key, 9, join_request(self.group, self.dynamic_id))
        assert alone["error_code"] == ErrorCode.NONE, alone
        self.generation = alone["generation_id"]
        self._sync(alone)

        second.ask(join_group.API.key, 9, join_request(self.group, group_instance_id=INSTANCE))
        self._until(lambda: self._beat(first, self.dynamic_id) == ErrorCode.REBALANCE_IN_PROGRESS)
        joined = first.call(join_group.API.key, 9, join_request(self.group, self.dynamic_id))
        self.static_id = second.answer(join_group.API.key, 9)["member_id"]
        self.generation = joined["generation_id"]
        second.ask(sync_group.API.key, 5, self._sync_request(self.static_id))
        self._sync(joined)
        assert second.answer(sync_group.API.key, 5)["error_code"] == ErrorCode.NONE

    def _sync(self, joined: Value) -> None:
        parts = [{"member_id": one["member_id"], "assignment": SUBSCRIPTION} for one in joined["members"]]
        request = self._sync_request(self.dynamic_id) | {"assignments": parts}
        synced = self._wires[0].call(sync_group.API.key, 5, request)
        assert synced["error_code"] == ErrorCode.NONE, synced

    def _sync_request(self, member_id: str) -> Value:
        return {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocol_name": PROTOCOL,
            "assignments": [],
        }

    @staticmethod
    def _until(is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + AWAKE_S_MAX
        while not is_so():
            assert time.monotonic() < deadline_s
            time.sleep(0.02)

    # --- Living ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                began_s = time.monotonic()
                self._round(self.rounds)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                self.rounds += 1
                self._stop.wait(0.02)
        except BaseException as error:
            self.failure = error

    def _round(self, number: int) -> None:
        first, second = self._wires
        for wire, member_id, instance_id in ((first, self.dynamic_id, None), (second, self.static_id, INSTANCE)):
            code = self._beat(wire, member_id, instance_id)
            assert code == ErrorCode.NONE, f"a healthy member was told {ErrorCode(code).name}"
        committed = first.call(offset_commit.API.key, 8, self.commit_request(number))
        assert committed["topics"][0]["partitions"][0]["error_code"] == ErrorCode.NONE, committed
        asked = {"group_id": self.group, "topics": [{"name": TOPIC, "partition_indexes": [0]}]}
        found = second.call(offset_fetch.API.key, 7, asked)["topics"][0]["partitions"][0]
        assert found["committed_offset"] == number, found
        assert found["metadata"] == "honest", found

    def commit_request(self, offset: int, *, metadata: str = "honest") -> Value:
        item = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
        return {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.dynamic_id,
            "topics": [{"name": TOPIC, "partitions": [item]}],
        }

    def _beat(self, wire: Wire, member_id: str, instance_id: str | None = None) -> int:
        beat = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": member_id,
            "group_instance_id": instance_id,
        }
        code: int = wire.call(heartbeat.API.key, 4, beat)["error_code"]
        return code

    def wait_round(self) -> None:
        """Until it has been through everything once more, from now on."""
        rounds, deadline_s = self.rounds, time.monotonic() + ANSWER_S_MAX + 5
        while self.rounds < rounds + 2 and self.failure is None and time.monotonic() < deadline_s:
            time.sleep(0.005)
        self.check()
        assert self.rounds >= rounds + 2, "the healthy group stands still"

    def check(self) -> None:
        assert self.failure is None, self.failure
        assert self.slowest_s < ANSWER_S_MAX, f"a healthy member waited {self.slowest_s:.1f} s"

    def __enter__(self) -> Self:
        try:
            self._join()
        except BaseException:
            self._close()
            raise
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(ANSWER_S_MAX + 10)
        self._close()

    def _close(self) -> None:
        for wire in self._wires:
            wire.close()


def wake(wire: Wire, group: str) -> None:
    """Until there is the topic, a coordinator, and it answers for the group."""
    deadline_s = time.monotonic() + AWAKE_S_MAX
    while True:
        named = {"topics": [{"name": TOPIC}], "allow_auto_topic_creation": True}
        codes = {wire.call(metadata.API.key, 4, named)["topics"][0]["error_code"]}
        codes.add(wire.call(find_coordinator.API.key, 3, {"key": group, "key_type": 0})["error_code"])
        stranger = {"group_id": group, "generation_id": 1, "member_id": "stranger"}
        codes.add(wire.call(heartbeat.API.key, 4, stranger)["error_code"])
        if not codes & (_NOT_YET | {ErrorCode.LEADER_NOT_AVAILABLE}):
            return
        assert time.monotonic() < deadline_s, f"no coordinator: {codes}"
        time.sleep(0.1)
