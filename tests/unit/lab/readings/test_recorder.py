"""Requests as a proxy sees them go by, in whatever pieces, and answers that say by a number which they are to."""

import importlib
import io
import json
import pkgutil
import struct
import threading
from pathlib import Path

import pytest

from headrace.lab.errors import LabError
from headrace.lab.readings.node_counts import RequestClass
from headrace.lab.readings.recorder import API_NAMES, FrameHeads, RecordedConnection, RequestRecorder
from headrace.lab.readings.request_spreads import Spread, Spreads, parse_spreads, read_spreads, since, spreads_json
from headrace.lab.readings.sampler import Sampler
from headrace.node.statistics import NodeStatistics
from headrace.protocol import messages
from headrace.protocol.schema import ApiMessages
from headrace.server.request_page import render_each

PRODUCE, FETCH, METADATA = (RequestClass(name, "client") for name in ("Produce", "Fetch", "Metadata"))
MS = 1_000_000


def request(api_key: int, number: int, *, body_bytes: int = 40) -> bytes:
    content = struct.pack(">hhi", api_key, 9, number) + bytes(body_bytes)
    return struct.pack(">i", len(content)) + content


def answer(number: int, *, body_bytes: int = 20) -> bytes:
    content = struct.pack(">i", number) + bytes(body_bytes)
    return struct.pack(">i", len(content)) + content


def values(spreads: Spreads, kind: RequestClass, name: str) -> tuple[int, float | None]:
    spread = spreads[kind][name]
    return spread.recorded, spread.mean


def test_a_request_and_its_answer() -> None:
    recorder = RequestRecorder()
    connection = recorder.connection()
    connection.asked(request(0, 7, body_bytes=92), now_ns=5 * MS)
    assert values(recorder.spreads(), PRODUCE, "answer_us") == (0, None)
    connection.answered(answer(7, body_bytes=36), now_ns=8 * MS)
    found = recorder.spreads()
    assert list(found) == [PRODUCE]
    assert values(found, PRODUCE, "request_bytes") == (1, 100)
    assert values(found, PRODUCE, "response_bytes") == (1, 44)
    assert values(found, PRODUCE, "answer_us") == (1, 3000)
    assert values(found, PRODUCE, "interarrival_us") == (0, None)


@pytest.mark.parametrize("piece_bytes", [1, 3, 11, 12, 13, 47, 1 << 16])
def test_a_stream_in_pieces_of_any_size_is_the_same_stream(piece_bytes: int) -> None:
    asked = request(0, 1, body_bytes=100) + request(1, 2, body_bytes=0) + request(3, 3, body_bytes=500)
    answered = answer(1, body_bytes=0) + answer(2, body_bytes=900) + answer(3)
    recorder = RequestRecorder()
    connection = recorder.connection()
    for data, take in ((asked, connection.asked), (answered, connection.answered)):
        for begin in range(0, len(data), piece_bytes):
            take(data[begin : begin + piece_bytes], now_ns=begin * 1000)
    found = recorder.spreads()
    assert list(found) == [PRODUCE, FETCH, METADATA]
    for kind, request_bytes, response_bytes in ((PRODUCE, 108, 8), (FETCH, 8, 908), (METADATA, 508, 28)):
        assert values(found, kind, "request_bytes") == (1, request_bytes)
        assert values(found, kind, "response_bytes") == (1, response_bytes)


def test_a_request_has_come_with_its_last_byte_and_so_has_an_answer() -> None:
    recorder = RequestRecorder()
    connection = recorder.connection()
    data, told = request(1, 5), answer(5)
    connection.asked(data[:-1], now_ns=0)
    assert recorder.spreads() == {}
    connection.asked(data[-1:], now_ns=10 * MS)
    connection.answered(told[:9], now_ns=11 * MS)
    assert values(recorder.spreads(), FETCH, "answer_us")[0] == 0
    connection.answered(told[9:], now_ns=14 * MS)
    assert values(recorder.spreads(), FETCH, "answer_us") == (1, 4000)


def test_requests_that_do_not_wait_for_each_other() -> None:
    """Several in one piece, and each with the time until its own answer."""
    recorder = RequestRecorder()
    connection = recorder.connection()
    connection.asked(request(0, 1) + request(0, 2), now_ns=0)
    connection.asked(request(0, 3) + request(1, 4), now_ns=2 * MS)
    connection.answered(answer(1), now_ns=4 * MS)
    connection.answered(answer(2) + answer(3) + answer(4), now_ns=6 * MS)
    found = recorder.spreads()
    assert found[PRODUCE]["answer_us"] == _spread_of(4000, 6000, 4000)
    assert found[FETCH]["answer_us"] == _spread_of(4000)
    assert found[PRODUCE]["interarrival_us"] == _spread_of(0, 2000)


def test_a_request_that_no_answer_comes_to_is_counted_and_not_waited_for() -> None:
    """Produce with acks=0: the number of the next answer says that there was none."""
    recorder = RequestRecorder()
    connection = recorder.connection()
    connection.asked(request(3, 1) + request(0, 2) + request(0, 3) + request(3, 4), now_ns=0)
    connection.answered(answer(1), now_ns=1 * MS)
    connection.answered(answer(4), now_ns=3 * MS)
    found = recorder.spreads()
    assert values(found, PRODUCE, "request_bytes")[0] == 2
    assert values(found, PRODUCE, "answer_us") == (0, None)
    assert values(found, PRODUCE, "response_bytes") == (0, None)
    assert found[METADATA]["answer_us"] == _spread_of(1000, 3000)


def test_those_that_are_never_answered_take_no_memory_without_end() -> None:
    recorder = RequestRecorder()
    connection = recorder.connection()
    for number in range(100_000):
        connection.asked(request(0, number, body_bytes=0), now_ns=number * 1000)
    assert len(connection._pending) < 100_000
    connection.asked(request(3, 100_000), now_ns=0)
    connection.answered(answer(100_000), now_ns=5 * MS)
    found = recorder.spreads()
    assert values(found, PRODUCE, "request_bytes")[0] == 100_000
    assert values(found, METADATA, "answer_us") == (1, 5000)


def test_numbers_are_each_connections_own_and_times_between_arrivals_all_of_thems() -> None:
    recorder = RequestRecorder()
    one, other = recorder.connection(), recorder.connection()
    one.asked(request(0, 1), now_ns=0)
    other.asked(request(0, 1), now_ns=1 * MS)
    one.asked(request(1, 2), now_ns=2 * MS)
    other.answered(answer(1), now_ns=3 * MS)
    one.answered(answer(1), now_ns=10 * MS)
    found = recorder.spreads()
    assert found[PRODUCE]["answer_us"] == _spread_of(2000, 10_000)
    assert found[PRODUCE]["interarrival_us"] == _spread_of(1000)
    assert values(found, FETCH, "interarrival_us")[0] == 0


def test_the_pause_between_two_runs_is_of_neither() -> None:
    recorder = RequestRecorder()
    told = []
    for begin_s in (0, 30):
        into = io.StringIO()
        with Sampler(into=into, recorders={"broker1": recorder}) as sampler:
            sampler.start({})
            for number in range(3):
                recorder.count_request(0, size_bytes=1, now_ns=(begin_s * 1000 + 2 * number) * MS)
        [line] = [each for each in map(json.loads, into.getvalue().splitlines()) if each["type"] == "requests"]
        told.append(line["classes"][0]["interarrival_us"])
    assert [(each["count"], each["mean"]) for each in told] == [(2, 2000), (2, 2000)]


def test_an_answer_to_nothing_is_none() -> None:
    recorder = RequestRecorder()
    connection = recorder.connection()
    connection.answered(answer(1), now_ns=0)
    connection.asked(request(0, 2), now_ns=0)
    connection.answered(answer(99), now_ns=1)
    assert values(recorder.spreads(), PRODUCE, "answer_us")[0] == 0


@pytest.mark.parametrize("bad", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 40, bytes(100), b"\xff" * 100])
def test_what_is_no_such_stream_is_let_alone(bad: bytes) -> None:
    """TLS, say: nothing is known of it, and nobody falls over it."""
    recorder = RequestRecorder()
    connection = recorder.connection()
    for _ in range(3):
        connection.asked(bad, now_ns=0)
        connection.answered(bad, now_ns=0)
    assert all(values(recorder.spreads(), kind, "answer_us")[0] == 0 for kind in recorder.spreads())


def test_the_head_that_came_last_is_known_before_its_frame_has_ended() -> None:
    heads = FrameHeads(2)
    assert heads.latest is None
    assert heads.feed(b"\0\0\0\5ab") == []
    assert heads.latest == b"ab"
    assert heads.feed(b"cde\0\0\0\2xy\0\0\0") == [(5, b"ab"), (2, b"xy")]
    assert heads.latest == b"xy"


def test_apis_have_the_names_that_a_node_has_for_them() -> None:
    ours = {}
    for module in pkgutil.iter_modules(messages.__path__):
        found = vars(importlib.import_module(f"{messages.__name__}.{module.name}")).values()
        ours |= {each.key: each.name for each in found if isinstance(each, ApiMessages)}
    assert len(ours) > 20
    assert ours.items() <= API_NAMES.items()
    recorder = RequestRecorder()
    recorder.connection().asked(request(9999, 1), now_ns=0)
    assert list(recorder.spreads()) == [RequestClass("9999", "client")]


def test_counts_of_many_threads_add_up() -> None:
    recorder = RequestRecorder()

    def ask(connection: RecordedConnection) -> None:
        for number in range(2000):
            connection.asked(request(0, number), now_ns=number)
            connection.answered(answer(number), now_ns=number)

    threads = [threading.Thread(target=ask, args=(recorder.connection(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = recorder.spreads()
    assert values(found, PRODUCE, "request_bytes") == (8000, 48)
    assert values(found, PRODUCE, "answer_us")[0] == 8000
    assert values(found, PRODUCE, "interarrival_us")[0] == 7999


def test_one_reader_reads_what_a_node_and_what_a_proxy_has_counted(tmp_path: Path) -> None:
    recorder, counted = RequestRecorder(), NodeStatistics(now_us=0)
    connection = recorder.connection()
    for number in range(5):
        connection.asked(request(1, number), now_ns=number * 7 * MS)
        connection.answered(answer(number), now_ns=(number * 7 + 2) * MS)
        counted.handled(1, number * 7000, 0, 2000, 48)
    before = recorder.spreads()
    for number in range(20):
        connection.asked(request(0, number), now_ns=number * 3 * MS)
        connection.answered(answer(number), now_ns=(number * 3 + 1) * MS)
        counted.handled(0, number * 3000, 0, 1000, 48)
    of_node = parse_spreads("".join(render_each(counted.statistics(now_us=0), API_NAMES)))
    lines = [
        {"type": "readings", "metrics": []},
        spreads_json({"metrics": "http://node/metrics"}, of_node),
        spreads_json({"broker": "broker1"}, since(before, recorder.spreads())),
        {"type": "bottleneck", "verdict": "none found"},
    ]
    file = tmp_path / "readings-0.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_spreads(file)
    assert list(found) == ["http://node/metrics", "broker1"]
    assert found["http://node/metrics"] == of_node
    assert list(found["broker1"]) == [PRODUCE]  # Of Fetch there was nothing since.
    node, proxy = (found[where][PRODUCE] for where in found)
    for name in ("request_bytes", "interarrival_us"):
        assert node[name] == proxy[name]
    assert node["local_us"] == proxy["answer_us"] == _spread_of(*[1000] * 20)


@pytest.mark.parametrize("text", ["nothing", "[]\n", '{"type": "requests"}\n', '{"no": "type"}\n'])
def test_another_file_is_no_readings(tmp_path: Path, text: str) -> None:
    file = tmp_path / "other"
    file.write_text(text)
    with pytest.raises(LabError, match="is no file of readings"):
        read_spreads(file)
    with pytest.raises(LabError, match="no readings in"):
        read_spreads(tmp_path / "none")


def _spread_of(*values_us: int) -> Spread:
    """As a recorder has it."""
    recorder = RequestRecorder()
    for value in values_us:
        recorder.count_request(0, size_bytes=1, now_ns=0)
        recorder.count_answer(0, size_bytes=1, took_ns=value * 1000)
    return recorder.spreads()[PRODUCE]["answer_us"]
