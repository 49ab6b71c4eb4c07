"""The order service on a real broker. `headrace_broker` and `headrace_topic` come with Headrace."""

import errno
import time
from collections.abc import Iterator

import pytest
from orders import Billing, NotAccepted, Order, OrderDesk

from headrace.testing import Broker

ORDERS = [Order("alice", 300), Order("bob", 100), Order("alice", 250)]
INVOICES = [b"alice owes 3.00", b"bob owes 1.00", b"alice owes 2.50"]


@pytest.fixture
def broker(headrace_broker: Broker) -> Iterator[Broker]:
    """The session's broker, with nothing wrong left over from the test before."""
    yield headrace_broker
    headrace_broker.clear()


@pytest.fixture
def desk(broker: Broker, headrace_topic: str) -> OrderDesk:
    return OrderDesk(broker.bootstrap, headrace_topic)


def invoice(broker: Broker, orders: str, *, count: int, **settings: object) -> list[bytes | None]:
    """Run the service until there are so many invoices."""
    billing = Billing(broker.bootstrap, orders=orders, invoices="invoices", **settings)
    try:
        billing.run(until=lambda: len(broker.records("invoices")) >= count)
    finally:
        billing.close()
    return [record.value for record in broker.records("invoices")]


def test_an_order_is_in_the_log_under_its_customer(broker: Broker, desk: OrderDesk, headrace_topic: str) -> None:
    desk.place(Order("alice", 300))
    (record,) = broker.log(headrace_topic)
    assert record.key == b"alice"
    assert record.value == b'{"customer": "alice", "cents": 300}'


def test_every_order_is_invoiced_and_committed(broker: Broker, desk: OrderDesk, headrace_topic: str) -> None:
    for order in ORDERS:
        desk.place(order)
    assert invoice(broker, headrace_topic, count=3) == INVOICES
    assert broker.groups()["billing"].offsets[headrace_topic, 0].offset == 3


@pytest.mark.headrace_topic(partitions=3)
def test_members_share_the_partitions(broker: Broker, headrace_topic: str) -> None:
    members = [Billing(broker.bootstrap, orders=headrace_topic, invoices="invoices") for _ in range(2)]
    try:

        def is_shared() -> bool:
            group = broker.groups().get("billing")
            shares = [(member.assignment or {}).get(headrace_topic, ()) for member in group.members] if group else []
            return sorted(len(share) for share in shares) == [1, 2]

        # Each must be polled for the group to settle: that is what takes part in a rebalance.
        deadline_s = time.monotonic() + 30
        while not is_shared():
            assert time.monotonic() < deadline_s, broker.groups()
            for member in members:
                polls = iter((False, True))
                member.run(until=lambda polls=polls: next(polls))
    finally:
        for member in members:
            member.close()


def test_an_order_survives_a_change_of_leader(broker: Broker, desk: OrderDesk, headrace_topic: str) -> None:
    with broker.faults.error("NOT_LEADER_OR_FOLLOWER", api="Produce", topic=headrace_topic, times=2) as fault:
        desk.place(Order("alice", 300))
    assert fault.hits == 2
    assert len(broker.log(headrace_topic)) == 1


def test_an_order_is_not_doubled_when_its_acknowledgement_is_lost(
    broker: Broker, desk: OrderDesk, headrace_topic: str
) -> None:
    with broker.faults.disconnect(api="Produce", topic=headrace_topic, handled=True) as fault:
        desk.place(Order("alice", 300))
    assert fault.hits == 1
    assert len(broker.log(headrace_topic)) == 1


def test_a_full_disk_is_told_to_the_customer(broker: Broker, desk: OrderDesk, headrace_topic: str) -> None:
    impatient = OrderDesk(broker.bootstrap, headrace_topic, **{"message.timeout.ms": 300})
    with broker.faults.disk(errno.ENOSPC, topic=headrace_topic, times=None), pytest.raises(NotAccepted):
        impatient.place(Order("alice", 300))
    desk.place(Order("bob", 100))
    assert len(broker.log(headrace_topic)) == 1


def test_billing_goes_on_where_it_was_when_the_broker_is_killed(
    broker: Broker, desk: OrderDesk, headrace_topic: str
) -> None:
    desk.place(ORDERS[0])
    assert invoice(broker, headrace_topic, count=1) == INVOICES[:1]
    broker.kill()
    broker.start()
    for order in ORDERS[1:]:
        desk.place(order)
    assert invoice(broker, headrace_topic, count=3) == INVOICES


def test_orders_are_kept_for_a_week(broker: Broker, desk: OrderDesk, headrace_topic: str) -> None:
    desk.place(Order("alice", 300))
    broker.clock.advance_wall(days=8)
    assert broker.log(headrace_topic).start_offset == 1
