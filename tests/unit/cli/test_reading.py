"""Where a reader stops, what it leaves out, and how much is printed; against a consumer made of lists."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from headrace.cli.message_text import Encoding, Message, template_renderer
from headrace.cli.reading import Printer, polls, print_all, until_quiet
from headrace.ids import TopicName, TopicPartition


def at(partition: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), partition)


class FakeMessage:
    def __init__(self, partition: int, offset: int, error: KafkaError | None = None) -> None:
        self._partition, self._offset, self._error = partition, offset, error

    def topic(self) -> str:
        return "t"

    def error(self) -> KafkaError | None:
        return self._error

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int:
        return self._offset

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return b"%d/%d" % (self._partition, self._offset)

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5


class FakeConsumer:
    """Gives out prepared polls; asking for more than there are is a test that would have waited for ever."""

    def __init__(self, *polls: list[FakeMessage]) -> None:
        self.polls = list(polls)

    def consume(self, _count: int, _timeout_s: float) -> list[FakeMessage]:
        return self.polls.pop(0)


def end_of(partition: int) -> FakeMessage:
    return FakeMessage(partition, 0, KafkaError(KafkaError._PARTITION_EOF))


def values_read(consumer: Any, ends: dict[int, int] | None, *, count: int | None = None) -> list[list[bytes | None]]:
    read: list[list[bytes | None]] = []
    for messages in polls(consumer, None if ends is None else {at(partition): end for partition, end in ends.items()}):
        read.append([message.value for message in messages])
        if len(read) == count:
            break
    return read


def test_it_stops_when_every_partition_has_come_to_its_end() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), FakeMessage(1, 5)], [], [FakeMessage(0, 1)], [FakeMessage(1, 6)])
    assert values_read(consumer, {0: 2, 1: 7}) == [[b"0/0", b"1/5"], [], [b"0/1"], [b"1/6"]]


def test_what_came_after_the_question_is_no_part_of_the_answer() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), FakeMessage(0, 1), FakeMessage(0, 2)], [FakeMessage(1, 0)])
    assert values_read(consumer, {0: 1, 1: 1}) == [[b"0/0"], [b"1/0"]]


def test_an_end_that_no_message_has_is_still_the_end() -> None:
    # The last offsets are a transaction's marker, or were compacted away.
    assert values_read(FakeConsumer([FakeMessage(0, 0)], [end_of(0)]), {0: 5}) == [[b"0/0"], []]


def test_a_jump_over_the_end_is_the_end() -> None:
    assert values_read(FakeConsumer([FakeMessage(0, 9)]), {0: 5}) == [[]]


def test_nothing_there_is_nothing_asked() -> None:
    assert values_read(FakeConsumer(), {}) == []


def test_a_follower_goes_on_beyond_any_end() -> None:
    consumer = FakeConsumer([FakeMessage(0, 0), end_of(0)], [], [FakeMessage(0, 1)])
    assert values_read(consumer, None, count=3) == [[b"0/0"], [], [b"0/1"]]


def test_an_error_ends_it() -> None:
    failed = FakeMessage(0, 0, KafkaError(KafkaError._AUTO_OFFSET_RESET))
    with pytest.raises(KafkaException):
        values_read(FakeConsumer([failed]), {0: 1})


def printer(count: int | None) -> Printer:
    return Printer(template_renderer("%v", encoding=Encoding.TEXT), ending=b";", count=count)


@pytest.mark.parametrize(
    ("count", "shown"), [(None, b"a;b;c;"), (0, b""), (1, b"a;"), (2, b"a;b;"), (3, b"a;b;c;"), (9, b"a;b;c;")]
)
def test_no_more_than_the_count(count: int | None, shown: bytes, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    print_all([[Message(None, b"a"), Message(None, b"b")], [], [Message(None, b"c")]], printer(count))
    assert capsysbinary.readouterr().out == shown


def test_a_printer_says_what_it_printed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    both = [Message(None, b"a"), Message(None, b"b")]
    limited = printer(3)
    assert limited.print(both) == both
    assert limited.print(both) == both[:1]
    assert limited.is_done()
    assert limited.print(both) == []
    assert (limited.printed, capsysbinary.readouterr().out) == (3, b"a;b;a;")


def test_nothing_for_so_long_is_the_end() -> None:
    times_s = iter([0.0, 1.0, 2.5, 3.0, 4.4, 4.6])
    brought = iter([[], [Message(None, b"a")], [], [], [], [Message(None, b"too late")]])
    quiet = until_quiet(brought, 2.0, now_s=lambda: next(times_s))
    assert [len(messages) for messages in quiet] == [0, 1, 0, 0, 0]
