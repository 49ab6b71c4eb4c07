"""The checker, on histories with each anomaly planted, and on ones that only look wrong."""

import pytest

from headrace.sim.checker import Checker, Kind, Place, Promise, Served

TOPIC = b"orders----------"
HERE = Place(TOPIC, 0)
THERE = Place(TOPIC, 1)
FLUSHED = Promise(acknowledged_stays=True, read_stays=False)
SHOWN = Promise(acknowledged_stays=False, read_stays=True)
LAZY = Promise(acknowledged_stays=False, read_stays=False)


def watching(promise: Promise = LAZY) -> Checker:
    checker = Checker()
    checker.topic_made("orders", TOPIC, partitions=2, promise=promise)
    return checker


def written(promise: Promise = LAZY, count: int = 4, *, producer: int = 1) -> Checker:
    """Values 0, 1, 2... sent and acknowledged at offsets 0, 1, 2..."""
    checker = watching(promise)
    for value in range(count):
        checker.sending(producer, HERE, [value])
        checker.acknowledged(HERE, value, [value])
    return checker


def holding(*values: int, start: int = 0, epoch: int = 0) -> list[Served]:
    return [Served(offset, epoch, value) for offset, value in enumerate(values, start)]


def read(checker: Checker, *values: int, start: int = 0, epoch: int = 0) -> None:
    checker.served(HERE, start, holding(*values, start=start, epoch=epoch), high_watermark=start + len(values))


def end(checker: Checker, *values: int, start: int = 0, epoch: int = 0) -> None:
    checker.final(HERE, holding(*values, start=start, epoch=epoch), start=start, end=start + len(values))


def kinds(checker: Checker) -> set[Kind]:
    return {anomaly.kind for anomaly in checker.anomalies}


def test_a_history_in_order_has_nothing_wrong() -> None:
    checker = written()
    read(checker, 0, 1)
    read(checker, 2, 3, start=2)
    read(checker, 0, 1, 2, 3)
    end(checker, 0, 1, 2, 3)
    assert checker.anomalies == []
    assert (checker.acknowledged_count, checker.served_count) == (4, 8)


def test_what_was_sent_without_an_answer_may_be_there_or_not() -> None:
    for present in (True, False):
        checker = written(FLUSHED)
        checker.sending(1, HERE, [9])
        checker.lost_unflushed()
        end(checker, 0, 1, 2, 3, *([9] if present else []))
        assert checker.anomalies == []


# Lost writes.


def test_an_acknowledged_record_that_is_gone() -> None:
    checker = written()
    end(checker, 0, 1, 2)
    assert kinds(checker) == {Kind.LOST_WRITE}


def test_an_acknowledged_offset_that_holds_another() -> None:
    checker = written()
    checker.sending(2, HERE, [9])
    end(checker, 0, 1, 9, 3)
    assert Kind.LOST_WRITE in kinds(checker)


def test_an_offset_acknowledged_twice() -> None:
    checker = written()
    checker.sending(2, HERE, [9])
    checker.acknowledged(HERE, 3, [9])
    assert kinds(checker) == {Kind.LOST_WRITE}


def test_a_loss_excuses_what_nobody_promised() -> None:
    checker = written()
    checker.lost_unflushed()
    checker.sending(2, HERE, [9])
    checker.acknowledged(HERE, 2, [9])
    end(checker, 0, 1, 9, epoch=1)
    assert checker.anomalies == []


def test_a_loss_excuses_nothing_that_came_after_it() -> None:
    checker = watching()
    checker.lost_unflushed()
    checker.sending(1, HERE, [0])
    checker.acknowledged(HERE, 0, [0])
    end(checker)
    assert kinds(checker) == {Kind.LOST_WRITE}


def test_a_loss_elsewhere_excuses_nothing() -> None:
    checker = written()
    checker.lost_unflushed(THERE)
    end(checker, 0, 1, 2)
    assert kinds(checker) == {Kind.LOST_WRITE}


def test_no_loss_excuses_what_was_promised() -> None:
    checker = written(FLUSHED)
    checker.lost_unflushed()
    end(checker, 0, 1, 2)
    assert kinds(checker) == {Kind.LOST_WRITE}


def test_no_loss_excuses_what_a_clean_stop_put_on_disk() -> None:
    checker = written()
    read(checker, 0, 1, 2, 3)
    checker.stopped_cleanly()
    checker.lost_unflushed()
    end(checker, 0, 1, 2)
    assert kinds(checker) == {Kind.LOST_WRITE, Kind.READ_CHANGED}


def test_a_clean_stop_does_not_bring_back_what_was_lost_before() -> None:
    checker = written()
    checker.lost_unflushed()
    checker.stopped_cleanly()
    end(checker, 0, 1)
    assert checker.anomalies == []


# Reads.


def test_what_was_read_and_is_gone() -> None:
    checker = watching(SHOWN)
    checker.sending(1, HERE, [0, 1])
    read(checker, 0, 1)
    checker.lost_unflushed()
    end(checker, 0)
    assert kinds(checker) == {Kind.READ_CHANGED}


def test_what_was_read_and_is_another() -> None:
    checker = watching(SHOWN)
    checker.sending(1, HERE, [0, 1])
    checker.sending(2, HERE, [9])
    read(checker, 0, 1)
    checker.lost_unflushed()
    read(checker, 0, 9, epoch=1)
    assert kinds(checker) == {Kind.READ_CHANGED}


def test_what_was_read_and_is_acknowledged_for_another() -> None:
    checker = watching(SHOWN)
    checker.sending(1, HERE, [0])
    read(checker, 0)
    checker.sending(2, HERE, [9])
    checker.acknowledged(HERE, 0, [9])
    assert kinds(checker) == {Kind.READ_CHANGED}


def test_a_read_that_nobody_promised_to_keep() -> None:
    checker = watching(LAZY)
    checker.sending(1, HERE, [0, 1])
    read(checker, 0, 1)
    checker.lost_unflushed()
    end(checker, 0)
    assert checker.anomalies == []


def test_an_offset_given_out_again_needs_a_new_epoch() -> None:
    for epoch in (0, 1):
        checker = watching(LAZY)
        checker.sending(1, HERE, [0])
        checker.sending(2, HERE, [9])
        read(checker, 0)
        checker.lost_unflushed()
        read(checker, 9, epoch=epoch)
        assert kinds(checker) == (set() if epoch else {Kind.EPOCH_REUSED})


def test_a_phantom() -> None:
    checker = written()
    read(checker, 77)
    assert Kind.PHANTOM in kinds(checker)


def test_a_record_of_another_partition() -> None:
    checker = watching()
    checker.sending(1, THERE, [5])
    read(checker, 5)
    assert kinds(checker) == {Kind.PHANTOM}


def test_a_gap() -> None:
    checker = written()
    checker.served(HERE, 0, [Served(0, 0, 0), Served(2, 0, 2)], high_watermark=4)
    assert kinds(checker) == {Kind.GAP}
    checker = written(count=2)
    checker.lost_unflushed()
    checker.final(HERE, [Served(1, 0, 1)], start=0, end=2)
    assert kinds(checker) == {Kind.GAP}


@pytest.mark.parametrize(("asked", "wrong"), [(0, True), (1, False), (2, False), (3, True)])
def test_an_answer_to_another_question(asked: int, wrong: bool) -> None:
    checker = written()
    checker.served(HERE, asked, holding(1, 2, start=1), high_watermark=4)
    assert kinds(checker) == ({Kind.WRONG_PLACE} if wrong else set())


def test_a_record_from_beyond_the_watermark() -> None:
    checker = written()
    checker.served(HERE, 0, holding(0, 1), high_watermark=1)
    assert kinds(checker) == {Kind.BEYOND_WATERMARK}


# Producers.


def test_a_duplicate() -> None:
    checker = written()
    end(checker, 0, 1, 2, 3, 3)
    assert kinds(checker) == {Kind.DUPLICATE}


def test_a_producers_records_out_of_order() -> None:
    checker = watching()
    checker.sending(1, HERE, [0])
    checker.sending(1, HERE, [1])
    checker.sending(2, HERE, [2])
    end(checker, 2, 1, 0)
    assert kinds(checker) == {Kind.REORDERED}
    checker = watching()
    checker.sending(1, HERE, [0])
    checker.sending(2, HERE, [1])
    end(checker, 1, 0)
    assert checker.anomalies == []


def test_a_producer_id_given_twice() -> None:
    checker = watching()
    checker.producer_id_given(1)
    checker.producer_id_given(2)
    assert checker.anomalies == []
    checker.producer_id_given(1)
    assert kinds(checker) == {Kind.PRODUCER_ID_REUSED}


def test_a_gap_in_a_sequence_is_told_only_where_something_can_be_lost() -> None:
    for promise, losses, expected in ((LAZY, 0, True), (LAZY, 1, False), (FLUSHED, 0, True), (FLUSHED, 1, True)):
        checker = watching(promise)
        for _ in range(losses):
            checker.lost_unflushed()
        checker.told_of_gap(HERE)
        assert kinds(checker) == ({Kind.FALSE_GAP} if expected else set())


# Deleting.


def test_deleted_records_that_are_back() -> None:
    checker = written()
    checker.deleting_before(HERE, 3)
    checker.deleted_before(HERE, 3)
    assert checker.promised_start(HERE) == 3
    checker.start_told(HERE, 3, promised=3)
    assert checker.anomalies == []
    checker.start_told(HERE, 2, promised=3)
    assert kinds(checker) == {Kind.DELETED_IS_BACK}
    checker = written()
    checker.deleting_before(HERE, 3)
    checker.deleted_before(HERE, 3)
    end(checker, 0, 1, 2, 3)
    assert kinds(checker) == {Kind.DELETED_IS_BACK}


def test_an_answer_from_before_a_deletion_is_none_of_its() -> None:
    checker = written()
    checker.deleting_before(HERE, 3)
    promised = checker.promised_start(HERE)
    checker.deleted_before(HERE, 3)
    checker.start_told(HERE, 0, promised=promised)
    assert checker.anomalies == []


def test_records_that_nobody_asked_to_be_deleted() -> None:
    for promise, asked, start, wrong in (
        (LAZY, (), 1, True),
        (LAZY, (2,), 2, False),
        (LAZY, (2,), 3, True),
        (LAZY, (None,), 4, False),
        (LAZY._replace(expires=True), (), 4, False),
    ):
        checker = written(promise)
        for offset in asked:
            checker.deleting_before(HERE, offset)
        checker.start_told(HERE, start, promised=0)
        assert kinds(checker) == ({Kind.DELETED_UNASKED} if wrong else set())


def test_what_is_before_the_start_need_not_be_there() -> None:
    checker = written(FLUSHED)
    read(checker, 0, 1, 2, 3)
    checker.deleting_before(HERE, 2)
    end(checker, 2, 3, start=2)
    assert checker.anomalies == []


# Topics.


def test_a_topic_that_is_gone() -> None:
    checker = watching()
    checker.topics_listed({"orders": (TOPIC, 2)})
    assert checker.anomalies == []
    for listed in ({}, {"orders": (TOPIC, 1)}, {"orders": (b"another id------", 2)}):
        checker = watching()
        checker.topics_listed(listed)
        assert kinds(checker) == {Kind.TOPIC_LOST}


def test_a_topic_that_may_be_gone() -> None:
    for listed in ({}, {"orders": (TOPIC, 2)}):
        checker = watching()
        checker.topic_may_go("orders")
        checker.topics_listed(listed)
        assert checker.anomalies == []


def test_a_topic_that_is_back() -> None:
    checker = watching()
    checker.topic_may_go("orders")
    checker.topic_gone("orders", TOPIC)
    checker.topics_listed({})
    assert checker.anomalies == []
    checker.topics_listed({"orders": (TOPIC, 2)})
    assert kinds(checker) == {Kind.TOPIC_IS_BACK}


def test_a_topic_made_anew_is_another() -> None:
    checker = written(FLUSHED)
    checker.topic_may_go("orders")
    checker.topic_gone("orders", TOPIC)
    checker.topic_made("orders", b"another id------", partitions=1, promise=FLUSHED)
    checker.topics_listed({"orders": (b"another id------", 1)})
    checker.final(Place(b"another id------", 0), [], start=0, end=0)
    assert checker.anomalies == []
    checker.final(Place(b"another id------", 0), holding(0), start=0, end=1)
    assert Kind.PHANTOM in kinds(checker)


def test_a_setting_that_is_lost() -> None:
    checker = watching()
    checker.config_seen("orders", TOPIC, "key", "default")
    checker.config_sent(TOPIC, "key", "1")
    checker.config_seen("orders", TOPIC, "key", "default")
    checker.config_set(TOPIC, "key", "1")
    checker.config_sent(TOPIC, "key", "2")
    checker.config_seen("orders", TOPIC, "key", "1")
    checker.config_seen("orders", TOPIC, "key", "2")
    assert checker.anomalies == []
    checker.config_seen("orders", TOPIC, "key", "default")
    assert kinds(checker) == {Kind.CONFIG_LOST}


def test_anomalies_say_what_and_where() -> None:
    checker = written()
    end(checker, 0, 1, 2)
    assert "lost_write in orders-0: 3, acknowledged at 3" in str(checker.anomalies[0])
