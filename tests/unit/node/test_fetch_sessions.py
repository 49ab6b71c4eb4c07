"""Fetch sessions: what is told once, what is told again, and that nothing visible is ever left untold."""

import pytest

from headrace.errors import ErrorCode
from headrace.node.fetch_sessions import SESSION_EPOCH_MAX, SESSION_IDLE_US, FetchSessions
from headrace.protocol.fetch import FetchPartition
from headrace.sim.disk import Operation
from tests.unit.node.driven_node import DrivenNode
from tests.unit.node.readers import Session, batch_of, fetch, records_in, send_produce, values_in, write


@pytest.fixture
def driven() -> DrivenNode:
    node = DrivenNode()
    node.create("t", partitions=3)
    return node


def all_three(offset: int = 0) -> tuple[tuple[str, int, int], ...]:
    return tuple(("t", index, offset) for index in range(3))


def watchers(driven: DrivenNode) -> int:
    return sum(len(partition.watchers) for topic in driven.node.topics for partition in topic.partitions)


class TestNews:
    def test_the_first_answer_tells_everything(self, driven: DrivenNode) -> None:
        write(driven, "t", b"value", partition=1)
        rows = Session(driven, *all_three()).opened.rows()
        assert {key: len(values_in(row)) for key, row in rows.items()} == {("t", 0): 0, ("t", 1): 1, ("t", 2): 0}

    def test_what_is_known_is_not_told_again(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        for _ in range(3):
            assert session.fetch(wait_ms=0).rows() == {}

    def test_only_what_grew_is_told(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        fetched = session.fetch()
        assert not fetched.is_answered()
        write(driven, "t", b"value", partition=2)
        assert fetched.is_answered()
        assert fetched.values() == [b"value"]
        assert list(fetched.rows()) == [("t", 2)]

    def test_a_reader_that_does_not_move_gets_the_data_again(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        write(driven, "t", b"value")
        for _ in range(3):
            assert session.fetch().values() == [b"value"]
        fetched = session.fetch(("t", 0, 1), wait_ms=100)
        assert not fetched.is_answered()
        assert fetched.rows() == {}

    def test_where_the_log_starts_is_told_when_it_changes(self, driven: DrivenNode) -> None:
        write(driven, "t", b"value")
        session = Session(driven, ("t", 0, 1))
        assert session.fetch(wait_ms=0).rows() == {}
        deleted = {"partition_index": 0, "offset": 1}
        driven.ask("DeleteRecords", 2, topics=[{"name": "t", "partitions": [deleted]}], timeout_ms=1000)
        (row,) = session.fetch(wait_ms=0).rows().values()
        assert (row["log_start_offset"], row["high_watermark"]) == (1, 1)
        assert session.fetch(wait_ms=0).rows() == {}

    def test_that_alone_does_not_end_a_wait(self, driven: DrivenNode) -> None:
        write(driven, "t", b"value")
        session = Session(driven, ("t", 0, 1))
        fetched = session.fetch(wait_ms=60_000)
        deleted = {"partition_index": 0, "offset": 1}
        driven.ask("DeleteRecords", 2, topics=[{"name": "t", "partitions": [deleted]}], timeout_ms=1000)
        driven.node.finish_turn()
        assert not fetched.is_answered()
        assert [row["log_start_offset"] for row in fetched.rows().values()] == [1]


class TestNothingIsLeftUntold:
    def test_what_had_no_room_is_given_next(self, driven: DrivenNode) -> None:
        """The partitions behind the limit are not forgotten because nothing of them was given."""
        for index in range(3):
            write(driven, "t", b"x" * 500, partition=index)
        session = Session(driven, *all_three(), bytes_max=100)
        seen = list(session.opened.rows())[:1]
        assert session.opened.values() == [b"x" * 500]
        for _ in range(2):
            ((topic, index),) = seen[-1:]
            fetched = session.fetch((topic, index, 1))
            assert fetched.is_answered()
            seen += [key for key, row in fetched.rows().items() if row["records"]]
        assert sorted(seen) == [("t", 0), ("t", 1), ("t", 2)]

    def test_a_firehose_does_not_starve_the_others(self, driven: DrivenNode) -> None:
        for _ in range(20):
            write(driven, "t", b"x" * 500, partition=0)
        for index in (1, 2):
            write(driven, "t", b"rare", partition=index)
        session = Session(driven, *all_three(), bytes_max=600)
        offsets = dict.fromkeys(range(3), 0)
        fetched, rounds = session.opened, 0
        while any(offsets[index] == 0 for index in (1, 2)):
            moved = []
            for (_, index), row in fetched.rows().items():
                if row["records"]:
                    offsets[index] = records_in(row)[-1][0] + 1
                    moved.append(("t", index, offsets[index]))
            fetched, rounds = session.fetch(*moved), rounds + 1
            assert rounds < 5

    def test_growth_between_two_fetches_is_seen_by_the_second(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        assert session.fetch(wait_ms=0).rows() == {}
        write(driven, "t", b"between", partition=1)
        fetched = session.fetch(wait_ms=60_000)
        assert fetched.is_answered()
        assert fetched.values() == [b"between"]

    def test_growth_of_what_is_not_on_disk_yet_is_seen_once_it_is(self) -> None:
        driven = DrivenNode()
        driven.create("t", flush_before_expose="true")
        session = Session(driven, ("t", 0, 0))
        send_produce(driven, ("t", 0, batch_of(b"value")))
        assert session.fetch(wait_ms=0).rows() == {}  # Looked at before it was visible, and found to have told all.
        fetched = session.fetch(wait_ms=60_000)
        assert fetched.values() == [b"value"]

    def test_a_log_that_went_offline_is_told_until_the_reader_goes(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        driven.disk.fail(Operation.APPEND, path_end="t-1/00000000000000000000.log")
        fetched = session.fetch(wait_ms=60_000)
        send_produce(driven, ("t", 1, batch_of(b"value")))
        for answered in (fetched, session.fetch(wait_ms=60_000)):
            assert answered.is_answered()
            rows = answered.rows()
            assert {key: row["error_code"] for key, row in rows.items()} == {("t", 1): ErrorCode.KAFKA_STORAGE_ERROR}


class TestChanges:
    def test_a_partition_is_added(self, driven: DrivenNode) -> None:
        write(driven, "t", b"added", partition=1)
        session = Session(driven, ("t", 0, 0))
        assert session.fetch(("t", 1, 0)).values() == [b"added"]

    def test_a_forgotten_partition_is_not_told_of(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        fetched = session.fetch(forget=[("t", 1)], wait_ms=200)
        write(driven, "t", b"value", partition=1)
        assert fetched.rows() == {}
        assert watchers(driven) == 2

    def test_what_is_named_and_forgotten_at_once_is_forgotten(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        write(driven, "t", b"value", partition=1)
        assert session.fetch(("t", 1, 0), forget=[("t", 1), ("nowhere", 5)], wait_ms=0).rows() == {}

    def test_a_session_about_nothing_is_over(self, driven: DrivenNode) -> None:
        session = Session(driven, ("t", 0, 0))
        fetched = session.fetch(forget=[("t", 0)])
        assert fetched.is_answered()
        assert (fetched.wait()["error_code"], fetched.wait()["session_id"]) == (0, 0)
        assert session.fetch(("t", 0, 0)).wait()["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert watchers(driven) == 0

    def test_an_error_is_told_until_it_is_mended(self, driven: DrivenNode) -> None:
        session = Session(driven, ("t", 0, 7), ("t", 1, 0))
        for _ in range(2):
            fetched = session.fetch()
            assert fetched.is_answered()
            assert [row["error_code"] for row in fetched.rows().values()] == [ErrorCode.OFFSET_OUT_OF_RANGE]
        (row,) = session.fetch(("t", 0, 0), wait_ms=0).rows().values()
        assert (row["error_code"], row["high_watermark"]) == (0, 0)
        assert session.fetch(wait_ms=0).rows() == {}


class TestTopicsComeAndGo:
    def test_an_unknown_topic_does_not_hurry_the_others(self, driven: DrivenNode) -> None:
        session = Session(driven, ("later", 0, 0), ("t", 0, 0))
        fetched = session.fetch(wait_ms=100)
        assert not fetched.is_answered()
        assert list(fetched.rows()) == [("later", 0)]

    def test_one_that_is_made_later_is_found(self, driven: DrivenNode) -> None:
        session = Session(driven, ("later", 0, 0), ("t", 0, 0))
        driven.create("later")
        fetched = session.fetch(wait_ms=60_000)
        assert not fetched.is_answered()
        write(driven, "later", b"value")
        assert fetched.is_answered()
        assert fetched.values() == [b"value"]

    def test_a_partition_that_is_made_later_is_found(self, driven: DrivenNode) -> None:
        session = Session(driven, ("t", 3, 0), ("t", 0, 0))
        more = [{"name": "t", "count": 4, "assignments": None}]
        driven.ask("CreatePartitions", 3, topics=more, timeout_ms=1000, validate_only=False)
        write(driven, "t", b"value", partition=3)
        assert session.fetch().values() == [b"value"]

    @pytest.mark.parametrize("is_parked", [True, False])
    def test_one_that_is_deleted_is_told(self, driven: DrivenNode, is_parked: bool) -> None:
        driven.create("doomed")
        session = Session(driven, ("doomed", 0, 0), ("t", 0, 0))
        fetched = session.fetch(wait_ms=60_000) if is_parked else None
        driven.ask("DeleteTopics", 5, topic_names=["doomed"], timeout_ms=1000)
        if fetched is not None:
            assert fetched.is_answered()
        rows = (fetched or session.fetch(wait_ms=100)).rows()
        assert {key: row["error_code"] for key, row in rows.items()} == {
            ("doomed", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        assert watchers(driven) == 1

    @pytest.mark.parametrize("is_seen", [True, False])
    def test_one_of_the_same_name_takes_its_place(self, driven: DrivenNode, is_seen: bool) -> None:
        driven.create("again")
        write(driven, "again", b"old")
        session = Session(driven, ("again", 0, 1))
        driven.ask("DeleteTopics", 5, topic_names=["again"], timeout_ms=1000)
        if is_seen:
            session.fetch(wait_ms=0)
        driven.create("again")
        (row,) = session.fetch().rows().values()
        assert row["error_code"] == ErrorCode.OFFSET_OUT_OF_RANGE
        fetched = session.fetch(("again", 0, 0), wait_ms=60_000)
        write(driven, "again", b"new")
        assert fetched.values() == [b"new"]

    def test_but_not_of_its_id(self, driven: DrivenNode) -> None:
        old_id = driven.create("again")
        session = Session(driven, (old_id, 0, 0), version=16)
        driven.ask("DeleteTopics", 5, topic_names=["again"], timeout_ms=1000)
        driven.create("again")
        write(driven, "again", b"new")
        assert session.fetch().rows()[old_id, 0]["error_code"] == ErrorCode.UNKNOWN_TOPIC_ID


class TestEpochs:
    def test_a_skipped_or_repeated_epoch_is_refused(self, driven: DrivenNode) -> None:
        session = Session(driven, ("t", 0, 0))
        for epoch in (2, 5, -5):
            refused = fetch(driven, session=(session.id, epoch))
            assert refused.wait()["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        session.fetch(wait_ms=0)
        assert fetch(driven, session=(session.id, 1)).wait()["error_code"] == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        assert session.fetch(wait_ms=0).wait()["error_code"] == 0

    def test_names_and_ids_do_not_mix(self, driven: DrivenNode) -> None:
        session = Session(driven, ("t", 0, 0))
        mixed = fetch(driven, session=(session.id, 1), version=13)
        assert mixed.wait()["error_code"] == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert session.fetch(wait_ms=0).wait()["error_code"] == 0

    def test_a_session_that_nobody_opened(self, driven: DrivenNode) -> None:
        assert fetch(driven, session=(4711, 1)).wait()["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_naming_everything_ends_the_session(self, driven: DrivenNode, epoch: int) -> None:
        session = Session(driven, *all_three())
        opened = fetch(driven, ("t", 0, 0), session=(session.id, epoch), wait_ms=0).wait()
        assert (opened["session_id"] != 0) == (epoch == 0)
        assert session.fetch().wait()["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert watchers(driven) == (1 if epoch == 0 else 0)

    def test_before_version_7_there_are_none(self, driven: DrivenNode) -> None:
        fetch(driven, ("t", 0, 0), version=6, wait_ms=0).wait()
        assert driven.node.sessions.statistics().sessions == 0

    def test_the_last_epoch_is_followed_by_the_first(self) -> None:
        sessions = FetchSessions(slots_max=1)
        session = sessions.open(1, by_id=False, random_bytes=lambda n: b"\1" * n, now_us=0)
        assert session is not None
        session.epoch = SESSION_EPOCH_MAX
        sessions.use(session.id, epoch=SESSION_EPOCH_MAX, by_id=False, now_us=0)
        assert session.epoch == 1


class TestSeveralUnderWay:
    """A reader may send its next fetch before the last is answered; every one of them is answered."""

    def test_both_wait_and_both_are_answered(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        first, second = session.fetch(wait_ms=300), session.fetch(wait_ms=300)
        assert not first.is_answered()
        assert not second.is_answered()
        assert first.rows() == {}
        assert second.rows() == {}

    def test_data_answers_both(self, driven: DrivenNode) -> None:
        session = Session(driven, *all_three())
        first, second = session.fetch(), session.fetch()
        write(driven, "t", b"value")
        assert first.is_answered()
        assert second.is_answered()
        assert first.values() == second.values() == [b"value"]

    @pytest.mark.parametrize("epoch", [0, -1])
    def test_who_ends_a_session_does_not_leave_its_fetches_waiting(self, driven: DrivenNode, epoch: int) -> None:
        session = Session(driven, *all_three())
        waiting = session.fetch(wait_ms=2**31 - 1)
        fetch(driven, ("t", 0, 0), session=(session.id, epoch), wait_ms=0)
        assert waiting.is_answered()
        assert waiting.rows() == {}


class TestRoom:
    def open(self, sessions: FetchSessions, *, entries: int = 1, now_us: int = 0) -> int | None:
        numbers = iter(range(1, 1000))
        session = sessions.open(
            entries, by_id=False, random_bytes=lambda n: next(numbers).to_bytes(n, "big"), now_us=now_us
        )
        if session is None:
            return None
        for index in range(entries):
            session.put(b"t", FetchPartition(index, -1, 0, -1, -1, 1))
        return session.id

    def test_newcomers_do_without_while_all_are_in_use(self) -> None:
        sessions = FetchSessions(slots_max=2)
        assert [self.open(sessions) is not None for _ in range(3)] == [True, True, False]

    def test_the_idlest_gives_way_once_it_is_idle(self) -> None:
        sessions = FetchSessions(slots_max=2)
        first, second = self.open(sessions), self.open(sessions)
        assert first is not None
        assert second is not None
        sessions.use(first, epoch=1, by_id=False, now_us=1)
        assert self.open(sessions, now_us=SESSION_IDLE_US - 1) is None
        assert self.open(sessions, now_us=SESSION_IDLE_US) is not None
        sessions.use(first, epoch=2, by_id=False, now_us=SESSION_IDLE_US)
        assert sessions.statistics() == (2, 2, 1)

    def test_partitions_of_all_sessions_are_bounded(self) -> None:
        sessions = FetchSessions(slots_max=10, entries_max=100)
        assert self.open(sessions, entries=60) is not None
        assert self.open(sessions, entries=41) is None
        assert self.open(sessions, entries=40) is not None
        # Old ones give way, as many as it takes.
        assert self.open(sessions, entries=80, now_us=SESSION_IDLE_US) is not None
        assert sessions.statistics() == (1, 80, 2)

    def test_more_than_fits_at_all_is_served_without_one(self) -> None:
        sessions = FetchSessions(slots_max=10, entries_max=100)
        assert self.open(sessions, entries=101) is None
        assert sessions.statistics() == (0, 0, 0)

    def test_none_are_kept_where_none_are_wanted(self) -> None:
        driven = DrivenNode(settings={"max.incremental.fetch.session.cache.slots": "0"})
        driven.create("t")
        answer = fetch(driven, ("t", 0, 0), session=(0, 0), wait_ms=0).wait()
        assert (answer["error_code"], answer["session_id"]) == (0, 0)
        assert len(answer["responses"]) == 1

    def test_a_session_that_outgrows_the_room_is_over(self, driven: DrivenNode) -> None:
        driven.node.sessions = FetchSessions(slots_max=10, entries_max=2)
        session = Session(driven, ("t", 0, 0), ("t", 1, 0))
        assert session.fetch(("t", 2, 0)).wait()["error_code"] == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert driven.node.sessions.statistics() == (0, 0, 1)
        assert watchers(driven) == 0
        # Naming everything anew, the reader is served.
        fetched = fetch(driven, *all_three(), session=(0, 0), wait_ms=60_000)
        write(driven, "t", b"value", partition=2)
        assert fetched.values() == [b"value"]

    def test_a_session_that_gives_way_answers_its_fetch(self) -> None:
        driven = DrivenNode(settings={"max.incremental.fetch.session.cache.slots": "1"})
        driven.create("t")
        session = Session(driven, ("t", 0, 0))
        waiting = session.fetch(wait_ms=2**31 - 1)
        driven.world.run_until(driven.world.mono_us() + SESSION_IDLE_US)
        assert Session(driven, ("t", 0, 0)).id != session.id
        assert waiting.is_answered()
