"""Admitted batches into their logs, and what a log's growth brings with it: counts, flushes, readers woken.

Batches whose producers want no answer (acks=0) are gathered over the frames of one read and written with one call for
each log: a call for each of a thousand small batches would take a third of the node's time. Nobody can see the
difference, because what is gathered is written before anything else is looked at. Only batches of an idempotent
producer are not gathered, since each may turn out to be a duplicate.
"""

from typing import TYPE_CHECKING, Final

from headrace.errors import ApiError, DiskFull, ErrorCode, ProtocolError, StorageError
from headrace.node.topics import Partition
from headrace.protocol.batch import BatchHeader
from headrace.storage.log import Appended, Duplicate

if TYPE_CHECKING:
    from headrace.node.node import Node

LONG_MAX: Final = 2**63 - 1
Gathered = dict[Partition, list[tuple[memoryview, BatchHeader]]]


def append_batch(
    node: "Node", partition: Partition, batch: memoryview, header: BatchHeader, *, now_ms: int
) -> Appended | Duplicate:
    try:
        written = partition.log.append(batch, header, now_ms=now_ms, leader_epoch=partition.leader_epoch)
    except StorageError as error:
        raise _told(error) from error
    if isinstance(written, Appended):
        _note_growth(node, partition, header.record_count, len(batch))
    return written


def gather(node: "Node", partition: Partition, batch: memoryview, header: BatchHeader) -> None:
    """To be written by `write_gathered`; the memory of the batch must not change until then."""
    batches = node.gathered.get(partition)
    if batches is None:
        node.gathered[partition] = [(batch, header)]
    else:
        batches.append((batch, header))


def write_gathered(node: "Node", *, now_ms: int) -> None:
    """ProtocolError where something was not written: the only way to tell a producer that wants no answer."""
    gathered, node.gathered = node.gathered, {}
    failure: Exception | None = None
    for partition, batches in gathered.items():
        log = partition.log
        end_before = log.end_offset
        try:
            log.append_all(batches, now_ms=now_ms, leader_epoch=partition.leader_epoch)
        except (ApiError, StorageError) as error:
            failure = error  # Some may stand there all the same, where one segment did not take them all.
        messages = size = 0
        for batch, header in batches:
            if messages == log.end_offset - end_before:
                break
            messages += header.record_count
            size += len(batch)
        if messages:
            _note_growth(node, partition, messages, size)
            if log.unflushed_messages >= partition.topic.config.flush_messages:
                log.flush_then(log.end_offset, _ignore)
    if failure is not None:
        raise ProtocolError(f"a produce without acknowledgement failed: {failure}") from failure


def _note_growth(node: "Node", partition: Partition, messages: int, size: int) -> None:
    topic = partition.topic
    config = topic.config
    topic.traffic.messages_in(messages, size)
    if config.flush_before_expose:
        if config.flush_ms == LONG_MAX:
            # A flush by count may be as long in coming as the messages that it counts; nobody would see these.
            partition.log.flush_then(partition.log.end_offset, _ignore)
    elif partition.watchers:
        partition.notify(size)
    if config.flush_ms != LONG_MAX and not partition.flush_timer_armed:
        node.arm_flush(partition)


def _told(error: StorageError) -> ApiError:
    words = f"No room on the disk: {error}" if isinstance(error, DiskFull) else str(error)
    return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, words)


def _ignore(error: StorageError | None) -> None:
    """A flush nobody waits for; a failure has taken the log offline already."""
