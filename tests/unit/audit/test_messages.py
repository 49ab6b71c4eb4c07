import json

import pytest

from headrace.audit.messages import AuditMessage, BadAuditMessage, Reached, Seen, Sent, encode, newest, parse
from headrace.audit.stamps import SpanId
from headrace.audit.windows import Window


def sent(*, told_by: int = 5, revision: int = 1, handed: int = 100, reserved: int = 128) -> Sent:
    return Sent(
        span=SpanId("web", 5, 2),
        topic="clicks",
        window=Window(120_000, 60_000),
        host="host-a",
        handed=handed,
        reserved=reserved,
        in_doubt=((90, 95),),
        refused=((3, 4),),
        told_by=told_by,
        revision=revision,
    )


SEEN = Seen(
    tier="billing",
    counter="c-1",
    span=SpanId("web", 5, 2),
    topic="clicks",
    block=1,
    runs=((16384, 16400),),
    again=2,
    time_ms_max=130_000,
    revision=4,
)
REACHED = Reached(tier="billing", counter="c-1", topic="clicks", partition=3, first=5, next=77, revision=4)


@pytest.mark.parametrize("message", [sent(), SEEN, REACHED])
def test_messages_come_back_as_they_were(message: AuditMessage) -> None:
    key, value = encode(message)
    assert parse(value) == message
    assert key == message.key.encode()


def test_what_is_published_of_a_span_is_readable() -> None:
    key, value = encode(sent())
    assert key == b"sent/web/5/2"
    assert json.loads(value) == {
        "version": 1,
        "kind": "sent",
        "producer": "web",
        "incarnation": 5,
        "span": 2,
        "host": "host-a",
        "topic": "clicks",
        "window_start_ms": 120_000,
        "window_ms": 60_000,
        "handed": 100,
        "reserved": 128,
        "in_doubt": [[90, 95]],
        "refused": [[3, 4]],
        "told_by": 5,
        "revision": 1,
    }


def test_what_was_acknowledged_and_what_may_exist_follow_from_it() -> None:
    assert sent().acknowledged == ((0, 3), (4, 90), (95, 100))
    assert sent().possible == ((0, 3), (4, 128))
    assert sent(reserved=0).possible == ((0, 3), (4, 100))


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"kind": "heard"},
        {"handed": -1},
        {"handed": "7"},
        {"handed": True},
        {"in_doubt": [[5, 3]]},
        {"in_doubt": [[1]]},
        {"in_doubt": [[1, 2], [2, 3]]},
        {"in_doubt": [["a", "b"]]},
        {"window_start_ms": 1},
        {"window_ms": 0},
        {"topic": None},
    ],
)
def test_what_is_not_understood_is_an_error(change: dict[str, object]) -> None:
    fields = json.loads(encode(sent())[1]) | change
    with pytest.raises(BadAuditMessage):
        parse(json.dumps(fields).encode())


@pytest.mark.parametrize("value", [None, b"", b"null", b"[]", b"{}", b"\xff\xfe"])
def test_what_is_no_object_is_an_error(value: bytes | None) -> None:
    with pytest.raises(BadAuditMessage):
        parse(value)


def test_the_newest_word_counts_whatever_order_it_came_in() -> None:
    old, new, after_death = sent(revision=1), sent(revision=9, handed=120), sent(told_by=6, revision=1, reserved=100)
    assert newest([new, old]) == [new]
    assert newest([after_death, new, old, after_death]) == [after_death]
    assert newest([old, SEEN, REACHED]) == [old, SEEN, REACHED]
