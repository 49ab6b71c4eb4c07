"""Produce through the node: who is answered when, and with what."""

import errno

import pytest

from headrace.errors import ErrorCode, ProtocolError
from headrace.node.later import Later
from headrace.protocol.header import encode_request_header
from headrace.sim.disk import Operation, Survival
from tests.unit.node.driven_node import API_NAMED, CLIENT, DrivenNode
from tests.unit.node.readers import batch_of, fetch, produced_rows, send_produce, values_in, write

LOG = "00000000000000000000.log"


@pytest.fixture
def driven() -> DrivenNode:
    node = DrivenNode()
    node.create("t", partitions=2)
    return node


class TestAnswers:
    def test_each_batch_of_a_request_is_answered_in_its_place(self, driven: DrivenNode) -> None:
        driven.create("u")
        rows = produced_rows(
            driven,
            send_produce(
                driven,
                ("t", 1, batch_of(b"a", b"b")),
                ("nowhere", 0, batch_of(b"c")),
                ("t", 0, batch_of(b"d")),
                ("t", 7, batch_of(b"e")),
                ("u", 0, None),
                ("u", 0, batch_of(b"f")),
            ),
        )
        assert [(row["index"], row["error_code"], row["base_offset"]) for row in rows] == [
            (1, 0, 0),
            (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (0, 0, 0),
            (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
            (0, ErrorCode.INVALID_RECORD, -1),
            (0, 0, 0),
        ]

    def test_a_partition_named_twice_takes_both_in_order(self, driven: DrivenNode) -> None:
        rows = produced_rows(driven, send_produce(driven, ("t", 0, batch_of(b"a")), ("t", 0, batch_of(b"b", b"c"))))
        assert [row["base_offset"] for row in rows] == [0, 1]
        assert fetch(driven, ("t", 0, 0)).values() == [b"a", b"b", b"c"]

    def test_a_bad_batch_costs_itself_alone(self, driven: DrivenNode) -> None:
        bad = bytearray(batch_of(b"bad"))
        bad[-1] ^= 1
        rows = produced_rows(driven, send_produce(driven, ("t", 0, bytes(bad)), ("t", 1, batch_of(b"good"))))
        assert [row["error_code"] for row in rows] == [ErrorCode.CORRUPT_MESSAGE, 0]
        assert fetch(driven, ("t", 0, 0), wait_ms=0).values() == []

    @pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
    def test_acks_that_mean_nothing_write_nothing(self, driven: DrivenNode, acks: int) -> None:
        (row,) = produced_rows(driven, send_produce(driven, ("t", 0, batch_of(b"a")), acks=acks))
        assert row["error_code"] == ErrorCode.INVALID_REQUIRED_ACKS
        assert driven.node.topics.partition("t", 0).log.end_offset == 0

    def test_an_empty_request_has_an_empty_answer(self, driven: DrivenNode) -> None:
        assert produced_rows(driven, send_produce(driven)) == []

    def test_the_requests_memory_is_free_again(self, driven: DrivenNode) -> None:
        """Whoever received it uses its buffer for something else at once."""
        api = API_NAMED["Produce"]
        partition = {"index": 0, "records": batch_of(b"value")}
        body = {"acks": 1, "timeout_ms": 1, "topic_data": [{"name": "t", "partition_data": [partition]}]}
        header = encode_request_header(api_key=api.key, api_version=9, correlation_id=1, client_id=None)
        frame = bytearray(header + api.request.encode(body, 9))
        driven.node.handle(memoryview(frame), CLIENT)
        frame[:] = bytes(len(frame))
        assert fetch(driven, ("t", 0, 0)).values() == [b"value"]


class TestWithoutAcknowledgement:
    def test_nothing_is_answered(self, driven: DrivenNode) -> None:
        assert send_produce(driven, ("t", 0, batch_of(b"a")), acks=0) is None
        assert fetch(driven, ("t", 0, 0)).values() == [b"a"]

    def test_a_failure_closes_the_connection_and_the_rest_is_written(self, driven: DrivenNode) -> None:
        with pytest.raises(ProtocolError):
            send_produce(driven, ("nowhere", 0, batch_of(b"a")), ("t", 0, batch_of(b"b")), acks=0)
        assert fetch(driven, ("t", 0, 0)).values() == [b"b"]

    def test_what_is_to_be_flushed_is_flushed(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="1")
        assert send_produce(driven, ("t", 0, batch_of(b"a")), acks=0) is None
        driven.world.run_until(driven.world.mono_us() + 1_000_000)
        driven.crash(Survival.NOTHING)
        assert fetch(driven, ("t", 0, 0)).values() == [b"a"]


class TestTakenTogether:
    """Frames of one read whose producers want no answer are written with one call, and nobody can tell."""

    @staticmethod
    def frame(*sent: tuple[str, int, bytes], acks: int = 0) -> memoryview:
        api = API_NAMED["Produce"]
        header = encode_request_header(api_key=api.key, api_version=9, correlation_id=1, client_id=None)
        topics = [{"name": name, "partition_data": [{"index": index, "records": data}]} for name, index, data in sent]
        return memoryview(
            bytearray(header + api.request.encode({"acks": acks, "timeout_ms": 1, "topic_data": topics}, 9))
        )

    def test_one_write_for_each_log(self, driven: DrivenNode) -> None:
        write(driven, "t", b"first", partition=0)
        write(driven, "t", b"first", partition=1)
        before = driven.disk.counts[Operation.APPEND]
        for value in (b"a", b"b", b"c"):
            for index in (0, 1):
                assert driven.node.take(self.frame(("t", index, batch_of(value))), CLIENT) is None
        driven.node.finish_frames()
        assert driven.disk.counts[Operation.APPEND] == before + 2
        for index in (0, 1):
            assert fetch(driven, ("t", index, 0)).values() == [b"first", b"a", b"b", b"c"]

    def test_what_comes_behind_them_comes_behind_them(self, driven: DrivenNode) -> None:
        driven.node.take(self.frame(("t", 0, batch_of(b"a"))), CLIENT)
        driven.node.take(self.frame(("t", 0, batch_of(b"b")), acks=1), CLIENT)
        driven.node.take(self.frame(("t", 0, batch_of(b"c"))), CLIENT)
        driven.node.take(self.frame(("t", 0, batch_of(b"d", producer_id=7, producer_epoch=0, base_sequence=0))), CLIENT)
        driven.node.take(self.frame(("t", 0, batch_of(b"e"))), CLIENT)
        assert fetch(driven, ("t", 0, 0)).values() == [b"a", b"b", b"c", b"d", b"e"]

    def test_a_bad_frame_costs_those_before_it_nothing(self, driven: DrivenNode) -> None:
        driven.node.take(self.frame(("t", 0, batch_of(b"a"))), CLIENT)
        with pytest.raises(ProtocolError):
            driven.node.take(self.frame(("nowhere", 0, batch_of(b"b"))), CLIENT)
        driven.node.finish_frames()
        assert fetch(driven, ("t", 0, 0)).values() == [b"a"]

    def test_readers_learn_of_what_was_written_before_the_disk_was_full(self) -> None:
        driven = DrivenNode()
        driven.create("t", segment_bytes="1048576")
        write(driven, "t", b"x" * 1_000_000)
        waiting = fetch(driven, ("t", 0, 1), wait_ms=60_000)
        driven.disk.fail(Operation.APPEND, nth=2, error=errno.ENOSPC, path_end=".log")
        for _ in range(2):
            driven.node.take(self.frame(("t", 0, batch_of(b"y" * 30_000))), CLIENT)
        with pytest.raises(ProtocolError, match="without acknowledgement"):
            driven.node.finish_frames()
        driven.node.finish_turn()
        assert waiting.is_answered()
        assert waiting.values() == [b"y" * 30_000]

    def test_what_cannot_be_written_closes_the_connection_and_the_rest_is_written(self, driven: DrivenNode) -> None:
        driven.disk.fail(Operation.APPEND, error=errno.ENOSPC)
        for index in (0, 1):
            driven.node.take(self.frame(("t", index, batch_of(b"a"))), CLIENT)
        with pytest.raises(ProtocolError, match="without acknowledgement"):
            driven.node.finish_frames()
        assert fetch(driven, ("t", 0, 0), wait_ms=0).values() == []
        assert fetch(driven, ("t", 1, 0)).values() == [b"a"]


class TestFlushing:
    def test_the_answer_waits_for_the_disk(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="1")
        answer = send_produce(driven, ("t", 0, batch_of(b"a")))
        assert isinstance(answer, Later)
        assert answer.hurry is None  # Nobody can have it sooner.
        assert produced_rows(driven, answer)[0]["error_code"] == 0
        assert driven.node.topics.partition("t", 0).log.flushed_offset == 1

    def test_only_the_count_that_asks_for_it_waits(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="3")
        assert not isinstance(send_produce(driven, ("t", 0, batch_of(b"a"))), Later)
        assert not isinstance(send_produce(driven, ("t", 0, batch_of(b"b"))), Later)
        answer = send_produce(driven, ("t", 0, batch_of(b"c")))
        assert isinstance(answer, Later)
        produced_rows(driven, answer)
        assert driven.node.topics.partition("t", 0).log.flushed_offset == 3
        assert not isinstance(send_produce(driven, ("t", 0, batch_of(b"d"))), Later)

    def test_one_answer_waits_for_all_of_its_logs(self) -> None:
        driven = DrivenNode()
        driven.create("t", partitions=3, flush_messages="1")
        driven.create("u")
        answer = send_produce(driven, *(("t", index, batch_of(b"a")) for index in range(3)), ("u", 0, batch_of(b"b")))
        assert [row["error_code"] for row in produced_rows(driven, answer)] == [0, 0, 0, 0]
        for index in range(3):
            assert driven.node.topics.partition("t", index).log.flushed_offset == 1

    def test_a_failed_flush_fails_its_row_alone(self) -> None:
        driven = DrivenNode()
        driven.create("t", partitions=3, flush_messages="1")
        driven.disk.fail(Operation.SYNC, path_end=f"t-1/{LOG}")
        rows = produced_rows(driven, send_produce(driven, *(("t", index, batch_of(b"a")) for index in range(3))))
        assert [row["error_code"] for row in rows] == [0, ErrorCode.KAFKA_STORAGE_ERROR, 0]
        assert rows[1]["base_offset"] == -1

    def test_a_duplicate_waits_for_the_flush_of_the_first(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="1")
        batch = batch_of(b"a", producer_id=5, producer_epoch=0, base_sequence=0)
        first, second = (send_produce(driven, ("t", 0, batch)) for _ in range(2))
        assert isinstance(second, Later)
        assert [produced_rows(driven, answer)[0]["base_offset"] for answer in (first, second)] == [0, 0]
        assert driven.node.topics.partition("t", 0).log.flushed_offset == 1

    def test_by_time_without_anybody_waiting(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_ms="100")
        assert not isinstance(send_produce(driven, ("t", 0, batch_of(b"a"))), Later)
        log = driven.node.topics.partition("t", 0).log
        driven.world.run_until(driven.world.mono_us() + 50_000)
        assert log.flushed_offset == 0
        driven.world.run_until(driven.world.mono_us() + 200_000)
        assert log.flushed_offset == 1
        write(driven, "t", b"b")
        driven.world.run_until(driven.world.mono_us() + 200_000)
        assert log.flushed_offset == 2

    def test_a_failure_of_it_is_told_to_the_operator(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_ms="100")
        driven.disk.fail(Operation.SYNC, path_end=LOG)
        write(driven, "t", b"a")
        driven.world.run_until(driven.world.mono_us() + 200_000)
        assert [fields["partition"] for event, fields in driven.told.events if event == "log offline"] == ["t-0"]

    def test_a_topic_deleted_meanwhile_keeps_nobody_waiting(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_messages="1", flush_ms="100")
        answer = send_produce(driven, ("t", 0, batch_of(b"a")))
        driven.ask("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
        assert len(produced_rows(driven, answer)) == 1
        driven.world.run_until(driven.world.mono_us() + 120_000_000)


class TestFailures:
    def test_a_full_disk_refuses_writers_and_serves_readers(self, driven: DrivenNode) -> None:
        write(driven, "t", b"a")
        driven.disk.capacity_bytes = driven.disk.total_bytes() - driven.disk.free_bytes()
        (row,) = produced_rows(driven, send_produce(driven, ("t", 0, batch_of(b"b" * 1000))))
        assert row["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert fetch(driven, ("t", 0, 0)).values() == [b"a"]
        driven.disk.capacity_bytes = None
        assert write(driven, "t", b"c") == 1

    def test_a_failed_append_takes_its_log_offline_and_no_other(self, driven: DrivenNode) -> None:
        driven.disk.fail(Operation.APPEND, path_end=f"t-0/{LOG}")
        for _ in range(2):
            (row,) = produced_rows(driven, send_produce(driven, ("t", 0, batch_of(b"a"))))
            assert row["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert write(driven, "t", b"b", partition=1) == 0
        offline = [fields for event, fields in driven.told.events if event == "log offline"]
        assert [fields["partition"] for fields in offline] == ["t-0"]


def test_a_reader_is_woken_by_exactly_what_it_asked_for(driven: DrivenNode) -> None:
    fetched = fetch(driven, ("t", 1, 0))
    answer = send_produce(driven, ("t", 0, batch_of(b"a")), ("nowhere", 0, batch_of(b"b")))
    assert len(produced_rows(driven, answer)) == 2
    assert not fetched.is_answered()
    send_produce(driven, ("t", 0, batch_of(b"c")), ("t", 1, batch_of(b"d")))
    assert [values_in(row) for row in fetched.rows().values()] == [[b"d"]]
