"""The sampler: a thread that reads everything once a second, and glances some times in between.

    with Sampler(metrics=[url], into=file) as sampler:
        sampler.start({"client": [...], "broker": [...]})
        ...
    sampler.readings

It is a thread of the lab's own process, which does nothing but listen to its senders meanwhile. Pages of metrics are
fetched by threads of their own: a node that is stopped answers late or never, and the clock goes on.
"""

import os
import random
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

from headrace.lab.bottleneck import Finding, find_bottleneck
from headrace.lab.consuming_bottleneck import find_consuming_bottleneck
from headrace.lab.errors import LabError
from headrace.lab.readings import machine, process_tree
from headrace.lab.readings.consuming_summary import Consuming, consuming_summary
from headrace.lab.readings.glances import Glance, Queues, thread_states
from headrace.lab.readings.lines import Lines
from headrace.lab.readings.machine import Machine
from headrace.lab.readings.metrics_page import fetch, parse_page
from headrace.lab.readings.node_counts import NodeCounts
from headrace.lab.readings.reading import ProcessCounts, Reading, Snapshot, read_between
from headrace.lab.readings.recorder import RequestRecorder
from headrace.lab.readings.request_spreads import fetch_spreads, since, spreads_json
from headrace.lab.readings.summary import links_of, summarise, within
from headrace.lab.sent import Sent, write_line

INTERVAL_S: Final = 1.0
# Between two, by chance: a duty cycle must not keep step with them. A share of a minute is then known to 1%, of five
# seconds to 4%.
_GLANCE_S: Final = (0.02, 0.06)
_QUEUES_EVERY: Final = 6  # Of so many glances one looks at sockets, too: it takes milliseconds, the rest of it a tenth.
CLIENT: Final = "client"
BROKER: Final = "broker"
CONSUMER: Final = "consumer"


def can_read() -> bool:
    """Whether this system tells what readings are made of."""
    return Path("/proc/self/schedstat").exists()


class _Scraper:
    """Keeps the latest page of one URL."""

    def __init__(self, url: str, *, interval_s: float) -> None:
        self.url = url
        self._interval_s = interval_s
        self.latest = self._counts()  # LabError where nobody is there: one is told before anything starts.
        self.first_spreads = fetch_spreads(url, begins=True)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="scraper")

    def _counts(self) -> NodeCounts:
        page = parse_page(fetch(self.url))
        return NodeCounts.of_page(page, mono_ns=time.monotonic_ns())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """It is not waited for: a node that does not answer holds nobody up, and the thread ends with its request."""
        self._stopped.set()

    def _run(self) -> None:
        due_s = time.monotonic()
        while True:
            due_s = max(due_s + self._interval_s, time.monotonic())
            if self._stopped.wait(max(0.0, due_s - time.monotonic())):
                return
            try:
                self.latest = self._counts()
            except LabError:
                continue  # The readings without it tell.


class Sampler:
    def __init__(
        self,
        *,
        metrics: Sequence[str] = (),
        into: IO[str] | None = None,
        interval_s: float = INTERVAL_S,
        recorders: Mapping[str, RequestRecorder] | None = None,
    ) -> None:
        """`metrics` are URLs of pages for Prometheus; `into` gets every reading as a line of JSON. `recorders` are of
        brokers, by their names."""
        if not can_read():
            raise LabError("readings come from /proc, as Linux has it: there is none here")
        self._scrapers = [_Scraper(url, interval_s=interval_s) for url in dict.fromkeys(metrics)]
        self._recorders = {name: (recorder, recorder.begin()) for name, recorder in (recorders or {}).items()}
        self._interval_s = interval_s
        self._into = into
        self._writing = threading.Lock()
        self._lines = Lines()
        self._roles: dict[str, list[int]] = {}
        self._added: dict[str, list[int]] = {}
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._inodes: dict[str, set[int]] = {CLIENT: set(), BROKER: set()}
        self._pids: list[int] = []
        self._glances = 0
        self._chance = random.Random()  # No result depends on it.
        self.cores = machine.cores()
        self.readings: list[Reading] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, roles: Mapping[str, Sequence[int]]) -> None:
        """Watch these processes, each with all that it starts."""
        assert self._thread is None, "already started"
        self._roles = {role: list(pids) for role, pids in roles.items()}
        urls = [scraper.url for scraper in self._scrapers]
        self._write(self._lines.head(roles=self._roles, metrics=urls, cores=self.cores))
        for scraper in self._scrapers:
            scraper.start()
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler")
        self._thread.start()

    def watch(self, role: str, pids: Sequence[int]) -> None:
        """Further processes, from now on: what they did before is in no reading."""
        self._added = {**self._added, role: list(pids)}

    def stop(self) -> None:
        for scraper in self._scrapers:
            scraper.stop()
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
            self._tell_spreads()

    def _tell_spreads(self) -> None:
        """Of the whole run, from each node that has such a page and still answers, and from each proxy that counts."""
        for scraper in self._scrapers:
            if self._into is None or scraper.first_spreads is None:
                continue
            if (last := fetch_spreads(scraper.url)) is not None:
                self._write(spreads_json({"metrics": scraper.url}, since(scraper.first_spreads, last)))
        for name, (recorder, first) in self._recorders.items():
            self._write(spreads_json({"broker": name}, since(first, recorder.spreads())))

    def note_clients(self, statistics: Iterable[Mapping[str, Any]]) -> None:
        """What clients say of themselves, each as a line."""
        for one in statistics:
            self._write({"type": "client", **one})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._into is not None:
            with self._writing:
                write_line(self._into, line)

    def conclude(self, sent: Sent, *, is_proxied: bool = False) -> Finding:
        """What held up the run that was read, as a line; with proxies before the brokers, or without."""
        found = find_bottleneck(replace(summarise(sent, self.readings), is_proxied=is_proxied))
        self._write({"type": "bottleneck", **found.to_json()})
        return found

    def conclude_consuming(self, consuming: Consuming, *, begin_utc_ns: int, end_utc_ns: int) -> Finding | None:
        """What held up those who consumed in between, as a line; None where nothing was read of that time."""
        chosen = within(self.readings, begin_utc_ns, end_utc_ns)
        if not chosen:
            return None
        summary = consuming_summary(consuming, chosen, links_bits_per_s=links_of(chosen))
        found = find_consuming_bottleneck(summary)
        self._write({"type": "consuming", **found.to_json()})
        return found

    def _run(self) -> None:
        before = self._snapshot()
        due_s = time.monotonic()
        while not self._stopped.is_set():
            if self._added:
                added, self._added = self._added, {}
                self._roles = {**self._roles, **added}
                before = self._snapshot()
            due_s = max(due_s + self._interval_s, time.monotonic())
            glances = self._glance_until(due_s)
            after = self._snapshot()
            if glances:
                reading = read_between(before, after, glances, cores=self.cores)
                self.readings.append(reading)
                self._write(self._lines.of(reading))
            before = after

    def _glance_until(self, due_s: float) -> list[Glance]:
        glances = []
        while (left_s := due_s - time.monotonic()) > 0:
            if self._stopped.wait(min(left_s, self._chance.uniform(*_GLANCE_S))):
                break
            glances.append(self._glance())
        return glances

    def _glance(self) -> Glance:
        states = {pid: thread_states(pid) for pid in self._pids}
        self._glances += 1
        if self._glances % _QUEUES_EVERY:
            return Glance(states)
        inodes = self._inodes
        queues = Queues.now(self._pids, client_inodes=inodes[CLIENT], broker_inodes=inodes[BROKER])
        return Glance(states, queues)

    def _snapshot(self) -> Snapshot:
        everyone = process_tree.everyone()
        processes = []
        for role, roots in self._roles.items():
            inodes: set[int] = set()
            trees = {one.pid: one for root in roots for one in process_tree.tree(root, everyone)}
            for process in trees.values():
                processes.append(_counts(role, process))
                inodes |= process_tree.sockets(process.pid)
            self._inodes[role] = inodes
        self._pids = [one.pid for one in processes]
        return Snapshot(
            utc_ns=time.time_ns(),
            mono_ns=time.monotonic_ns(),
            machine=Machine.now(),
            load_1m=os.getloadavg()[0],
            processes=processes,
            nodes={scraper.url: scraper.latest for scraper in self._scrapers},
        )


def _counts(role: str, process: process_tree.Process) -> ProcessCounts:
    read_bytes, written_bytes = _io(process.pid)
    return ProcessCounts(
        role=role,
        pid=process.pid,
        name=process.name,
        cpu_s=process.cpu_s,
        resident_bytes=process_tree.own_resident_bytes(process.pid),
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        threads=process_tree.threads(process.pid),
    )


def _io(pid: int) -> tuple[int | None, int | None]:
    """From and to devices; somebody else's processes do not tell."""
    try:
        return parse_io(Path(f"/proc/{pid}/io").read_text())
    except OSError:
        return None, None


def parse_io(text: str) -> tuple[int, int]:
    fields = dict(line.split(": ") for line in text.splitlines())
    return int(fields["read_bytes"]), int(fields["write_bytes"])
