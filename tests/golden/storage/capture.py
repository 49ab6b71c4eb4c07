"""Writes the golden directory beside it: a partition as Apache Kafka leaves it, after two starts and clean stops.

Run as `python -m tests.golden.storage.capture`; needs Java and Maven. The tests read the files alone.

The topic has segments rolled by time, batches of many sizes with timestamps out of order, an index interval small
enough for many entries, two idempotent producers beside an ordinary one, and two leader epochs.
"""

import shutil

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.golden.storage.files import CHECKPOINTS, GOLDEN, INDEX_INTERVAL_BYTES, SEGMENT_MS, TIME_MS, TOPIC
from tests.oracle.kafka import ApacheKafka


def write(bootstrap: str, *, part: int) -> None:
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0}
    producers = [
        Producer({**settings, "enable.idempotence": True}),
        Producer({**settings, "enable.idempotence": True, "compression.type": "lz4"}),
        Producer(settings),
    ]
    for number in range(60):
        producer = producers[number % 3]
        # Mostly forwards, now and then back, and one jump of more than a segment's time.
        timestamp_ms = TIME_MS + part * 10 * SEGMENT_MS + number * 1000 - (number % 7) * 1500
        if number >= 40:
            timestamp_ms += 2 * SEGMENT_MS
        for record in range(1 + number % 4):
            value = b"%d " % number * (1 + number * 7 % 50)
            producer.produce(TOPIC, key=b"%d" % record, value=value, timestamp=timestamp_ms + record)
        assert producer.flush(30) == 0


def main() -> None:
    properties = {"log.index.interval.bytes": str(INDEX_INTERVAL_BYTES)}
    with ApacheKafka.temporary(properties=properties) as kafka:
        configs = {"segment.ms": str(SEGMENT_MS), "retention.ms": "-1"}
        topic = NewTopic(TOPIC, 1, 1, config=configs)
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        admin.create_topics([topic])[TOPIC].result(30)
        write(kafka.bootstrap, part=0)
        kafka.restart()
        write(kafka.bootstrap, part=1)
        kafka.stop()
        shutil.rmtree(GOLDEN, ignore_errors=True)
        shutil.copytree(kafka.partition_dir(TOPIC, 0), GOLDEN / f"{TOPIC}-0")
        for name in CHECKPOINTS:
            shutil.copy(kafka.data_dir / name, GOLDEN / name)
        kafka.start()  # The end of the block stops it once more.


if __name__ == "__main__":
    main()
