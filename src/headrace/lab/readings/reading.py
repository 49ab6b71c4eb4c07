"""One reading: what machine, processes and nodes did between two snapshots, as shares of the time and by the second.

Pure differences of counts. A process or a thread that came or went in between counts from when it was first seen.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from headrace.lab.readings.glances import Glance, Seen, seen
from headrace.lab.readings.machine import Disk, Interface, Machine
from headrace.lab.readings.node_counts import NodeCounts, NodeReading, between
from headrace.lab.readings.process_tree import Thread

_NS_PER_S = 1e9
_BUSIEST_TOLD = 3  # Threads in a line of JSON.


class ProcessCounts(NamedTuple):
    role: str
    pid: int
    name: str
    cpu_s: float
    resident_bytes: int
    read_bytes: int | None  # From the device; None where one may not know.
    written_bytes: int | None
    threads: Mapping[int, Thread]


class Snapshot(NamedTuple):
    """Counts, all since something began, at one moment."""

    utc_ns: int
    mono_ns: int
    machine: Machine
    load_1m: float
    processes: Sequence[ProcessCounts]
    nodes: Mapping[str, NodeCounts]  # By URL; the latest that was read there, which may be an older one.


class ThreadReading(NamedTuple):
    """Shares of the time."""

    thread: int
    name: str
    ran: float
    waited: float  # Ready to run, without a CPU.
    on_disk: float


class ProcessReading(NamedTuple):
    role: str
    pid: int
    name: str
    cpu_share: float  # Of one core.
    resident_bytes: int
    switches_per_s: float
    read_bytes_per_s: float | None
    written_bytes_per_s: float | None
    stopped: float
    threads: Sequence[ThreadReading]

    def to_json(self) -> dict[str, Any]:
        busiest = sorted(self.threads, key=lambda one: one.ran + one.waited, reverse=True)[:_BUSIEST_TOLD]
        return {
            "role": self.role,
            "pid": self.pid,
            "name": self.name,
            "cpu_share": _short(self.cpu_share),
            "resident_bytes": self.resident_bytes,
            "switches_per_s": _short(self.switches_per_s),
            "read_bytes_per_s": _short(self.read_bytes_per_s),
            "written_bytes_per_s": _short(self.written_bytes_per_s),
            "stopped_share": _short(self.stopped),
            "threads": len(self.threads),
            "busiest": [
                {
                    "name": one.name,
                    "ran_share": _short(one.ran),
                    "waited_share": _short(one.waited),
                    "on_disk_share": _short(one.on_disk),
                }
                for one in busiest
            ],
        }


class MachineReading(NamedTuple):
    cores: int
    busy_share: float  # Of all cores.
    steal_share: float
    load_1m: float
    available_bytes: int
    switches_per_s: float
    io_stalled_share: float | None
    disks: Mapping[str, Mapping[str, float]]
    interfaces: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        told = {name: _short(value) if isinstance(value, float) else value for name, value in self._asdict().items()}
        parts = {"disks": self.disks, "interfaces": self.interfaces}
        short = {
            name: {each: {what: _short(value) for what, value in values.items()} for each, values in part.items()}
            for name, part in parts.items()
        }
        return {**told, **short}


class Reading(NamedTuple):
    utc_ns: int  # The end of it.
    seconds: float
    machine: MachineReading
    processes: Sequence[ProcessReading]
    seen: Seen
    nodes: Mapping[str, NodeReading]  # Without those that did not answer meanwhile.


def read_between(before: Snapshot, after: Snapshot, glances: Sequence[Glance], *, cores: int) -> Reading:
    seconds = (after.mono_ns - before.mono_ns) / _NS_PER_S
    assert seconds > 0
    found = seen(glances)
    earlier = {one.pid: one for one in before.processes}
    nodes = {
        url: one
        for url, counts in after.nodes.items()
        if url in before.nodes and (one := between(before.nodes[url], counts)) is not None
    }
    return Reading(
        utc_ns=after.utc_ns,
        seconds=seconds,
        machine=_machine(before, after, seconds, cores),
        processes=[_process(earlier.get(one.pid), one, seconds, found) for one in after.processes],
        seen=found,
        nodes=nodes,
    )


def _process(before: ProcessCounts | None, after: ProcessCounts, seconds: float, found: Seen) -> ProcessReading:
    old_threads = before.threads if before else {}
    threads, switches = [], 0
    for number, thread in after.threads.items():
        old = old_threads.get(number)
        switches += thread.switches - (old.switches if old else 0)
        threads.append(
            ThreadReading(
                number,
                thread.name,
                ran=(thread.ran_ns - (old.ran_ns if old else 0)) / _NS_PER_S / seconds,
                waited=(thread.waited_ns - (old.waited_ns if old else 0)) / _NS_PER_S / seconds,
                on_disk=found.on_disk.get(number, 0.0),
            )
        )
    return ProcessReading(
        role=after.role,
        pid=after.pid,
        name=after.name,
        cpu_share=(after.cpu_s - (before.cpu_s if before else 0.0)) / seconds,
        resident_bytes=after.resident_bytes,
        switches_per_s=switches / seconds,
        read_bytes_per_s=_rate(before.read_bytes if before else 0, after.read_bytes, seconds),
        written_bytes_per_s=_rate(before.written_bytes if before else 0, after.written_bytes, seconds),
        stopped=found.stopped.get(after.pid, 0.0),
        threads=threads,
    )


def _machine(before: Snapshot, after: Snapshot, seconds: float, cores: int) -> MachineReading:
    old, new = before.machine, after.machine
    stalled = None
    if old.io_stalled_s is not None and new.io_stalled_s is not None:
        stalled = (new.io_stalled_s - old.io_stalled_s) / seconds
    return MachineReading(
        cores=cores,
        busy_share=(new.cpu.busy_s - old.cpu.busy_s) / seconds / cores,
        steal_share=(new.cpu.steal_s - old.cpu.steal_s) / seconds / cores,
        load_1m=after.load_1m,
        available_bytes=new.available_bytes,
        switches_per_s=(new.switches - old.switches) / seconds,
        io_stalled_share=stalled,
        disks={name: _disk(old.disks[name], disk, seconds) for name, disk in new.disks.items() if name in old.disks},
        interfaces={
            name: _interface(old.interfaces[name], one, seconds)
            for name, one in new.interfaces.items()
            if name in old.interfaces
        },
    )


def _disk(before: Disk, after: Disk, seconds: float) -> dict[str, float]:
    writes = after.writes - before.writes
    return {
        "read_bytes_per_s": (after.read_bytes - before.read_bytes) / seconds,
        "written_bytes_per_s": (after.written_bytes - before.written_bytes) / seconds,
        "writes_per_s": writes / seconds,
        "write_ms": (after.write_s - before.write_s) * 1e3 / writes if writes else 0.0,
        "busy_share": (after.busy_s - before.busy_s) / seconds,
    }


def _interface(before: Interface, after: Interface, seconds: float) -> dict[str, float]:
    return {
        f"{name}_per_s": (new - old) / seconds for name, old, new in zip(Interface._fields, before, after, strict=True)
    }


def _rate(before: int | None, after: int | None, seconds: float) -> float | None:
    return None if before is None or after is None else (after - before) / seconds


def _short(value: float | None) -> float | None:
    """Four figures after the point are more than a share has that is measured in clock ticks."""
    return None if value is None else round(value, 4)
