"""The service and its test on one event loop; the broker is in a process of its own beside it."""

import asyncio
import time
import unittest
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from readings import Means, read_sensor

from headrace.testing import Broker, Record


@asynccontextmanager
async def running(broker: Broker, *, every: int) -> AsyncIterator[None]:
    service = asyncio.create_task(Means(broker.bootstrap, readings="readings", means="means", every=every).run())
    try:
        yield
    finally:
        service.cancel()
        with suppress(asyncio.CancelledError):
            await service


async def means(broker: Broker, count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Waiting is for a thread: on this loop the service has to go on."""
    records: list[Record] = await asyncio.to_thread(broker.wait_for_records, "means", count)
    return [(record.key, record.value) for record in records]


class MeansTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.broker = await self.enterAsyncContext(Broker())

    async def test_the_mean_of_every_three(self) -> None:
        await read_sensor(self.broker.bootstrap, "readings", "roof", [1, 2, 6, 10, 20, 30])
        async with running(self.broker, every=3):
            self.assertEqual(await means(self.broker, 2), [(b"roof", b"3.00"), (b"roof", b"20.00")])

    async def test_what_was_not_averaged_is_read_again(self) -> None:
        await read_sensor(self.broker.bootstrap, "readings", "roof", [1, 2])
        async with running(self.broker, every=3):
            await asyncio.to_thread(self.wait_for_member)
        await read_sensor(self.broker.bootstrap, "readings", "roof", [6])
        async with running(self.broker, every=3):
            self.assertEqual(await means(self.broker, 1), [(b"roof", b"3.00")])

    async def test_a_coordinator_that_is_still_loading(self) -> None:
        await read_sensor(self.broker.bootstrap, "readings", "roof", [1, 2, 6])
        with self.broker.faults.error("COORDINATOR_LOAD_IN_PROGRESS", api="JoinGroup") as fault:
            async with running(self.broker, every=3):
                self.assertEqual(await means(self.broker, 1), [(b"roof", b"3.00")])
        self.assertEqual(fault.hits, 1)

    def wait_for_member(self) -> None:
        while not ((group := self.broker.groups().get("means")) and group.state == "Stable"):
            time.sleep(0.01)


if __name__ == "__main__":
    unittest.main()
