"""Readings are differences of snapshots; lines are what is written of them."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import pytest

from headrace.lab.rates import ALPHA
from headrace.lab.readings.glances import Glance, Queues
from headrace.lab.readings.lines import Lines
from headrace.lab.readings.machine import Disk, Interface, Machine, MachineCpu
from headrace.lab.readings.metrics_page import parse_page
from headrace.lab.readings.minute_rates import MinuteRates
from headrace.lab.readings.node_counts import NodeCounts
from headrace.lab.readings.process_tree import Thread
from headrace.lab.readings.reading import ProcessCounts, Snapshot, read_between
from headrace.lab.readings.sampler import Sampler, parse_io
from headrace.lab.readings.sockets import Waiting

URL = "http://node/metrics"


def snapshot(at_s: float, *, times: int) -> Snapshot:
    """Everything has happened so many times."""
    requests = f'headrace_requests_total{{api="Produce",source="client"}} {100 * times}'
    page = f"{requests}\nprocess_cpu_seconds_total {times}\n"
    return Snapshot(
        utc_ns=round((1_700_000_000 + at_s) * 1e9),
        mono_ns=round(at_s * 1e9),
        machine=Machine(
            cpu=MachineCpu(busy_s=1.0 * times, steal_s=0.1 * times),
            switches=1000 * times,
            available_bytes=5 << 30,
            disks={"vda": Disk(10 * times, 20 * times, 2 * times, 0.01 * times, 0.5 * times)},
            interfaces={"lo": Interface(*(each * times for each in (1000, 10, 2000, 20)))},
            io_stalled_s=None,
        ),
        load_1m=1.5,
        processes=[
            ProcessCounts(
                "broker", 7, "node", 0.8 * times, 100 << 20, None, 4096 * times,
                {
                    7: Thread("loop", 700_000_000 * times, 200_000_000 * times, 50 * times),
                    8: Thread("other", 0, 0, 0),
                },
            )
        ],
        nodes={URL: NodeCounts.of_page(parse_page(page), mono_ns=round(at_s * 1e9))},
    )  # fmt: skip


def test_a_reading_is_what_happened_by_the_second() -> None:
    glances = [
        Glance({7: {7: "T", 8: "D"}}, Queues(Waiting(5, 0), Waiting(0, 0))),
        Glance({7: {7: "R", 8: "S"}}),
    ]
    found = read_between(snapshot(10.0, times=1), snapshot(12.0, times=3), glances, cores=4)
    assert found.seconds == 2.0
    assert found.machine.busy_share == pytest.approx(1.0 / 4)
    assert found.machine.steal_share == pytest.approx(0.1 / 4)
    assert found.machine.disks["vda"] == pytest.approx(
        {"read_bytes_per_s": 10, "written_bytes_per_s": 20, "writes_per_s": 2, "write_ms": 5, "busy_share": 0.5}
    )
    assert found.machine.interfaces["lo"]["sent_bytes_per_s"] == 2000
    (process,) = found.processes
    assert (process.cpu_share, process.switches_per_s, process.stopped) == pytest.approx((0.8, 50, 0.5))
    assert (process.read_bytes_per_s, process.written_bytes_per_s) == (None, 4096)
    loop, other = process.threads
    assert (loop.ran, loop.waited, loop.on_disk, other.on_disk) == pytest.approx((0.7, 0.2, 0.0, 0.5))
    assert found.nodes[URL].cpu_share == pytest.approx(1.0)


def test_a_line_is_in_utc_and_has_rates_of_both_kinds() -> None:
    lines, told = Lines(), {}
    for second in range(1, 66):
        found = read_between(snapshot(second, times=second), snapshot(second + 1, times=second + 1), [], cores=2)
        told = json.loads(json.dumps(lines.of(found)))
    assert told["utc"] == "2023-11-14T22:14:26.000+00:00"
    assert told["nodes"][URL]["requests"]["Produce"] == {
        "per_s": 100, "per_s_one_minute_ewma": 100, "per_s_60s_window": 100,
    }  # fmt: skip
    assert told["machine"]["interfaces"]["lo"]["received_packets_per_s"] == 10
    assert told["processes"][0]["busiest"][0] == {
        "name": "loop", "ran_share": 0.7, "waited_share": 0.2, "on_disk_share": 0,
    }  # fmt: skip


def test_one_minute_rates_follow_a_step_as_kafkas_do() -> None:
    rates = MinuteRates()
    for _ in range(5):
        told = rates.add({"a": 0.0}, seconds=1.0)["a"]
    assert told == {"per_s": 0, "per_s_one_minute_ewma": 0, "per_s_60s_window": None}
    for _ in range(5):
        told = rates.add({"a": 10.0}, seconds=1.0)["a"]
    assert told["per_s_one_minute_ewma"] == pytest.approx(10 * ALPHA, abs=1e-3)
    told = rates.add({"a": 500.0}, seconds=50.0)["a"]  # A look that came late.
    assert told["per_s_one_minute_ewma"] == pytest.approx(10 * (1 - (1 - ALPHA) ** 11), abs=1e-3)
    assert told["per_s_60s_window"] == pytest.approx(10 * 55 / 60, abs=1e-3)


def test_bytes_from_and_to_devices() -> None:
    assert parse_io("rchar: 1\nwchar: 2\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 0\n") == (3, 4)


class Told(StringIO):
    """Says when there are readings in it."""

    def __init__(self) -> None:
        super().__init__()
        self.has_reading = threading.Event()

    def write(self, text: str) -> int:
        if '"reading"' in text:
            self.has_reading.set()
        return super().write(text)


def test_a_sampler_sees_who_works() -> None:
    busy = "import sys\nsys.stdin.readline()\nwhile True: pass"
    into = Told()
    with (
        subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE) as child,
        Sampler(into=into, interval_s=0.3) as sampler,
    ):
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.flush()
        try:
            sampler.start({"client": [child.pid], "broker": []})
            assert into.has_reading.wait(60)
        finally:
            child.kill()
    head, *lines = map(json.loads, into.getvalue().splitlines())
    assert head["processes"] == {"client": [child.pid], "broker": []}
    assert lines[0]["type"] == "reading"
    assert lines[0]["processes"][0]["pid"] == child.pid
    thread = sampler.readings[0].processes[0].threads[0]
    assert thread.ran + thread.waited > 0.5  # It wanted to all the time.


class OncePage(BaseHTTPRequestHandler):
    """A page of metrics that is there the first time only."""

    asked = 0

    def do_GET(self) -> None:
        type(self).asked += 1
        is_there = self.path == "/metrics" and self.asked == 1
        body = b"process_cpu_seconds_total 1\n" if is_there else b""
        self.send_response(200 if is_there else 500)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None: ...


def test_a_node_that_answers_no_more_does_not_end_the_readings() -> None:
    into = Told()
    with ThreadingHTTPServer(("127.0.0.1", 0), OncePage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with Sampler(metrics=[url], into=into, interval_s=0.2) as sampler:
            sampler.start({"client": [], "broker": []})
            assert into.has_reading.wait(60)
        server.shutdown()
    assert sampler.readings[0].nodes == {}
    assert sampler.readings[0].machine.cores >= 1
