"""A node as a process: what it says, how it stops, and what it does when it cannot go on."""

import fcntl
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.frames import FrameReader, frame
from headrace.protocol.header import encode_request_header
from headrace.protocol.messages import MESSAGES
from headrace.server.main import LOCK_FILE

WAIT_S = 30
API_VERSIONS, FETCH, METADATA = 18, 1, 3
SERVE = (sys.executable, "-P", "-m", "headrace.cli.main", "serve")


class Process:
    """A node that is watched from outside: its two streams and its exit status."""

    def __init__(self, *arguments: str, command: tuple[str, ...] = SERVE) -> None:
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.address = ("", 0)

    def wait_ready(self) -> str:
        """The one line of standard output."""
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], WAIT_S)
        assert ready
        line = self._process.stdout.readline().decode()
        host, _, port = line.split()[-1].rpartition(":")
        self.address = (host, int(port))
        return line

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        """Exit status, what more came on standard output, and all of standard error."""
        output, errors = self._process.communicate(timeout=WAIT_S)
        return self._process.returncode, output.decode(), errors.decode()

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, WAIT_S)


@pytest.fixture
def processes() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for process in started:
        process.kill()


class Start:
    def __init__(self, processes: list[Process], data: Path) -> None:
        self._processes = processes
        self.data = data

    def __call__(self, *arguments: str, listen: str = "127.0.0.1:0", command: tuple[str, ...] = SERVE) -> Process:
        process = Process("--data", str(self.data), "--listen", listen, *arguments, command=command)
        self._processes.append(process)
        return process


@pytest.fixture
def start(processes: list[Process], tmp_path: Path) -> Start:
    return Start(processes, tmp_path / "data")


def request(api_key: int, version: int, body: dict[str, object]) -> bytes:
    header = encode_request_header(api_key=api_key, api_version=version, correlation_id=1, client_id="test")
    return frame([header, MESSAGES[api_key].request.encode(body, version)])


def call(sock: socket.socket, data: bytes) -> bytes:
    sock.sendall(data)
    frames = FrameReader(frame_bytes_max=1 << 20)
    while (answer := frames.next_frame()) is None:
        received = sock.recv(1 << 16)
        assert received, "the node closed the connection"
        frames.receive(received)
    return answer


class TestReady:
    def test_one_line_says_so_and_clients_are_served(self, start: Start) -> None:
        process = start()
        line = process.wait_ready()
        with process.connect() as sock:
            assert call(sock, request(API_VERSIONS, 0, {}))
        assert line == f"headrace ready on 127.0.0.1:{process.address[1]}\n"
        process.signal(signal.SIGTERM)
        assert process.end()[:2] == (0, "")

    def test_clients_that_came_too_early_are_served_too(self, start: Start) -> None:
        """They wait in the backlog from the moment that the port is taken."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        process = start(listen=f"127.0.0.1:{port}")
        deadline_s = time.monotonic() + WAIT_S
        while True:
            assert time.monotonic() < deadline_s
            try:
                early = socket.create_connection(("127.0.0.1", port), WAIT_S)
            except ConnectionRefusedError:
                continue
            break
        with early:
            assert call(early, request(API_VERSIONS, 0, {}))
        process.wait_ready()


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_a_signal_stops_it_though_clients_wait(self, start: Start, number: int) -> None:
        process = start()
        process.wait_ready()
        with process.connect() as waiting, process.connect() as half:
            topic = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
            call(waiting, request(METADATA, 4, topic))
            partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
            waiting.sendall(
                request(
                    FETCH,
                    11,
                    {
                        "max_wait_ms": 2**31 - 1,
                        "min_bytes": 1,
                        "max_bytes": 1,
                        "session_epoch": -1,
                        "topics": [{"topic": "t", "partitions": [partition]}],
                    },
                )
            )
            call(half, request(API_VERSIONS, 0, {}))  # By now the fetch waits.
            half.sendall(b"\0\0")
            process.signal(number)
            status, output, errors = process.end()
            assert waiting.recv(1) == b""
            assert half.recv(1) == b""
        assert (status, output) == (0, "")
        assert "stopped clean=true" in errors
        assert "Traceback" not in errors

    def test_it_starts_again_at_once_on_the_same_port(self, start: Start) -> None:
        process = start()
        process.wait_ready()
        with process.connect() as sock:
            call(sock, request(API_VERSIONS, 0, {}))
            # The node closes first, so the port is left in TIME_WAIT.
            process.signal(signal.SIGTERM)
            assert process.end()[0] == 0
        again = start(listen=f"127.0.0.1:{process.address[1]}")
        assert again.wait_ready() == f"headrace ready on 127.0.0.1:{process.address[1]}\n"

    def test_a_killed_one_starts_again_on_the_same_data(self, start: Start) -> None:
        process = start()
        process.wait_ready()
        process.kill()
        again = start()
        again.wait_ready()
        again.signal(signal.SIGTERM)
        assert "clean=false" in again.end()[2]


class TestRefusals:
    """One clear line on standard error, nothing on standard output, a status that is not zero."""

    def refused(self, process: Process) -> str:
        status, output, errors = process.end()
        assert (status, output) == (1, "")
        (line,) = [line for line in errors.splitlines() if line.startswith("headrace: ")]
        assert "Traceback" not in errors
        return line

    def test_data_that_another_node_uses(self, start: Start) -> None:
        start().wait_ready()
        assert self.refused(start()) == (
            f"headrace: {start.data} is in use by another node; stop it or choose another with --data DIR"
        )

    def test_the_lock_is_the_kernels_and_not_the_files(self, start: Start) -> None:
        """A lock file that a killed node left is no obstacle, one that is held is."""
        start.data.mkdir()
        (start.data / LOCK_FILE).touch()
        process = start()
        process.wait_ready()
        process.kill()
        with open(start.data / LOCK_FILE, "rb") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            assert "is in use" in self.refused(start())

    def test_a_port_that_is_taken(self, start: Start) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            line = self.refused(start(listen=address))
        assert line.startswith(f"headrace: cannot listen on {address}: ")
        assert "--listen" in line

    def test_a_setting_that_does_not_exist(self, start: Start) -> None:
        assert "log.retention.ours" in self.refused(start("-o", "log.retention.ours=1"))

    def test_a_value_that_cannot_be(self, start: Start) -> None:
        assert "num.partitions" in self.refused(start("-o", "num.partitions=many"))

    def test_data_that_is_a_file(self, start: Start) -> None:
        start.data.touch()
        assert str(start.data) in self.refused(start())

    def test_data_of_a_format_to_come(self, start: Start) -> None:
        start.data.mkdir()
        (start.data / "meta.properties").write_text("version=1\nheadrace.format=99\n")
        assert "meta.properties" in self.refused(start())

    def test_an_http_address_that_is_taken(self, start: Start) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            assert f"cannot serve HTTP on {address}" in self.refused(start("--http", address))


# A node with one mistake in it, and the `serve` command's arguments.
FAULTY = """
import sys
from headrace.cli.serve import main
{mistake}
sys.exit(main(sys.argv[1:]))
"""
BROKEN_HANDLER = """
from headrace.node import node
handle = node.Node.take
def broken(self, frame, client):
    if b"{word}" in bytes(frame):
        raise {error}("a mistake of ours")
    return handle(self, frame, client)
node.Node.take = broken
"""
BROKEN_TIMER = """
import os
from headrace.node import node
def look(self):
    if os.path.exists({trigger!r}):
        raise KeyError("a mistake of ours")
    self.timers.at(self.clock.mono_us() + 10_000, lambda: look(self))
node.Node._schedule_upkeep = look
"""
BROKEN_STORE = """
import errno
from headrace.node import node
from headrace.store import local
multi_then = local.LocalStore.multi_then
def broken(self, operations, done):
    multi_then(self, operations, lambda error: done(local.StorageError("the journal is full of holes")))
local.LocalStore.multi_then = broken
"""


class TestFaults:
    def faulty(self, start: Start, mistake: str) -> Process:
        return start(command=(sys.executable, "-P", "-c", FAULTY.format(mistake=mistake)))

    def test_a_broken_assertion_ends_the_node_aloud(self, start: Start) -> None:
        process = self.faulty(start, BROKEN_HANDLER.format(word="trigger", error="AssertionError"))
        process.wait_ready()
        with process.connect() as sock:
            sock.sendall(request(METADATA, 4, {"topics": [{"name": "trigger"}], "allow_auto_topic_creation": False}))
            status, _, errors = process.end()
            assert sock.recv(1) == b""
        assert status != 0
        assert "AssertionError: a mistake of ours" in errors
        assert "clean=true" not in errors
        # What follows is an unclean start, which is the tested path.
        again = start()
        again.wait_ready()

    def test_any_other_mistake_in_a_request_ends_its_connection(self, start: Start) -> None:
        process = self.faulty(start, BROKEN_HANDLER.format(word="trigger", error="KeyError"))
        process.wait_ready()
        with process.connect() as unlucky, process.connect() as other:
            unlucky.sendall(request(METADATA, 4, {"topics": [{"name": "trigger"}], "allow_auto_topic_creation": False}))
            assert unlucky.recv(1) == b""
            assert call(other, request(API_VERSIONS, 0, {}))
        process.signal(signal.SIGTERM)
        status, _, errors = process.end()
        assert status == 0
        assert "connection failed" in errors
        assert "a mistake of ours" in errors

    def test_a_mistake_that_is_nobodys_request_ends_the_node(self, start: Start, tmp_path: Path) -> None:
        trigger = tmp_path / "trigger"
        process = self.faulty(start, BROKEN_TIMER.format(trigger=str(trigger)))
        process.wait_ready()
        trigger.touch()
        status, _, errors = process.end()
        assert status != 0
        assert "KeyError: 'a mistake of ours'" in errors

    def test_a_start_that_cannot_be_made_durable_is_no_start(self, start: Start) -> None:
        process = start()
        process.wait_ready()
        with process.connect() as sock:
            call(sock, request(METADATA, 4, {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}))
        process.kill()  # So that the next start has leader epochs to write down.
        status, output, errors = self.faulty(start, BROKEN_STORE).end()
        assert (status, output) == (1, "")
        assert "headrace: the journal is full of holes" in errors
