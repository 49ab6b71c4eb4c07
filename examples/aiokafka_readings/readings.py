"""A service on one event loop: readings of sensors come in, and of every few of one sensor their mean goes out.

Runs as a member of the group 'means'. What a sensor sent and has not been averaged yet is not committed, so that a
restart reads it again.
"""

import asyncio
from collections import defaultdict

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


class Means:
    def __init__(self, bootstrap: str, *, readings: str, means: str, every: int) -> None:
        self._means = means
        self._every = every
        self._consumer = AIOKafkaConsumer(
            readings,
            bootstrap_servers=bootstrap,
            group_id="means",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
        self._producer = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True)
        self._seen: defaultdict[bytes, list[float]] = defaultdict(list)

    async def run(self) -> None:
        """Until cancelled, be it while it starts: a member that does not leave is waited for."""
        try:
            await self._producer.start()
            await self._consumer.start()
            async for message in self._consumer:
                sensor, readings = message.key, self._seen[message.key]
                readings.append(float(message.value))
                if len(readings) == self._every:
                    mean = sum(readings) / self._every
                    await self._producer.send_and_wait(self._means, f"{mean:.2f}".encode(), key=sensor)
                    readings.clear()
                    if not any(self._seen.values()):
                        place = TopicPartition(message.topic, message.partition)
                        await self._consumer.commit({place: message.offset + 1})
        finally:
            await self._consumer.stop()
            await self._producer.stop()


async def read_sensor(bootstrap: str, topic: str, sensor: str, values: list[float]) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        await asyncio.gather(*[
            await producer.send(topic, str(value).encode(), key=sensor.encode()) for value in values
        ])
