"""Produce, versions 3 to 13; advertised from 0, as Kafka does for librdkafka's sake.

Ignored: the timeout (one node has nobody to wait for; a flush is waited out), and the transactional id, since
transactions are not served: a transactional batch is refused. `min.insync.replicas` asks for no more than the
replicas that a partition has, as in Kafka, so one node always has enough.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, ErrorCode, ProtocolError, StorageError
from headrace.node.apis import Answer, Api, Call
from headrace.node.appending import LONG_MAX, append_batch, gather, write_gathered
from headrace.node.later import Later
from headrace.node.topics import Partition, Topic
from headrace.protocol import produce as wire
from headrace.protocol.batch import LENGTH_END, NO_PRODUCER_ID, TRANSACTIONAL, BatchHeader
from headrace.protocol.messages import produce as messages
from headrace.protocol.produce import PartitionAnswer
from headrace.storage.admission import Unreadable, admit, refuse_keyless

if TYPE_CHECKING:
    from headrace.node.node import Node

# About what one partition's answer takes while it waits for a flush.
_ROW_BYTES: Final = 256
_UNASKED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_REQUIRED_ACKS,
    }
)
Answers = list[wire.TopicAnswers]


class _FlushWait:
    """Answers that may leave only once their records are on disk."""

    __slots__ = ("_answers", "_outstanding", "_version", "later")

    def __init__(self, answers: Answers, version: int) -> None:
        self._answers = answers
        self._version = version
        self._outstanding = 1
        self.later: Later[Answer] = Later()

    def add(self, partition: Partition, end_offset: int, *, topic_at: int, partition_at: int) -> None:
        self._outstanding += 1

        def flushed(error: StorageError | None) -> None:
            if error is not None:
                rows = self._answers[topic_at][1]
                failure = ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
                rows[partition_at] = _failed(rows[partition_at][0], failure)
            self.release()

        partition.log.flush_then(end_offset, flushed)

    def release(self) -> None:
        self._outstanding -= 1
        if self._outstanding == 0:
            self.later.resolve(_encode(self._answers, self._version))


def handle_raw(node: "Node", frame: memoryview, position: int, call: Call) -> Answer | Later[Answer] | None:
    version = call.version
    now_ms = node.clock.wall_ms()
    lone = wire.parse_lone(frame, position, version)
    if lone is None:
        _, acks, _, topics = wire.parse_produce(frame, position, version)
    else:
        acks, only_topic, only_index, only_records = lone
        if acks != 0:
            answer = _append_lone(node, lone, version=version, now_ms=now_ms)
            if answer is not None:
                return answer
        topics = [(only_topic, [(only_index, only_records)])]
    if acks == 0:
        _append_unanswered(node, topics, version=version, now_ms=now_ms)
        return None
    if node.gathered:
        write_gathered(node, now_ms=now_ms)
    answers: Answers = []
    keyed = node.topics.keyed(by_id=version >= wire.TOPIC_IDS_SINCE)
    waiting: _FlushWait | None = None
    for topic_key, partitions in topics:
        if not partitions:
            continue
        topic = keyed.get(topic_key)
        rows: list[PartitionAnswer] = []
        answers.append((topic_key, rows))
        for index, records in partitions:
            try:
                if topic is None or not 0 <= index < len(topic.partitions):
                    raise _missing(topic, version)
                if acks not in (-1, 1):
                    raise ApiError(ErrorCode.INVALID_REQUIRED_ACKS)
                partition = topic.partitions[index]
                batch, header = _admit(topic, records, version=version, now_ms=now_ms)
                written = append_batch(node, partition, batch, header, now_ms=now_ms)
            except ApiError as error:
                rows.append(_failed(index, error, topic))
                continue
            log = partition.log
            rows.append((index, 0, written.base_offset, written.append_time_ms, log.start_offset, None))
            if log.unflushed_messages >= topic.config.flush_messages:
                if waiting is None:
                    waiting = _FlushWait(answers, version)
                waiting.add(partition, written.last_offset + 1, topic_at=len(answers) - 1, partition_at=len(rows) - 1)
    if waiting is not None:
        waiting.later.held_bytes = _ROW_BYTES * sum([len(rows) for _, rows in answers])
        waiting.release()
        return waiting.later
    return _encode(answers, version)


def _append_lone(node: "Node", lone: wire.LoneProduce, *, version: int, now_ms: int) -> Answer | None:
    """One batch for one partition, appended: what nearly every request comes to, without the lists of the others.

    None, and nothing done, where there is more to say or something to wait for.
    """
    acks, topic_key, index, records = lone
    topic = node.topics.keyed(by_id=version >= wire.TOPIC_IDS_SINCE).get(topic_key)
    if (acks != 1 and acks != -1) or topic is None or not 0 <= index < len(topic.partitions):
        return None
    if topic.config.flush_messages != LONG_MAX:
        return None
    try:
        batch, header = _admit(topic, records, version=version, now_ms=now_ms)
    except ApiError:
        return None
    if node.gathered:
        write_gathered(node, now_ms=now_ms)
    partition = topic.partitions[index]
    try:
        written = append_batch(node, partition, batch, header, now_ms=now_ms)
    except ApiError as error:
        rows = [_failed(index, error, topic)]
        return _encode([(topic_key, rows)], version)
    body = wire.encode_lone_answer(
        topic_key, index, written.base_offset, written.append_time_ms, partition.log.start_offset, version
    )
    return [body], len(body)


def _append_unanswered(node: "Node", topics: list[wire.TopicRecords], *, version: int, now_ms: int) -> None:
    keyed = node.topics.keyed(by_id=version >= wire.TOPIC_IDS_SINCE)
    failure: ApiError | None = None
    for topic_key, partitions in topics:
        topic = keyed.get(topic_key)
        for index, records in partitions:
            try:
                if topic is None or not 0 <= index < len(topic.partitions):
                    raise _missing(topic, version)
                batch, header = _admit(topic, records, version=version, now_ms=now_ms)
                if header.producer_id == NO_PRODUCER_ID:
                    gather(node, topic.partitions[index], batch, header)
                    continue
                if node.gathered:
                    write_gathered(node, now_ms=now_ms)
                append_batch(node, topic.partitions[index], batch, header, now_ms=now_ms)
            except ApiError as error:
                failure = error
    if failure is not None:
        # The only way to tell a producer that wants no answer.
        raise ProtocolError(f"a produce without acknowledgement failed: {failure}")


def _admit(topic: Topic, records: memoryview | None, *, version: int, now_ms: int) -> tuple[memoryview, BatchHeader]:
    config = topic.config
    if topic.is_internal:
        raise Unreadable(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {topic.name}")
    if records is None:
        raise Unreadable(ErrorCode.INVALID_RECORD, "Produce requests must have records for every partition")
    header = admit(
        records,
        produce_version=version,
        message_bytes_max=config.max_message_bytes,
        timestamp_max=LONG_MAX if config.log_append_time else now_ms + config.message_timestamp_after_max_ms,
        timestamp_min=now_ms - config.message_timestamp_before_max_ms,
    )
    if header.attributes & TRANSACTIONAL:
        raise Unreadable(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not served by this node.")
    if len(records) != LENGTH_END + header.batch_length:
        records = records[: LENGTH_END + header.batch_length]
    if config.compacts:
        refuse_keyless(records)
    return records, header


def _missing(topic: Topic | None, version: int) -> ApiError:
    by_id = topic is None and version >= wire.TOPIC_IDS_SINCE
    return ApiError(ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _failed(index: int, error: ApiError, topic: Topic | None = None) -> PartitionAnswer:
    # As in Kafka, a log that was asked and refused tells where it begins; one that was not asked does not.
    start_offset = -1
    if topic is not None and error.code not in _UNASKED and not isinstance(error, Unreadable):
        start_offset = topic.partitions[index].log.start_offset
    return index, error.code, -1, -1, start_offset, error.message


def _encode(answers: Answers, version: int) -> Answer:
    body = wire.encode_produce_response(answers, version)
    return [body], len(body)


API = Api(
    messages.API,
    wire.VERSION_MIN,
    wire.VERSION_MAX,
    handle_raw=handle_raw,
    advertised_min=0,
    request_bytes_max=2**31 - 1,
)
