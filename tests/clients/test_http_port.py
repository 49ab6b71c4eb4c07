"""The HTTP port of a running node, asked by a stock client and by rude ones."""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headrace.testing.node_process import NodeProcess

_SAMPLE = re.compile(r'[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+')


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, int]]:
    port = free_port()
    data: Path = tmp_path_factory.mktemp("watched") / "data"
    with NodeProcess(data, settings={"http.listen": f"127.0.0.1:{port}"}) as node:
        yield node, port


def ask(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def ask_raw(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


def metrics(port: int) -> dict[str, float]:
    status, text = ask(port, "/metrics")
    assert status == 200
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(_SAMPLE.fullmatch(line) for line in lines)
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_what_was_produced_is_told(watched: tuple[NodeProcess, int]) -> None:
    node, port = watched
    before = metrics(port)
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "1"})
    for number in range(500):
        producer.produce("metered", value=b"%d" % number)
    assert producer.flush(20) == 0
    after = metrics(port)
    assert after['headrace_topic_messages_in_total{topic="metered"}'] == 500
    assert after['headrace_topic_bytes_in_total{topic="metered"}'] > 500
    produced = 'headrace_requests_total{api="Produce",source="client"}'
    assert after[produced] > before.get(produced, 0)
    assert after['headrace_request_send_seconds_count{api="Produce",source="client"}'] == after[produced]
    assert after["headrace_connections"] >= 1


def test_the_pause_before_a_run_is_not_among_its_times_between_requests(watched: tuple[NodeProcess, int]) -> None:
    node, port = watched
    producer = Producer({"bootstrap.servers": node.bootstrap, "acks": "1"})

    def produced(query: str = "") -> tuple[int, int]:
        """Requests, and times between them, since the last look."""
        for _ in range(3):
            producer.produce("paused", value=b"one request")
            assert producer.flush(20) == 0
        status, text = ask(port, f"/requests{query}")
        assert status == 200
        [told] = [each for each in json.loads(text)["classes"] if each["api"] == "Produce"]
        return told["requests"], sum(count for _, _, count in told["interarrival_us"]["buckets"])

    requests, gaps = produced("?begin")
    assert produced() == (requests + 3, gaps + 2)
    assert produced() == (requests + 6, gaps + 5)


def test_health_and_errors(watched: tuple[NodeProcess, int]) -> None:
    _, port = watched
    assert ask(port, "/healthz") == (200, "ok\n")
    assert ask(port, "/healthz", "HEAD") == (200, "")
    assert ask(port, "/")[0] == 404
    assert ask(port, "/metrics", "DELETE")[0] == 405


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"nonsense\r\n\r\n", b"HTTP/1.1 400 "),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", b"HTTP/1.1 431 "),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\n123456789", b"HTTP/1.1 413 "),
        (b"GET /heal", b""),
        (b"", b""),
    ],
)
def test_rude_requests(watched: tuple[NodeProcess, int], request_bytes: bytes, status: bytes) -> None:
    _, port = watched
    answer = ask_raw(port, request_bytes)
    assert answer.startswith(status)
    assert bool(answer) == bool(status)
    assert ask(port, "/healthz") == (200, "ok\n")


def test_more_connections_than_are_served_are_cut_off(watched: tuple[NodeProcess, int]) -> None:
    _, port = watched
    idle = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]
    try:
        # The last ones find no room. Closing one of the first makes some again.
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(port, "/healthz")
    finally:
        for connection in idle:
            connection.close()
    assert _served_again(port)


def _served_again(port: int) -> bool:
    for _ in range(100):
        try:
            return ask(port, "/healthz") == (200, "ok\n")
        except (ConnectionError, http.client.HTTPException):
            continue
    return False
