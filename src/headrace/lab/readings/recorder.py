"""Requests as somebody between clients and a broker sees them: how many, how large, how far apart, how soon answered.

For brokers that do not count this themselves, by class and in the buckets in which a node does. A request has come when
its last byte has, and is answered when the last byte of its answer is there. What happens to it in between cannot be
told apart from outside, so that there is one time where a node tells four.

Answers of a connection come in the order of its requests: a request that comes before the one that an answer is to
will have none, as none to acks=0 has.

Bytes in, counts out. It knows neither sockets nor clocks, and keeps no bytes but heads. Each direction of a connection
is one thread's; counts are everybody's.
"""

import struct
import threading
from collections import deque
from typing import Final

from headrace.lab.readings.node_counts import RequestClass
from headrace.lab.readings.request_spreads import Spread, Spreads
from headrace.node.meters import Histogram, bucket_floor
from headrace.protocol.frames import SIZE_BYTES

# What is told of a run in which it was done.
RECORDED: Final = "requests were recorded by a proxy before each broker, which adds to every latency and uses CPU"

_REQUEST: Final = struct.Struct(">hhi")  # API key, version, and the number that the answer has, too.
_ANSWER: Final = struct.Struct(">i")
REQUEST_HEAD_BYTES: Final = _REQUEST.size
# Requests without an answer that are remembered, until an answer to a later one comes: a sender with acks=0 gets none.
_PENDING_MAX: Final = 1 << 16

# Those that clients send; any other has its number for a name.
API_NAMES: Final = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 11: "JoinGroup", 12: "Heartbeat", 13: "LeaveGroup", 14: "SyncGroup", 15: "DescribeGroups",
    16: "ListGroups", 17: "SaslHandshake", 18: "ApiVersions", 19: "CreateTopics", 20: "DeleteTopics",
    21: "DeleteRecords", 22: "InitProducerId", 23: "OffsetForLeaderEpoch", 24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn", 26: "EndTxn", 28: "TxnOffsetCommit", 32: "DescribeConfigs", 33: "AlterConfigs",
    35: "DescribeLogDirs", 36: "SaslAuthenticate", 37: "CreatePartitions", 42: "DeleteGroups",
    44: "IncrementalAlterConfigs", 47: "OffsetDelete", 60: "DescribeCluster", 68: "ConsumerGroupHeartbeat",
    69: "ConsumerGroupDescribe", 71: "GetTelemetrySubscriptions", 72: "PushTelemetry", 75: "DescribeTopicPartitions",
}  # fmt: skip


class FrameHeads:
    """The sizes and first bytes of a stream's frames, in whatever pieces it comes."""

    def __init__(self, head_bytes: int) -> None:
        self._begin_bytes = SIZE_BYTES + head_bytes
        self._begin = b""
        self._size = 0
        self._left_bytes = 0
        self._is_lost = False
        self.latest: bytes | None = None  # Of the frame that was begun last.

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that end here: their sizes, without the four bytes that say them, and their heads.

        Once there is one that is too short, it is no stream of such frames, and nothing more is told of it."""
        ended = []
        position = 0
        while position < len(data) and not self._is_lost:
            if self._left_bytes:
                skipped = min(self._left_bytes, len(data) - position)
                self._left_bytes -= skipped
                position += skipped
            else:
                taken = data[position : position + self._begin_bytes - len(self._begin)]
                self._begin += taken
                position += len(taken)
                if len(self._begin) < self._begin_bytes:
                    break
                self._size = int.from_bytes(self._begin[:SIZE_BYTES], "big", signed=True)
                self.latest, self._begin = self._begin[SIZE_BYTES:], b""
                self._left_bytes = self._size - len(self.latest)
                self._is_lost = self._left_bytes < 0
            if not self._left_bytes and self.latest is not None:
                ended.append((self._size, self.latest))
        return ended


class _Class:
    def __init__(self) -> None:
        self.last_ns: int | None = None
        self.spreads = {
            name: Histogram() for name in ("answer_us", "interarrival_us", "request_bytes", "response_bytes")
        }


class RequestRecorder:
    """Of one broker."""

    def __init__(self) -> None:
        self._classes: dict[int, _Class] = {}
        self._counting = threading.Lock()

    def connection(self) -> "RecordedConnection":
        return RecordedConnection(self)

    def count_request(self, api_key: int, *, size_bytes: int, now_ns: int) -> None:
        with self._counting:
            one = self._classes.setdefault(api_key, _Class())
            one.spreads["request_bytes"].record(size_bytes)
            if one.last_ns is not None:  # Of two threads the later may be the first to come here.
                one.spreads["interarrival_us"].record(max(0, now_ns - one.last_ns) // 1000)
            one.last_ns = now_ns

    def count_answer(self, api_key: int, *, size_bytes: int, took_ns: int) -> None:
        with self._counting:
            spreads = self._classes[api_key].spreads
            spreads["answer_us"].record(took_ns // 1000)
            spreads["response_bytes"].record(size_bytes)

    def begin(self) -> Spreads:
        """What there is so far. Those who begin here have nothing to do with the time since a request before that."""
        with self._counting:
            for one in self._classes.values():
                one.last_ns = None
        return self.spreads()

    def spreads(self) -> Spreads:
        """Since it began."""
        with self._counting:
            return {
                RequestClass(API_NAMES.get(key, str(key)), "client"): {
                    name: _spread(histogram) for name, histogram in one.spreads.items()
                }
                for key, one in self._classes.items()
            }


class RecordedConnection:
    def __init__(self, recorder: RequestRecorder) -> None:
        self._recorder = recorder
        self._requests = FrameHeads(_REQUEST.size)
        self._answers = FrameHeads(_ANSWER.size)
        self._pending: deque[tuple[int, int, int]] = deque(maxlen=_PENDING_MAX)

    def asked(self, data: bytes, *, now_ns: int) -> None:
        """Before the broker gets it, so that no answer is there first."""
        for size, head in self._requests.feed(data):
            api_key, _version, number = _REQUEST.unpack(head)
            self._recorder.count_request(api_key, size_bytes=size, now_ns=now_ns)
            self._pending.append((number, api_key, now_ns))

    def answered(self, data: bytes, *, now_ns: int) -> None:
        for size, head in self._answers.feed(data):
            (answered,) = _ANSWER.unpack(head)
            while self._pending:
                number, api_key, asked_ns = self._pending.popleft()
                if number == answered:
                    # Nodes count answers with the bytes that say how long they are, and requests without.
                    self._recorder.count_answer(api_key, size_bytes=SIZE_BYTES + size, took_ns=now_ns - asked_ns)
                    break


def api_key_of(request_head: bytes) -> int:
    api_key: int = _REQUEST.unpack(request_head)[0]
    return api_key


def _spread(histogram: Histogram) -> Spread:
    return Spread(
        histogram.total,
        {
            (bucket_floor(index), bucket_floor(index + 1) - 1): count
            for index, count in enumerate(histogram.counts)
            if count
        },
    )
