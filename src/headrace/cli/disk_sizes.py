"""How large partitions are on the brokers' disks, asked over a plain socket.

librdkafka has no DescribeLogDirs, so this one request is sent by hand, at the version that every Kafka since
1.0 answers. Through TLS or SASL it is not sent and sizes stay unknown: they are an extra, never a reason to
fail.
"""

import socket
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.errors import ProtocolError
from headrace.ids import TopicName, TopicPartition
from headrace.protocol.frames import FrameReader, frame
from headrace.protocol.header import encode_request_header, parse_response_header
from headrace.protocol.messages.describe_log_dirs import API

_VERSION: Final = 1
_ANSWER_BYTES_MAX: Final = 64 << 20
_RECEIVE_BYTES: Final = 1 << 16

Address = tuple[str, int]


def leader_sizes(
    leaders: Mapping[TopicPartition, Address], *, security_protocol: str, timeout_s: float
) -> dict[TopicPartition, int]:
    """Bytes on the leader's disk for each partition whose leader would say."""
    if security_protocol.lower() != "plaintext":
        return {}
    sizes: dict[TopicPartition, int] = {}
    for address in set(leaders.values()):
        wanted = [partition for partition, leader in leaders.items() if leader == address]
        try:
            sizes |= _ask(address, wanted, timeout_s=timeout_s)
        except (OSError, ProtocolError):
            continue
    return sizes


def _ask(address: Address, wanted: Iterable[TopicPartition], *, timeout_s: float) -> dict[TopicPartition, int]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in wanted:
        by_topic.setdefault(topic, []).append(partition)
    topics = [{"topic": topic, "partitions": partitions} for topic, partitions in by_topic.items()]
    header = encode_request_header(api_key=API.key, api_version=_VERSION, correlation_id=0, client_id="headrace")
    answers = FrameReader(frame_bytes_max=_ANSWER_BYTES_MAX)
    with socket.create_connection(address, timeout=timeout_s) as connection:
        connection.sendall(frame((header, API.request.encode({"topics": topics}, _VERSION))))
        while (answer := answers.next_frame()) is None:
            received = connection.recv(_RECEIVE_BYTES)
            if not received:
                raise ProtocolError(f"{address[0]}:{address[1]} closed the connection")
            answers.receive(received)
    _, position = parse_response_header(answer, api_key=API.key, api_version=_VERSION)
    response = API.response.decode(answer, _VERSION, position)
    return {
        TopicPartition(TopicName(topic["name"]), partition["partition_index"]): partition["partition_size"]
        for log_dir in response["results"]
        for topic in log_dir["topics"]
        for partition in topic["partitions"]
        if not partition["is_future_key"]
    }
