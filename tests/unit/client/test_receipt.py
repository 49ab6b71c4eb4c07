"""Receipts: whole or failed, and never more than was acknowledged."""

import asyncio
from concurrent.futures import wait

import pytest

from headrace.client.errors import DeliveryFailed
from headrace.client.message import Written
from headrace.client.receipt import Receipt


def test_done_once_every_message_is_acknowledged_in_the_order_of_the_set() -> None:
    receipt = Receipt("t", 2)
    receipt.note_written(1, Written(0, 8))
    assert not receipt.done()
    receipt.note_written(0, Written(3, 7))
    assert receipt.result(0) == (Written(3, 7), Written(0, 8))


def test_a_failure_waits_for_the_rest_and_tells_them_apart() -> None:
    receipt = Receipt("t", 3)
    receipt.note_failure(1, "too large (MSG_SIZE_TOO_LARGE)")
    receipt.note_written(0, Written(0, 0))
    assert not receipt.done()
    receipt.note_written(2, Written(0, 1))
    with pytest.raises(DeliveryFailed) as raised:
        receipt.result(0)
    assert raised.value.written == (Written(0, 0), None, Written(0, 1))
    assert raised.value.failures == {1: "too large (MSG_SIZE_TOO_LARGE)"}
    assert str(raised.value) == (
        "1 of 3 messages to t were not acknowledged; the first is number 1: too large (MSG_SIZE_TOO_LARGE)"
    )


def test_an_empty_set_is_written() -> None:
    assert Receipt("t", 0).result(0) == ()


def test_what_was_sent_cannot_be_taken_back() -> None:
    receipt = Receipt("t", 1)
    assert not receipt.cancel()
    receipt.note_written(0, Written(0, 0))
    assert wait([receipt], timeout=0).done == {receipt}


def test_whether_anybody_looked() -> None:
    receipt = Receipt("t", 1)
    assert not receipt.is_looked_at
    receipt.note_failure(0, "why")
    assert not receipt.is_looked_at
    assert isinstance(receipt.exception(0), DeliveryFailed)
    assert receipt.is_looked_at


def test_awaited() -> None:
    async def send() -> tuple[Written, ...]:
        receipt = Receipt("t", 1)
        asyncio.get_running_loop().call_soon(receipt.note_written, 0, Written(1, 2))
        return await receipt

    assert asyncio.run(send()) == (Written(1, 2),)
