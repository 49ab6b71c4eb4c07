"""A run and its readings, in the few numbers that a verdict on its bottleneck asks for.

Only readings of the time of sending count: afterwards the senders wait for answers, and nobody is behind any more.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from headrace.lab.bottleneck import Counts, Summary
from headrace.lab.readings.machine import link_bits_per_s
from headrace.lab.readings.node_counts import IN_BROKER, RequestClass
from headrace.lab.readings.reading import Reading
from headrace.lab.sent import Flow, Sent
from headrace.lab.sides import Cores, Side

_PRODUCE = RequestClass("Produce", "client")
_LOOPBACK = "lo"
# A virtual machine that warms up compiles without end, beside its work: no request waits for that.
_COMPILERS = ("C1 Compiler", "C2 Compiler")


def summarise(sent: Sent, readings: Sequence[Reading]) -> Summary:
    end_utc_ns = sent.start_utc_ns + round(sent.outcome.elapsed_s * 1e9)
    chosen = within(readings, sent.start_utc_ns, end_utc_ns) or readings
    return summary_of(sent, chosen, links_bits_per_s=links_of(chosen))


def within(readings: Sequence[Reading], begin_utc_ns: int, end_utc_ns: int) -> list[Reading]:
    """One that began before, or ends afterwards, tells of something else as well."""
    return [one for one in readings if begin_utc_ns <= one.utc_ns - one.seconds * 1e9 and one.utc_ns <= end_utc_ns]


def links_of(readings: Sequence[Reading]) -> dict[str, int]:
    """In bits a second, those whose drivers say."""
    return {name: speed for one in readings[-1:] for name in one.machine.interfaces if (speed := link_bits_per_s(name))}


def summary_of(sent: Sent, readings: Sequence[Reading], *, links_bits_per_s: Mapping[str, int]) -> Summary:
    outcome, seconds = sent.outcome, sent.outcome.elapsed_s
    senders_s = max(seconds * sent.scenario.processes, 1e-9)
    unsent_s, unanswered_s = behind_s(sent.flow)
    of_seconds = [sum(counts) / len(sent.flow) for counts in zip(*sent.flow, strict=True)]
    planned_per_s, _, answered_per_s, failed_per_s = of_seconds or (0.0, 0.0, 0.0, 0.0)
    answers = sent.total.latency_sent
    is_answered = sent.total.acknowledged > 0
    link, link_share = busiest_link(readings, links_bits_per_s)
    disk, disk_busy = _busiest_disk(readings)
    return Summary(
        seconds=seconds,
        is_unpaced=sent.scenario.schedule == "unpaced",
        whole=None if sent.flow else Counts(sent.total.planned, sent.delivered, sent.total.failed),
        planned_per_s=planned_per_s,
        answered_per_s=answered_per_s,
        failed_per_s=failed_per_s,
        unsent_s=unsent_s,
        unanswered_s=unanswered_s,
        no_room_share=min(1.0, outcome.no_room_s / senders_s),
        making_share=min(1.0, outcome.making_s / senders_s),
        throttled_share=min(1.0, outcome.throttled_s / senders_s),
        client=side_of(readings, "client"),
        broker=broker_side(readings),
        underway_share=_mean(readings, [one.seen.underway_share for one in readings]) or 0.0,
        unread_share=_mean(readings, [one.seen.unread_share for one in readings]) or 0.0,
        answer_ms=answers.sum_ns / answers.count / 1e6 if is_answered and answers.count else None,
        in_broker_ms=_in_broker_ms(readings),
        sync_share=_sync_share(readings),
        link=link,
        link_share=link_share,
        disk=disk,
        disk_busy_share=disk_busy,
        cores=cores_of(readings),
    )


def behind_s(flow: Sequence[Flow]) -> tuple[float, float]:
    """What was planned and not sent, and sent and neither answered nor failed: at the ends of the seconds of the last
    half, in the mean, and by what was planned a second."""
    planned = sent = done = 0
    unsent, unanswered = [], []
    for one in flow:
        planned, sent, done = planned + one.planned, sent + one.sent, done + one.answered + one.failed
        unsent.append(planned - sent)
        unanswered.append(sent - done)
    if not planned:
        return 0.0, 0.0
    half, planned_per_s = len(flow) // 2, planned / len(flow)
    return max(0.0, fmean(unsent[half:]) / planned_per_s), max(0.0, fmean(unanswered[half:]) / planned_per_s)


def side_of(readings: Sequence[Reading], role: str) -> Side | None:
    """The busiest thread of all processes of a role over all readings; None where none was seen."""
    seconds = sum(one.seconds for one in readings)
    stopped: dict[int, float] = defaultdict(float)
    ran: dict[tuple[int, int], float] = defaultdict(float)
    waited: dict[tuple[int, int], float] = defaultdict(float)
    on_disk: dict[tuple[int, int], float] = defaultdict(float)
    names = {}
    for one in readings:
        for process in one.processes:
            if process.role != role:
                continue
            stopped[process.pid] += process.stopped * one.seconds / seconds
            for thread in process.threads:
                if thread.name.startswith(_COMPILERS):
                    continue
                which = process.pid, thread.thread
                names[which] = thread.name
                ran[which] += thread.ran * one.seconds / seconds
                waited[which] += thread.waited * one.seconds / seconds
                on_disk[which] += thread.on_disk * one.seconds / seconds
    if not names:
        return None
    busiest = max(names, key=lambda which: ran[which] + waited[which] + stopped[which[0]])
    return Side(
        thread=names[busiest],
        ran=ran[busiest],
        waited=waited[busiest],
        stopped=stopped[busiest[0]],
        on_disk=max(on_disk.values()),
    )


def broker_side(readings: Sequence[Reading]) -> Side | None:
    return side_of(readings, "broker") or _remote_side(readings)


def _remote_side(readings: Sequence[Reading]) -> Side | None:
    """By what a node says of its own CPU time, where its process is not here to be looked at."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in readings:
        for url, node in one.nodes.items():
            if node.cpu_share is not None:
                found[url].append(node.cpu_share)
    return Side(ran=max(map(fmean, found.values()))) if found else None


def _in_broker_ms(readings: Iterable[Reading]) -> float | None:
    requests = total_ms = 0.0
    for one in readings:
        for node in one.nodes.values():
            requests += node.requests.get(_PRODUCE, 0.0)
            if _PRODUCE in node.stages:
                total_ms += sum(node.stages[_PRODUCE][stage].total for stage in IN_BROKER)
    return total_ms / requests if requests else None


def _sync_share(readings: Iterable[Reading]) -> float | None:
    """Of the node that flushed most."""
    seconds: dict[str, float] = defaultdict(float)
    flushed: dict[str, float] = defaultdict(float)
    for one in readings:
        for url, node in one.nodes.items():
            if node.sync_share is not None:
                seconds[url] += node.seconds
                flushed[url] += node.sync_share * node.seconds
    return max((flushed[url] / seconds[url] for url in seconds), default=None)


def cores_of(readings: Sequence[Reading]) -> Cores | None:
    if not readings:
        return None
    return Cores(
        busy=_mean(readings, [one.machine.busy_share for one in readings]) or 0.0,
        others=_mean(readings, [_others_share(one) for one in readings]) or 0.0,
        stolen=_mean(readings, [one.machine.steal_share for one in readings]) or 0.0,
    )


def _others_share(reading: Reading) -> float:
    ours = sum(process.cpu_share for process in reading.processes) / reading.machine.cores
    return max(0.0, reading.machine.busy_share - ours)


def busiest_link(readings: Sequence[Reading], links_bits_per_s: Mapping[str, int]) -> tuple[str, float | None]:
    found: dict[str, float] = {}
    for name, bits_per_s in links_bits_per_s.items():
        ways = [
            _mean(readings, [one.machine.interfaces.get(name, {}).get(way, 0.0) * 8 / bits_per_s for one in readings])
            for way in ("sent_bytes_per_s", "received_bytes_per_s")
        ]
        if name != _LOOPBACK:
            found[name] = max((way for way in ways if way is not None), default=0.0)
    if not found:
        return "", None
    busiest = max(found, key=lambda name: found[name])
    return busiest, found[busiest]


def _busiest_disk(readings: Sequence[Reading]) -> tuple[str, float | None]:
    names = {name for one in readings for name in one.machine.disks}
    found = {
        name: _mean(readings, [one.machine.disks.get(name, {}).get("busy_share", 0.0) for one in readings]) or 0.0
        for name in names
    }
    if not found:
        return "", None
    busiest = max(sorted(found), key=lambda name: found[name])
    return busiest, found[busiest]


def _mean(readings: Sequence[Reading], values: Sequence[float]) -> float | None:
    """Weighted by how long each reading took."""
    seconds = sum(one.seconds for one in readings)
    return sum(value * one.seconds for value, one in zip(values, readings, strict=True)) / seconds if seconds else None
