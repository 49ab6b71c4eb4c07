"""A checker that has never found anything is not known to look: each anomaly is planted here."""

import pytest

from tests.proofs.ledger import MESSAGE_BYTES_MIN, Anomaly, Ledger, Message, Place, decode_message, encode_message

PLACE = Place("topic", 1)


def ledger_with(*offsets: int | None) -> tuple[Ledger, list[bytes]]:
    """One writer's messages, acknowledged at these offsets or (None) not at all, and what each looks like."""
    ledger, values = Ledger(), []
    for offset in offsets:
        message = ledger.send(7, PLACE)
        values.append(encode_message(message, size=50))
        if offset is not None:
            ledger.acknowledge(message, PLACE, offset)
    return ledger, values


def find_all(ledger: Ledger, *found: tuple[int, bytes]) -> None:
    for offset, value in found:
        ledger.find(PLACE, offset, value)
    ledger.check_complete(PLACE)


def test_what_was_acknowledged_and_found_is_in_order() -> None:
    ledger, values = ledger_with(0, 1, 2)
    find_all(ledger, *enumerate(values))
    assert (ledger.sent, ledger.acknowledged, ledger.found) == (3, 3, 3)
    assert ledger.count_sent() == {PLACE: 3}


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_an_acknowledged_message_that_is_missing_is_lost(missing: int) -> None:
    ledger, values = ledger_with(0, 1, 2)
    rest = [found for found in enumerate(values) if found[0] != missing]
    with pytest.raises(Anomaly, match=f"lost.*sequence {missing}"):
        find_all(ledger, *rest)


def test_an_unknown_message_may_be_missing_or_found_once() -> None:
    ledger, values = ledger_with(0, None, 1)
    find_all(ledger, (0, values[0]), (1, values[2]))
    ledger, values = ledger_with(0, None, 2)
    find_all(ledger, *enumerate(values))
    ledger, values = ledger_with(0, None)
    with pytest.raises(Anomaly, match="duplicate"):
        find_all(ledger, (0, values[0]), (1, values[1]), (2, values[1]))


def test_a_message_found_twice_is_a_duplicate() -> None:
    ledger, values = ledger_with(0, 1)
    with pytest.raises(Anomaly, match="duplicate"):
        find_all(ledger, (0, values[0]), (1, values[1]), (2, values[0]))


def test_messages_that_changed_places_are_out_of_order() -> None:
    ledger, values = ledger_with(-1, -1)
    with pytest.raises(Anomaly, match="out of order"):
        find_all(ledger, (0, values[1]), (1, values[0]))


def test_a_message_elsewhere_than_acknowledged_has_moved() -> None:
    ledger, values = ledger_with(5)
    with pytest.raises(Anomaly, match="moved"):
        find_all(ledger, (6, values[0]))


@pytest.mark.parametrize(
    "message", [Message(7, 1, 1), Message(8, 1, 0), Message(7, 0, 0)], ids=["sequence", "writer", "partition"]
)
def test_a_message_that_was_never_sent_there_is_a_phantom(message: Message) -> None:
    ledger, _ = ledger_with(0)
    with pytest.raises(Anomaly, match="phantom"):
        ledger.find(PLACE, 0, encode_message(message, size=50))


@pytest.mark.parametrize("value", [None, b"", b"x" * (MESSAGE_BYTES_MIN - 1), b"x" * 100])
def test_bytes_that_are_no_message_are_phantoms(value: bytes | None) -> None:
    with pytest.raises(Anomaly, match="phantom"):
        decode_message(value)


def test_every_byte_of_a_message_counts() -> None:
    value = encode_message(Message(1, 2, 3), size=64)
    assert decode_message(value) == Message(1, 2, 3)
    for at in range(len(value)):
        changed = bytearray(value)
        changed[at] ^= 1
        try:
            assert decode_message(bytes(changed)) != Message(1, 2, 3)
        except Anomaly:
            continue


def test_an_acknowledgement_comes_once() -> None:
    ledger = Ledger()
    message = ledger.send(1, PLACE)
    ledger.acknowledge(message, PLACE, 0)
    with pytest.raises(Anomaly, match="acknowledged twice"):
        ledger.acknowledge(message, PLACE, 1)


def test_a_message_can_be_taken_back_before_it_leaves() -> None:
    ledger = Ledger()
    ledger.unsend(ledger.send(1, PLACE), PLACE)
    assert ledger.sent == 0
    assert ledger.send(1, PLACE).sequence == 0


def test_everything_can_be_read_again() -> None:
    ledger, values = ledger_with(0, 1)
    find_all(ledger, *enumerate(values))
    ledger.forget_found()
    with pytest.raises(Anomaly, match="lost"):
        find_all(ledger, (0, values[0]))
