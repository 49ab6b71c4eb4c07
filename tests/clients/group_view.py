"""A group as its broker tells of it to a third party: to an admin client that nobody here wrote, and on the wire."""

from typing import Any, NamedTuple

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from headrace.errors import ErrorCode
from headrace.protocol.messages import describe_groups, heartbeat
from tests.hostile.target import Wire

ANSWER_S_MAX = 10.0
_GENERATION_MAX = 200


class GroupView(NamedTuple):
    state: str  # As Kafka calls it.
    owned: dict[str, frozenset[int]]  # By the client id of each member.
    instances: dict[str, str | None]


class Onlooker:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.reconnect()

    def reconnect(self) -> None:
        """This admin client does not recover from a restart of its broker, whichever that is."""
        self._admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})

    def look(self, group: str) -> GroupView | None:
        """None where the broker knows no such group, or cannot tell yet."""
        try:
            asked = self._admin.describe_consumer_groups([group], request_timeout=ANSWER_S_MAX)
            found: Any = asked[group].result()
        except KafkaException:
            return None
        return GroupView(
            found.state.name,
            {one.client_id: frozenset(tp.partition for tp in _assigned(one)) for one in found.members},
            {one.client_id: one.group_instance_id for one in found.members},
        )

    def committed(self, group: str) -> dict[int, int]:
        """By partition, of the one topic that a group of these scenarios reads."""
        wanted = [ConsumerGroupTopicPartitions(group)]
        asked = self._admin.list_consumer_group_offsets(wanted, request_timeout=ANSWER_S_MAX)
        found: Any = asked[group].result()
        return {one.partition: one.offset for one in found.topic_partitions}

    def generation(self, group: str) -> int | None:
        """No API tells it. A member's heartbeat is refused unless it names the right one, so it is guessed. None while
        there are no members, or none that are settled."""
        with Wire(self._bootstrap) as wire:
            described = wire.call(describe_groups.API.key, 4, {"groups": [group]})["groups"][0]
            member_id = next((member["member_id"] for member in described["members"]), None)
            if member_id is None:
                return None
            for generation in range(1, _GENERATION_MAX):
                beat = {"group_id": group, "generation_id": generation, "member_id": member_id}
                code = wire.call(heartbeat.API.key, 3, beat)["error_code"]
                if code == ErrorCode.NONE:
                    return generation
                if code != ErrorCode.ILLEGAL_GENERATION:
                    return None
        raise AssertionError(f"{group} has lived through more than {_GENERATION_MAX} generations")


def _assigned(member: Any) -> list[Any]:
    return list(member.assignment.topic_partitions) if member.assignment else []
