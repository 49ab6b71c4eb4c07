import asyncio

import pytest

from headrace.server.http import Answer, HttpRefusal, Request, answer_request, encode_answer, parse_request
from headrace.server.prometheus import gauge


@pytest.mark.parametrize(
    ("head", "request_made"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", Request("GET", "/metrics")),
        (b"HEAD /healthz HTTP/1.0\r\n\r\n", Request("HEAD", "/healthz")),
        (b"GET /metrics?name[]=up HTTP/1.1\r\nContent-Length: 0\r\n\r\n", Request("GET", "/metrics", "name[]=up")),
    ],
)
def test_requests(head: bytes, request_made: Request) -> None:
    assert parse_request(head) == request_made


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n", 400),
        (b"GET\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1 more\r\n\r\n", 400),
        (b"GET metrics HTTP/1.1\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\n\r\n", 400),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n: nameless\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n folded: line\r\n\r\n", 400),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"get /metrics HTTP/1.1\r\n\r\n", 405),
        (b"GET /metrics HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413),
        (b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413),
        (b"GET /metrics HTTP/2.0\r\n\r\n", 505),
        # A Kafka client at the wrong door.
        (b"\x00\x00\x00\x1a\x00\x12\x00\x03\x00\x00\x00\x01\x00\x07rdkafka\x00\r\n\r\n", 400),
    ],
)
def test_refusals(head: bytes, status: int) -> None:
    with pytest.raises(HttpRefusal) as refused:
        parse_request(head)
    assert refused.value.answer.status == status


def test_pages() -> None:
    def page(path: str, fault: str | None = None) -> Answer:
        return asyncio.run(answer_request(path, "", collect=lambda: [gauge("up", "Up.", 1)], find_fault=lambda: fault))

    assert page("/metrics").body == "# HELP up Up.\n# TYPE up gauge\nup 1\n"
    assert page("/metrics").content_type.startswith("text/plain; version=0.0.4")
    assert page("/requests") == Answer(200, "{}\n", "application/json")
    assert page("/healthz") == Answer(200, "ok\n")
    assert page("/healthz", "2 partitions offline") == Answer(503, "2 partitions offline\n")
    with pytest.raises(HttpRefusal) as refused:
        page("/")
    assert refused.value.answer.status == 404


@pytest.mark.parametrize(("query", "begins"), [("", False), ("begin", True), ("beginning", False), ("a=begin", False)])
def test_somebody_who_begins_to_count_says_so(query: str, begins: bool) -> None:
    told = asyncio.run(
        answer_request(
            "/requests", query, collect=list, find_fault=lambda: None, tell_requests=lambda begins: (str(begins),)
        )
    )
    assert told.body == str(begins)


def test_answers_on_the_wire() -> None:
    assert encode_answer(Answer(200, "é\n"), with_body=True) == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n"
        b"Connection: close\r\n\r\n\xc3\xa9\n"
    )
    without = encode_answer(Answer(200, "é\n"), with_body=False)
    assert b"Content-Length: 3\r\n" in without
    assert without.endswith(b"\r\n\r\n")
    assert b"Allow: GET, HEAD\r\n" in encode_answer(Answer(405, ""), with_body=True)
