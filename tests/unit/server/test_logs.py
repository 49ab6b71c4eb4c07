import errno
import json

import pytest

from headrace.errors import ConfigError
from headrace.server.logs import EventLog, open_log

_NS = 1_772_357_400_125_999_999  # 2026-03-01T09:30:00.125999999Z


def lines_of(log_to: list[str], **options: object) -> EventLog:
    return EventLog(log_to.append, wall_ns=lambda: _NS, **options)  # type: ignore[arg-type]


def test_a_line() -> None:
    lines: list[str] = []
    lines_of(lines).info("topic created", topic="orders", partitions=3, internal=False, rack=None)
    assert lines == ["2026-03-01T09:30:00.125Z info topic created topic=orders partitions=3 internal=false rack=None\n"]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('a"b', '"a\\"b"'),
        ("a=b", '"a=b"'),
        ("line\nbreak\r\x1b[31m", '"line\\nbreak\\r\\u001b[31m"'),
        ("naïve", "naïve"),
        (OSError(errno.EIO, "Input/output error"), '"OSError: [Errno 5] Input/output error"'),
        (b"\x00\xff", "00ff"),
        (["a", "b"], "a,b"),
        (("a b", 1), '"a b,1"'),
        (0.5, "0.5"),
    ],
)
def test_a_value_is_one_word(value: object, shown: str) -> None:
    lines: list[str] = []
    lines_of(lines).warning("event", value=value)
    assert lines == [f"2026-03-01T09:30:00.125Z warning event value={shown}\n"]


def test_an_event_cannot_break_its_line() -> None:
    lines: list[str] = []
    lines_of(lines).error("two\nlines")
    assert lines == ['2026-03-01T09:30:00.125Z error "two\\nlines"\n']


def test_json() -> None:
    lines: list[str] = []
    lines_of(lines, is_json=True).error("log offline", partition="t-0", error=ValueError("no\n"), size=7, ok=None)
    assert lines[0].count("\n") == 1
    assert json.loads(lines[0]) == {
        "time": "2026-03-01T09:30:00.125Z",
        "level": "error",
        "event": "log offline",
        "partition": "t-0",
        "error": "ValueError: no\n",
        "size": 7,
        "ok": None,
    }


def test_levels_below_the_chosen_one_are_not_written() -> None:
    lines: list[str] = []
    log = lines_of(lines, level="warning")
    for tell in (log.debug, log.info, log.warning, log.error):
        tell("event")
    assert [line.split()[1] for line in lines] == ["warning", "error"]


def test_time_moves_on() -> None:
    lines: list[str] = []
    times = iter([0, 999_999_999, 1_000_000_000])
    log = EventLog(lines.append, wall_ns=lambda: next(times))
    for _ in range(3):
        log.info("tick")
    assert [line.split()[0] for line in lines] == [
        "1970-01-01T00:00:00.000Z",
        "1970-01-01T00:00:00.999Z",
        "1970-01-01T00:00:01.000Z",
    ]


def test_a_lost_reader_costs_the_line_and_not_the_node() -> None:
    def write(_line: str) -> None:
        raise BrokenPipeError

    log = EventLog(write)
    log.info("event")
    log.info("event")
    assert log.lines_lost == 2


def test_the_environment_chooses_the_format(capsys: pytest.CaptureFixture[str]) -> None:
    open_log(level="info", environment={"HEADRACE_LOG": "json"}).info("event")
    assert json.loads(capsys.readouterr().err)["event"] == "event"
    open_log(level="info", environment={}).info("event")
    assert capsys.readouterr().err.endswith(" info event\n")
    with pytest.raises(ConfigError, match="HEADRACE_LOG is 'xml'; it can be text or json"):
        open_log(level="info", environment={"HEADRACE_LOG": "xml"})
