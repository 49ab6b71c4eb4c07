"""What a node counts, under the names that Prometheus and its users expect.

Reads `statistics()` of the long-lived objects and nothing else. Names follow Prometheus's habits: seconds and bytes,
`_total` for what only rises. One-minute rates are not exported, since whoever scrapes computes better ones.
"""

import os
import resource
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal, NamedTuple

from headrace import __version__
from headrace.node.groups import GroupsStatistics
from headrace.node.meters import Distribution
from headrace.node.node import Node
from headrace.node.statistics import FOLLOWER_FETCH, NodeSnapshot, RequestClassStatistics, TopicStatistics
from headrace.server.disk import SystemDisk
from headrace.server.disk_helper import DiskHelper
from headrace.server.prometheus import Metric, Sample, counter, gauge, histogram_samples
from headrace.server.shell import Shell

# Upper bounds of exported buckets, as powers of two: 16 us to 67 s, and 64 bytes to 64 MiB.
_TIME_BITS: Final = range(4, 27, 2)
_SIZE_BITS: Final = range(6, 27, 2)
_FETCH_KEY: Final = 1


def collect(node: Node, shell: Shell, disk: SystemDisk, helper: DiskHelper) -> Iterator[Metric]:
    """Everything, taken now."""
    snapshot, names = requests_now(node)
    yield Metric("headrace_info", "gauge", "The version that runs.", [Sample(1, {"version": __version__})])
    yield from request_metrics(snapshot.requests, names)
    yield from topic_metrics(snapshot.topics)
    yield from log_metrics(node)
    yield from group_metrics(node.groups.statistics())
    if node.compaction is not None:
        yield from _rows(_COMPACTION_ROWS, node.compaction.statistics())
    yield from _rows(_SESSION_ROWS, node.sessions.statistics())
    yield from _rows(_SHELL_ROWS, shell.statistics())
    yield from _rows(_DISK_ROWS, disk.statistics())
    yield from _rows(_HELPER_ROWS, helper.statistics())
    yield gauge("headrace_disk_free_bytes", "Room left on the file system of the logs.", disk.free_bytes())
    yield from process_metrics()


def requests_now(node: Node, *, begins: bool = False) -> tuple[NodeSnapshot, dict[int, str]]:
    """What was counted of requests and topics, and what the APIs are called."""
    names = {key: api.messages.name for key, api in node.apis.items()}
    counted = node.collected.statistics(now_us=node.clock.mono_us())
    if begins:
        node.collected.forget_arrivals()
    return counted, names


def find_fault(node: Node) -> str | None:
    """Why this node is not well, for `/healthz`."""
    logs = [partition.log for topic in node.topics for partition in topic.partitions]
    offline = sum(log.offline is not None for log in logs)
    return f"{offline} of {len(logs)} partitions are offline" if offline else None


# --- Requests and topics --------------------------------------------------------------------------------------


def request_metrics(requests: tuple[RequestClassStatistics, ...], api_names: Mapping[int, str]) -> Iterator[Metric]:
    """Times of a request in the order it meets them, then sizes. Labelled by API, fetches also by who asks."""

    def labels(one: RequestClassStatistics) -> dict[str, str]:
        return class_labels(one, api_names)

    def histogram(
        name: str, text: str, pick: Callable[[RequestClassStatistics], Distribution], bits: range, scale: float
    ) -> Metric:
        samples = [
            sample
            for one in requests
            for sample in histogram_samples(
                labels(one),
                below=[(_bound(bit, scale), pick(one).count_below(1 << bit)) for bit in bits],
                total=pick(one).total / scale,
                recorded=pick(one).recorded,
            )
        ]
        return Metric(name, "histogram", text, samples)

    yield Metric(
        "headrace_requests_total", "counter", "Requests handled.",
        [Sample(one.requests, labels(one)) for one in requests],
    )  # fmt: skip
    times: tuple[tuple[str, str, Callable[[RequestClassStatistics], Distribution]], ...] = (
        ("queue", "From readable to the handler.", lambda one: one.queue_us),
        ("local", "In the handler.", lambda one: one.local_us),
        ("parked", "Waiting for data, a flush or followers, of those that waited.", lambda one: one.parked_us),
        ("send", "From answered to the last byte taken by the kernel.", lambda one: one.send_us),
        ("interarrival", "Between one request and the next of its kind.", lambda one: one.interarrival_us),
    )
    for word, text, pick in times:
        yield histogram(f"headrace_request_{word}_seconds", text, pick, _TIME_BITS, 1e6)
    yield histogram("headrace_request_size_bytes", "Requests by size.", lambda one: one.request_bytes, _SIZE_BITS, 1)
    yield histogram("headrace_response_size_bytes", "Answers by size.", lambda one: one.response_bytes, _SIZE_BITS, 1)


def class_labels(one: RequestClassStatistics, api_names: Mapping[int, str]) -> dict[str, str]:
    key = _FETCH_KEY if one.api_key == FOLLOWER_FETCH else one.api_key
    source = "follower" if one.api_key == FOLLOWER_FETCH else "client"
    return {"api": api_names.get(key, str(key)), "source": source}


def _bound(bit: int, scale: float) -> float:
    """What is smaller than a power of two is at most one less, of bytes; of time, which is cut, it may be as much."""
    return (1 << bit) - 1 if scale == 1 else (1 << bit) / scale


def topic_metrics(topics: tuple[TopicStatistics, ...]) -> Iterator[Metric]:
    rows: tuple[tuple[str, str, Callable[[TopicStatistics], int]], ...] = (
        ("messages_in", "Messages appended.", lambda one: one.messages_in.counted),
        ("bytes_in", "Bytes of batches appended.", lambda one: one.bytes_in.counted),
        ("bytes_out", "Bytes of batches sent to consumers.", lambda one: one.bytes_out.counted),
    )
    for word, text, pick in rows:
        samples = [Sample(pick(one), {"topic": one.topic}) for one in topics]
        yield Metric(f"headrace_topic_{word}_total", "counter", text, samples)


def log_metrics(node: Node) -> Iterator[Metric]:
    """What lies on disk, by topic: a series for each partition would be too many."""
    sizes, partitions, offline = [], [], 0
    for topic in node.topics:
        logs = [partition.log.statistics() for partition in topic.partitions]
        offline += sum(log.offline is not None for log in logs)
        labels = {"topic": topic.name}
        partitions.append(Sample(len(logs), labels))
        sizes.append(Sample(sum(log.size_bytes for log in logs), labels))
    yield Metric("headrace_topic_partitions", "gauge", "Partitions that this node leads.", partitions)
    yield Metric("headrace_topic_size_bytes", "gauge", "Bytes of log on disk.", sizes)
    yield gauge("headrace_partitions_offline", "Partitions that a disk error has taken offline.", offline)


def group_metrics(groups: GroupsStatistics) -> Iterator[Metric]:
    by_state = [Sample(count, {"state": state}) for state, count in groups.groups_by_state.items()]
    yield Metric("headrace_groups", "gauge", "Consumer groups that this node coordinates.", by_state)
    yield from _rows(_GROUP_ROWS, groups)


# --- Objects whose statistics are plain numbers ---------------------------------------------------------------


class _Row(NamedTuple):
    field: str
    kind: Literal["counter", "gauge"]
    name: str
    help: str
    scale: float = 1


_GROUP_ROWS: Final = (
    _Row("members", "gauge", "headrace_group_members", "Members of all of them."),
    _Row("offsets", "gauge", "headrace_group_offsets", "Offsets that they have committed."),
    _Row("waiting_answers", "gauge", "headrace_group_waiting", "Members that wait for a rebalance."),
    _Row("shards_loading", "gauge", "headrace_group_partitions_loading", "Partitions of offsets still being read."),
)
_COMPACTION_ROWS: Final = (
    _Row("cleanings", "counter", "headrace_compactions_total", "Logs compacted, each time that one was."),
    _Row("failures", "counter", "headrace_compaction_failures_total", "Compactions that were given up."),
    _Row("bytes_read", "counter", "headrace_compaction_read_bytes_total", "Bytes of segments compacted."),
    _Row("bytes_written", "counter", "headrace_compaction_written_bytes_total", "What was left of them."),
    _Row("records_read", "counter", "headrace_compaction_read_records_total", "Records in segments compacted."),
    _Row("records_kept", "counter", "headrace_compaction_kept_records_total", "What was left of them."),
    _Row("uncleanable", "gauge", "headrace_partitions_uncleanable", "Partitions too damaged to be compacted."),
)
_SESSION_ROWS: Final = (
    _Row("sessions", "gauge", "headrace_fetch_sessions", "Incremental fetch sessions kept."),
    _Row("partitions", "gauge", "headrace_fetch_session_partitions", "Partitions in all of them."),
    _Row("evicted", "counter", "headrace_fetch_sessions_evicted_total", "Sessions that gave way to others."),
)
_SHELL_ROWS: Final = (
    _Row("connections", "gauge", "headrace_connections", "Clients connected."),
    _Row("connections_accepted", "counter", "headrace_connections_accepted_total", "Connections accepted."),
    _Row("connections_refused", "counter", "headrace_connections_refused_total", "Connections over a limit."),
    _Row("connections_shed", "counter", "headrace_connections_shed_total", "Connections closed to free memory."),
    _Row("connections_idled", "counter", "headrace_connections_idled_total", "Connections closed for silence."),
    _Row("protocol_errors", "counter", "headrace_protocol_errors_total", "Connections closed for bad input."),
    _Row("sendfile_bytes", "counter", "headrace_sendfile_bytes_total", "Bytes sent without being copied."),
    _Row("memory_used_bytes", "gauge", "headrace_memory_used_bytes", "Memory budget in use."),
    _Row("memory_peak_bytes", "gauge", "headrace_memory_peak_bytes", "The most of it that ever was."),
    _Row("memory_waiting", "gauge", "headrace_memory_waiting", "Connections waiting for some of it."),
    _Row("loop_lag_us_max", "gauge", "headrace_loop_lag_seconds_max",
         "The latest that the event loop was since the last look.", 1e6),
)  # fmt: skip
_DISK_ROWS: Final = (
    _Row("descriptors_open", "gauge", "headrace_files_open", "Files of logs that are open."),
    _Row("descriptors_max", "gauge", "headrace_files_open_max", "How many may be."),
    _Row("opens", "counter", "headrace_files_opened_total", "Files opened."),
    _Row("evictions", "counter", "headrace_files_evicted_total", "Files closed to open others."),
    _Row("append_errors", "counter", "headrace_append_errors_total", "Appends that the disk refused."),
)
_HELPER_ROWS: Final = (
    _Row("starts", "counter", "headrace_disk_helper_starts_total", "Starts of the disk helper process."),
    _Row("deaths", "counter", "headrace_disk_helper_deaths_total", "Its unexpected ends."),
    _Row("in_flight", "gauge", "headrace_disk_helper_in_flight", "What it is working on."),
    _Row("queued", "gauge", "headrace_disk_helper_queued", "What waits for it."),
    _Row("syncs", "counter", "headrace_syncs_total", "Flushes to the device."),
    _Row("sync_errors", "counter", "headrace_sync_errors_total", "Flushes that failed."),
    _Row("sync_us_total", "counter", "headrace_sync_seconds_total", "Time in flushes.", 1e6),
    _Row("warms", "counter", "headrace_cold_reads_total", "Ranges brought into the page cache."),
    _Row("warm_errors", "counter", "headrace_cold_read_errors_total", "Those that failed."),
    _Row("warm_us_total", "counter", "headrace_cold_read_seconds_total", "Time in them.", 1e6),
    _Row("warm_bytes_total", "counter", "headrace_cold_read_bytes_total", "Bytes of them."),
)


def _rows(rows: tuple[_Row, ...], statistics: object) -> Iterator[Metric]:
    for row in rows:
        value = getattr(statistics, row.field)
        yield Metric(row.name, row.kind, row.help, [Sample(value / row.scale if row.scale != 1 else value)])


# --- The process ----------------------------------------------------------------------------------------------


def process_metrics() -> Iterator[Metric]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    yield counter("process_cpu_seconds_total", "CPU time used.", usage.ru_utime + usage.ru_stime)
    resident = resident_bytes()
    if resident is not None:
        yield gauge("process_resident_memory_bytes", "Resident memory.", resident)
    # Kibibytes on Linux, bytes on macOS.
    unit = 1 if sys.platform == "darwin" else 1024
    yield gauge("process_resident_memory_peak_bytes", "The most that it ever was.", usage.ru_maxrss * unit)


def resident_bytes() -> int | None:
    """None where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return None
