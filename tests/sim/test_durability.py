"""What each setting promises, and what it loses: the lines of docs/durability.md, one by one.

The disk here is as unkind as it may be: when the power fails, everything goes that was not synced.
"""

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import DiskFull
from headrace.ids import TopicName, TopicPartition
from headrace.node.later import Later
from headrace.protocol.batch import whole_batches
from headrace.protocol.records import Record, encode_batch
from headrace.sim.disk import Operation, Survival
from tests.unit.node.driven_node import DrivenNode

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "durability.md"
TOPIC = "orders"
WRITTEN = 7  # Batches of one record each.

DEFAULT: dict[str, str] = {}
BY_TIME = {"flush.ms": "1000"}
BY_COUNT = {"flush.messages": "3"}
EVERY_BATCH = {"flush.messages": "1"}
SHOWN_LATE = {"flush.before.expose": "true"}
SETTINGS = (DEFAULT, BY_TIME, BY_COUNT, EVERY_BATCH, SHOWN_LATE)


class Stage(DrivenNode):
    def __init__(self, configs: dict[str, str]) -> None:
        super().__init__()
        self.create(TOPIC, **{key.replace(".", "_"): value for key, value in configs.items()})

    def send_batch(self, number: int, *, acks: int = -1, **producer: int) -> Any:
        records = encode_batch([Record(None, b"%d" % number)], **producer)  # type: ignore[arg-type]
        partition = {"index": 0, "records": records}
        body = {"acks": acks, "timeout_ms": 1000, "topic_data": [{"name": TOPIC, "partition_data": [partition]}]}
        return self.send("Produce", 9, body)

    def write(self, *, acks: int = -1, count: int = WRITTEN, first: int = 0) -> None:
        """Batches, each acknowledged before the next is sent; no time passes but that of syncs."""
        for number in range(first, first + count):
            answer = self.send_batch(number, acks=acks)
            if acks != 0:
                (told,) = self.receive("Produce", 9, answer)["responses"][0]["partition_responses"]
                assert told["error_code"] == 0

    def pass_ms(self, ms: int) -> None:
        self.world.run_until(self.world.mono_us() + ms * 1000)

    @property
    def log(self) -> Any:
        return self.node.topics.partition(TOPIC, 0).log

    def visible(self) -> int:
        """How many records a consumer can read."""
        offset = 0
        while (span := self.log.read(offset, bytes_max=1 << 20, at_least_one=True)) is not None:
            file, position, size = span
            offset = [header for _, header in whole_batches(file.read(position, size))][-1].last_offset + 1
        return offset

    def kill(self) -> None:
        self.timers.end()
        self.disk = self.disk.kill()
        self._start()

    def epoch(self) -> int:
        return self.node.topics.partition(TOPIC, 0).leader_epoch


@pytest.mark.parametrize("configs", SETTINGS, ids=str)
@pytest.mark.parametrize("acks", [0, 1, -1])
def test_a_killed_process_loses_nothing_that_it_took(acks: int, configs: dict[str, str]) -> None:
    stage = Stage(configs)
    stage.write(acks=acks)
    stage.kill()
    assert stage.log.end_offset == WRITTEN
    stage.pass_ms(100)
    assert stage.visible() == WRITTEN


@pytest.mark.parametrize("configs", SETTINGS, ids=str)
def test_a_clean_stop_loses_nothing_even_if_the_power_fails_then(configs: dict[str, str]) -> None:
    stage = Stage(configs)
    stage.write()
    assert stage.node.close()
    stage.crash(Survival.NOTHING)
    assert stage.visible() == WRITTEN


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_power_loss_takes_what_the_system_had_not_written_by_itself(acks: int) -> None:
    stage = Stage(DEFAULT)
    stage.write(acks=acks)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == 0


def test_power_loss_leaves_what_is_in_a_sealed_segment() -> None:
    stage = Stage({"internal.segment.bytes": "200"})
    stage.write()
    *_, before_last, last = stage.log.segments
    assert before_last.size > 0
    stage.pass_ms(100)  # Sealing begins a sync.
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset >= last.base_offset > 0


@pytest.mark.parametrize("acks", [1, -1])
def test_with_a_flush_of_every_batch_power_loss_takes_nothing_acknowledged(acks: int) -> None:
    stage = Stage(EVERY_BATCH)
    stage.write(acks=acks)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == WRITTEN


def test_without_acknowledgement_even_a_flushed_topic_may_lose_what_was_just_sent() -> None:
    stage = Stage(EVERY_BATCH)
    stage.write(acks=0)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset < WRITTEN
    stage.write(acks=0)
    stage.pass_ms(100)
    end_offset = stage.log.end_offset
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == end_offset


def test_a_flush_by_count_keeps_all_but_the_last_few() -> None:
    stage = Stage(BY_COUNT)
    stage.write()
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == 6


def test_a_flush_by_time_keeps_what_is_old_enough() -> None:
    stage = Stage(BY_TIME)
    stage.write()
    stage.pass_ms(1100)
    stage.write(count=2, first=WRITTEN)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == WRITTEN


def test_what_was_shown_after_its_flush_is_never_taken_back() -> None:
    stage = Stage(SHOWN_LATE)
    stage.write()
    seen = []
    for _ in range(20):
        seen.append(stage.visible())
        stage.world.step()
    stage.write(count=3, first=WRITTEN)
    seen.append(stage.visible())
    assert seen[0] == 0
    assert seen[-1] >= WRITTEN
    stage.crash(Survival.NOTHING)
    stage.pass_ms(100)
    assert stage.visible() >= seen[-1]


def test_without_that_a_consumer_may_have_read_what_is_gone() -> None:
    stage = Stage(DEFAULT)
    stage.write()
    assert stage.visible() == WRITTEN
    stage.crash(Survival.NOTHING)
    assert stage.visible() == 0


def test_offsets_given_out_again_have_a_newer_leader_epoch() -> None:
    stage = Stage(DEFAULT)
    stage.write()
    epochs = [stage.epoch()]
    stage.restart()
    epochs.append(stage.epoch())
    stage.kill()
    epochs.append(stage.epoch())
    stage.crash(Survival.NOTHING)
    epochs.append(stage.epoch())
    # A clean stop took nothing back.
    assert epochs == [0, 0, 1, 2]


@pytest.mark.parametrize("configs", SETTINGS, ids=str)
def test_a_fast_restart_answers_a_retry_with_the_first_answer(configs: dict[str, str]) -> None:
    """The answer was lost with the process; what it answered to was not."""
    stage = Stage(configs)
    sequences = [{"producer_id": 5, "producer_epoch": 0, "base_sequence": sequence} for sequence in range(5)]
    for number, sequence in enumerate(sequences):
        stage.send_batch(number, **sequence)
    stage.kill()
    for number, sequence in enumerate(sequences):
        answer = stage.send_batch(number, **sequence)
        (told,) = stage.receive("Produce", 9, answer)["responses"][0]["partition_responses"]
        assert (told["error_code"], told["base_offset"]) == (0, number)
    assert stage.log.end_offset == 5


def test_a_retry_after_a_kill_waits_for_the_flush_like_any_other() -> None:
    """What the page cache kept over the kill is not on disk; a duplicate acknowledged at once could still be lost."""
    stage = Stage(EVERY_BATCH)
    stage.send_batch(0, producer_id=5, producer_epoch=0, base_sequence=0)
    stage.kill()
    answer = stage.send_batch(0, producer_id=5, producer_epoch=0, base_sequence=0)
    assert isinstance(answer, Later)
    stage.receive("Produce", 9, answer)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset == 1


def test_a_producer_learns_that_acknowledged_batches_are_gone_if_anything_of_it_is_left() -> None:
    for flushed, code in ((2, 45), (0, 0)):  # OUT_OF_ORDER_SEQUENCE_NUMBER; one who is forgotten may begin anywhere.
        stage = Stage(DEFAULT)
        for number in range(4):
            if number == flushed:
                stage.node.data.logs[TopicPartition(TopicName(TOPIC), 0)].flush_then(flushed, lambda error: None)
                stage.pass_ms(100)
            stage.send_batch(number, producer_id=5, producer_epoch=0, base_sequence=number)
        stage.crash(Survival.NOTHING)
        assert stage.log.end_offset == flushed
        answer = stage.send_batch(4, producer_id=5, producer_epoch=0, base_sequence=4)
        (told,) = stage.receive("Produce", 9, answer)["responses"][0]["partition_responses"]
        assert told["error_code"] == code


def test_without_idempotence_a_retry_is_written_again() -> None:
    stage = Stage(EVERY_BATCH)
    stage.send_batch(0)
    stage.kill()
    stage.write(count=1)
    assert stage.log.end_offset == 2


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_sync_is_told_and_never_acknowledged(acks: int) -> None:
    stage = Stage(EVERY_BATCH)
    stage.create("other", flush_messages="1")
    stage.write(count=2)
    stage.disk.fail(Operation.SYNC, path_end=".log")
    for number in (2, 3):
        answer = stage.receive("Produce", 9, stage.send_batch(number, acks=acks))
        (told,) = answer["responses"][0]["partition_responses"]
        assert told["error_code"] == 56, "KAFKA_STORAGE_ERROR, and so until the next start"
    stage.produce("other")
    stage.kill()
    stage.write(count=2, first=4)
    stage.crash(Survival.NOTHING)
    assert stage.log.end_offset in (4, 5), "the one whose sync failed may be there"


def test_a_full_disk_refuses_and_then_takes_again() -> None:
    stage = Stage(EVERY_BATCH)
    stage.write(count=2)
    stage.disk.capacity_bytes = 0
    (told,) = stage.receive("Produce", 9, stage.send_batch(2))["responses"][0]["partition_responses"]
    assert told["error_code"] == 56
    assert stage.visible() == 2
    stage.disk.capacity_bytes = None
    stage.write(count=1)
    assert stage.visible() == 3


def test_a_start_without_room_fails_aloud_and_succeeds_with_a_little() -> None:
    stage = Stage(EVERY_BATCH)
    stage.write()
    stage.timers.end()
    stage.disk = stage.disk.kill()
    stage.disk.capacity_bytes = 1
    with pytest.raises(DiskFull, match="No space left"):
        stage._start()
    stage.timers.end()
    stage.disk = stage.disk.kill()
    stage.disk.capacity_bytes = (1 << 50) - stage.disk.free_bytes() + 2000
    stage._start()
    assert stage.visible() == WRITTEN


def test_what_retention_takes_from_a_full_disk_leaves_no_hole_if_the_power_fails() -> None:
    """Where there is no room to write down where the log starts, the names of its files must say it."""
    stage = Stage({"internal.segment.bytes": "100", "retention.bytes": "150", **EVERY_BATCH})
    stage.write()
    stage.disk.capacity_bytes = 0
    stage.node.delete_expired()
    start = stage.log.start_offset
    assert start > 1, "several segments"
    assert "start offsets not written" in [event for event, _ in stage.told.events]
    stage.disk.capacity_bytes = None
    stage.crash(Survival.NOTHING)
    assert (stage.log.start_offset, stage.log.end_offset) == (start, WRITTEN)


def test_topics_and_settings_are_durable_once_acknowledged() -> None:
    stage = Stage(EVERY_BATCH)
    topic_id = stage.create("second", flush_messages="1")
    change = {"name": "retention.ms", "config_operation": 0, "value": "4711"}
    resource = {"resource_type": 2, "resource_name": "second", "configs": [change]}
    (answer,) = stage.ask("IncrementalAlterConfigs", 1, resources=[resource])["responses"]
    assert answer["error_code"] == 0
    stage.crash(Survival.NOTHING)
    assert {topic.name: topic.id for topic in stage.node.topics}["second"] == topic_id
    configs = stage.configs(2, "second")
    assert (configs["flush.messages"]["value"], configs["retention.ms"]["value"]) == ("1", "4711")
    stage.ask("DeleteTopics", 5, topic_names=["second"], timeout_ms=1000)
    stage.crash(Survival.NOTHING)
    assert {topic.name for topic in stage.node.topics} == {TOPIC}


def test_deleted_records_are_durably_gone_once_acknowledged() -> None:
    stage = Stage(EVERY_BATCH)
    stage.write()
    partitions = [{"partition_index": 0, "offset": 4}]
    stage.ask("DeleteRecords", 2, topics=[{"name": TOPIC, "partitions": partitions}], timeout_ms=1000)
    stage.crash(Survival.NOTHING)
    assert (stage.log.start_offset, stage.log.end_offset) == (4, WRITTEN)


# The page itself.


def test_every_test_that_the_page_names_exists() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::Test\w+)?(?:::(\w+))?`", PAGE.read_text())
    assert len(named) > 15
    for path, function in named:
        source = (ROOT / path).read_text()
        assert not function or f"def {function}(" in source, f"{path}::{function}"


def test_every_line_of_its_tables_names_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    heads = {number for number, row in enumerate(rows) if set(row) <= set("|-")}
    facts = [row for number, row in enumerate(rows) if not heads & {number, number + 1}]
    assert len(facts) > 15
    for row in facts:
        assert "`tests/" in row.split("|")[-2], row
