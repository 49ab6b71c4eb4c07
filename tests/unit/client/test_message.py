"""Message sets, and positions."""

import datetime

import pytest

from headrace.client.message import Message, Partition, messages_of
from headrace.client.positions import ENDS, moment_ms, offset_of


def test_one_message_or_a_set_of_bytes_and_messages() -> None:
    keyed = Message(b"v", key=b"k")
    assert messages_of(keyed) == (keyed,)
    assert messages_of(b"one") == (Message(b"one"),)
    assert messages_of([b"one", keyed, b"two"]) == (Message(b"one"), keyed, Message(b"two"))
    assert messages_of(Message(value) for value in (b"1", None)) == (Message(b"1"), Message(None))
    assert messages_of([]) == ()


@pytest.mark.parametrize("wrong", ["text", ["text"], [1], [None]])
def test_what_is_not_bytes_is_no_message(wrong: object) -> None:
    with pytest.raises(TypeError, match="a message is bytes or a Message, not"):
        messages_of(wrong)  # type: ignore[arg-type]


def test_a_partition_is_as_good_as_the_pair() -> None:
    assert Partition("t", 1) == ("t", 1)
    assert {("t", 1): 5}[Partition("t", 1)] == 5
    assert str(Partition("t", 1)) == "t-1"


def test_positions() -> None:
    assert offset_of(12) == 12
    assert offset_of("smallest") == ENDS["smallest"] < 0
    with pytest.raises(ValueError, match="there is no offset -1"):
        offset_of(-1)
    with pytest.raises(ValueError, match="neither 'smallest' nor 'largest'"):
        offset_of("earliest")  # type: ignore[arg-type]
    assert moment_ms(datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=datetime.UTC)) == 1500
    with pytest.raises(ValueError, match="has no time zone"):
        moment_ms(datetime.datetime(2026, 1, 1))  # noqa: DTZ001
