"""The order service again, with nothing but the standard library's unittest."""

import unittest

from orders import Billing, Order, OrderDesk

from headrace.testing import Broker


class OrdersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.broker = cls.enterClassContext(Broker({"num.partitions": 2}))

    def setUp(self) -> None:
        self.broker.clear()  # A few milliseconds; clients that are connected stay so.

    def test_orders_of_one_customer_keep_their_order(self) -> None:
        desk = OrderDesk(self.broker.bootstrap, "orders")
        for cents in range(100, 105):
            desk.place(Order("alice", cents))
        (partition,) = [log for log in (self.broker.log("orders", 0), self.broker.log("orders", 1)) if len(log)]
        self.assertEqual(partition.keys, [b"alice"] * 5)
        self.assertEqual([record.offset for record in partition], [0, 1, 2, 3, 4])

    def test_from_one_state_in_two_directions(self) -> None:
        OrderDesk(self.broker.bootstrap, "orders").place(Order("alice", 300))
        with self.broker.snapshot() as placed:
            self.assertEqual(self.invoice(), [b"alice owes 3.00"])
            self.broker.restore(placed)
            self.assertEqual(self.broker.topics(), {"orders": 2})
            self.assertEqual(self.invoice(), [b"alice owes 3.00"])

    def test_the_broker_starts_empty(self) -> None:
        self.assertEqual(self.broker.topics(), {})

    def invoice(self) -> list[bytes | None]:
        billing = Billing(self.broker.bootstrap, orders="orders", invoices="invoices")
        billing.run(until=lambda: bool(self.broker.records("invoices")))
        billing.close()
        return [record.value for record in self.broker.records("invoices")]


if __name__ == "__main__":
    unittest.main()
