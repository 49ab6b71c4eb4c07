"""Changes of the catalogue on a disk that does not let them be made. What clients are told: test_handlers_topics.py."""

import errno

import pytest

from headrace.errors import ErrorCode
from headrace.node.catalogue import PARTITIONS_PER_TURN, RETRY_US
from headrace.sim.disk import Operation, Survival
from tests.unit.node.driven_node import DrivenNode

MANY = 2 * PARTITIONS_PER_TURN + 3


def create(driven: DrivenNode, name: str = "new", *, partitions: int = MANY) -> int:
    topic = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    (made,) = driven.ask("CreateTopics", 7, topics=[topic])["topics"]
    code: int = made["error_code"]
    return code


def grow(driven: DrivenNode, name: str, *, to: int) -> int:
    topic = {"name": name, "count": to, "assignments": None}
    (grown,) = driven.ask("CreatePartitions", 3, topics=[topic])["results"]
    code: int = grown["error_code"]
    return code


def delete(driven: DrivenNode, name: str) -> None:
    (gone,) = driven.ask("DeleteTopics", 5, topic_names=[name])["responses"]
    assert gone["error_code"] == 0


def folders(driven: DrivenNode) -> list[str]:
    """Folders of the new topic's partitions, those included that are on their way out."""
    return [name for name in driven.disk.list(".") if name.startswith("new-")]


def wait(driven: DrivenNode, duration_us: int = RETRY_US) -> None:
    driven.world.run_until(driven.world.mono_us() + duration_us)


class TestCreationThatFails:
    @pytest.mark.parametrize("survival", Survival)
    @pytest.mark.parametrize(
        ("operation", "path_end", "error"),
        [
            (Operation.CREATE, "new-0", errno.EACCES),
            (Operation.CREATE, "new-0/00000000000000000000.log", errno.ENOSPC),
            (Operation.CREATE, f"new-{PARTITIONS_PER_TURN + 1}", errno.ENOSPC),
            (Operation.RENAME, f"new-{MANY - 1}/partition.metadata.tmp", errno.EIO),
        ],
    )
    def test_gives_the_name_back(self, operation: Operation, path_end: str, error: int, survival: Survival) -> None:
        driven = DrivenNode()
        driven.disk.fail(operation, error=error, path_end=path_end)
        assert create(driven) == ErrorCode.KAFKA_STORAGE_ERROR
        assert driven.metadata("new")[0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait(driven)
        assert folders(driven) == []
        driven.crash(survival)
        assert len(driven.node.topics) == 0
        assert create(driven) == ErrorCode.NONE
        assert len(driven.metadata("new")[0]["partitions"]) == MANY

    def test_gives_it_back_at_once(self) -> None:
        driven = DrivenNode()
        driven.disk.fail(Operation.CREATE, path_end="new-20")
        assert [create(driven), create(driven)] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
        assert driven.produce("new", 0, partition=20) == 0

    # Enough for such a topic in the journal, too little for all of its folders.
    @pytest.mark.parametrize("room_bytes", range(1800, 3001, 200))
    def test_on_a_full_disk_gives_it_back_too(self, room_bytes: int) -> None:
        driven = DrivenNode()
        driven.disk.capacity_bytes = driven.disk.total_bytes() - driven.disk.free_bytes() + room_bytes
        assert create(driven) == ErrorCode.KAFKA_STORAGE_ERROR
        wait(driven)
        assert folders(driven) == []
        assert create(driven, partitions=1) == ErrorCode.NONE

    def test_is_answered_though_what_was_made_cannot_be_removed_yet(self) -> None:
        driven = DrivenNode()
        driven.disk.fail(Operation.CREATE, path_end="new-20")
        driven.disk.fail(Operation.RENAME, path_end="new-7")
        assert [create(driven), create(driven)] == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.TOPIC_ALREADY_EXISTS]
        wait(driven)
        assert create(driven) == ErrorCode.NONE

    def test_counts_for_nothing(self) -> None:
        driven = DrivenNode()
        driven.disk.fail(Operation.CREATE, path_end="new-1")
        create(driven)
        assert driven.node.collected.statistics(now_us=driven.world.mono_us()).topics == ()
        assert not [told for told, _ in driven.told.events if told == "log offline"]


class TestDeletion:
    @pytest.mark.parametrize(
        ("operation", "path_end", "nth", "error"),
        [
            (Operation.RENAME, "there-2", 1, errno.EIO),
            (Operation.RENAME, f"there-{PARTITIONS_PER_TURN + 2}", 1, errno.EIO),
            (Operation.RENAME, "recovery-point-offset-checkpoint.tmp", 1, errno.EIO),
            # The first line is the deletion itself.
            (Operation.APPEND, "headrace.journal", 2, errno.ENOSPC),
        ],
    )
    def test_that_the_disk_holds_up_is_tried_again(
        self, operation: Operation, path_end: str, nth: int, error: int
    ) -> None:
        driven = DrivenNode()
        assert create(driven, "there") == ErrorCode.NONE
        driven.disk.fail(operation, nth=nth, error=error, path_end=path_end)
        delete(driven, "there")
        assert create(driven, "there") == ErrorCode.TOPIC_ALREADY_EXISTS
        wait(driven)
        assert create(driven, "there") == ErrorCode.NONE

    def test_takes_what_there_is_of_partitions_that_could_not_be_added(self) -> None:
        driven = DrivenNode()
        driven.create("there")
        driven.disk.fail(Operation.CREATE, path_end="there-1/00000000000000000000.log")
        assert grow(driven, "there", to=3) == ErrorCode.KAFKA_STORAGE_ERROR
        assert driven.disk.exists("there-1")
        delete(driven, "there")
        driven.restart()
        assert len(driven.node.topics) == 0
