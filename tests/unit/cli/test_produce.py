"""Reading messages from lines and files, and keeping a pace; without a broker."""

import io
from pathlib import Path

import pytest

from headrace.cli import produce
from headrace.cli.message_text import Message
from headrace.cli.output import CommandError
from headrace.cli.produce import Input
from headrace.cli.sending import pacer


def messages_of(path: Path, *, input_as: Input = Input.LINES, separator: bytes | None = None) -> list[Message]:
    parse = produce._parser(input_as, separator=separator)
    return [message for message, _ in produce._messages([path], parse, whole=input_as is Input.FILES)]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return tmp_path / "input"


def test_a_line_is_a_value_without_its_end_and_nothing_else_is_touched(written: Path) -> None:
    written.write_bytes(b"one\n\n two \r\n\xff\xfe\nlast")
    assert [m.value for m in messages_of(written)] == [b"one", b"", b" two \r", b"\xff\xfe", b"last"]
    assert all(message.key is None for message in messages_of(written))


def test_a_line_is_cut_at_the_first_separator(written: Path) -> None:
    written.write_bytes(b"k::v\nk2::v::w\n::no key\nno value::\n")
    assert [(m.key, m.value) for m in messages_of(written, separator=b"::")] == [
        (b"k", b"v"),
        (b"k2", b"v::w"),
        (b"", b"no key"),
        (b"no value", b""),
    ]


def test_a_line_without_the_separator_is_named_with_its_number(written: Path) -> None:
    written.write_bytes(b"a:1\nb:2\nc\n")
    with pytest.raises(CommandError, match=r"input, line 3: no b':' in b'c'"):
        messages_of(written, separator=b":")


def test_json_lines(written: Path) -> None:
    written.write_bytes(b'{"key":"a","value":null,"headers":[["h","x"]],"timestamp_ms":9}\n{"value":"b"}\n')
    assert messages_of(written, input_as=Input.JSON) == [
        Message(b"a", None, [("h", b"x")], timestamp_ms=9),
        Message(None, b"b", []),
    ]


def test_a_whole_file_is_one_message(written: Path) -> None:
    written.write_bytes(b"a\nb\n")
    assert messages_of(written, input_as=Input.FILES) == [Message(None, b"a\nb\n")]


def test_sizes_add_up_to_the_input(written: Path) -> None:
    written.write_bytes(b"one\ntwo\n\nlast")
    parse = produce._parser(Input.LINES, separator=None)
    assert sum(size for _, size in produce._messages([written], parse, whole=False)) == 13


def test_standard_input_is_read_where_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\ny\n")))
    parse = produce._parser(Input.LINES, separator=None)
    assert [message.value for message, _ in produce._messages([], parse, whole=False)] == [b"x", b"y"]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def wait(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_pace_holds_back_what_comes_too_soon() -> None:
    clock = Clock()
    pace = pacer(10.0, now=clock)
    for sent in range(1, 51):
        pace(sent, clock.wait)
    assert clock.now_s == pytest.approx(105.0)


def test_a_pace_catches_up_after_a_pause_but_never_runs_ahead() -> None:
    clock = Clock()
    pace = pacer(10.0, now=clock)
    clock.now_s += 3.0
    for sent in range(1, 31):
        pace(sent, clock.wait)
    assert clock.now_s == 103.0  # Thirty are due by now: no waiting.
    pace(31, clock.wait)
    assert clock.now_s == pytest.approx(103.1)


def test_waits_that_end_early_are_begun_again() -> None:
    clock = Clock()
    pacer(1.0, now=clock)(1, lambda seconds: clock.wait(seconds / 2 + 0.01))
    assert clock.now_s >= 101.0


def test_no_rate_is_no_waiting() -> None:
    pacer(None)(10**9, lambda seconds: pytest.fail("waited"))
