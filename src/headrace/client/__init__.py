"""Message sets and message streams: the interface of the Kafka paper (NetDB'11, section 3) in Python's habits.

    with Producer("localhost:9092") as producer:
        producer.send("topic1", [b"one", b"two"]).result()

    with Consumer("localhost:9092", "group1") as consumer:
        [stream] = consumer.create_message_streams({"topic1": 1})["topic1"]
        for message in stream:
            print(message.value)

Built on confluent-kafka, for any Kafka. `docs/client.md` shows the rest.
"""

from headrace.client.consumer import Committable, Consumer, ConsumerStatistics
from headrace.client.errors import (
    ClientError,
    CommitFailed,
    DeliveryFailed,
    NotOwner,
    StreamEnded,
    UnknownTopic,
    Unreachable,
)
from headrace.client.message import CREATE_TIME, LOG_APPEND_TIME, Message, MessageSet, Partition, Received, Written
from headrace.client.positions import Position
from headrace.client.producer import Partitioner, Producer
from headrace.client.pump import Change, Listener
from headrace.client.receipt import Receipt
from headrace.client.stream import MessageStream

__all__ = [
    "CREATE_TIME",
    "LOG_APPEND_TIME",
    "Change",
    "ClientError",
    "CommitFailed",
    "Committable",
    "Consumer",
    "ConsumerStatistics",
    "DeliveryFailed",
    "Listener",
    "Message",
    "MessageSet",
    "MessageStream",
    "NotOwner",
    "Partition",
    "Partitioner",
    "Position",
    "Producer",
    "Receipt",
    "Received",
    "StreamEnded",
    "UnknownTopic",
    "Unreachable",
    "Written",
]
