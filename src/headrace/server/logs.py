"""What happened, on standard error: one line an event, for people first and for machines on request.

    2026-03-01T09:30:00.125Z warning log offline partition=orders-3 error="OSError: [Errno 5] Input/output error"

The fields begin at the first word with an equals sign. `HEADRACE_LOG=json` writes each event as a JSON object. A
value cannot break its line or forge another: whatever is not one plain word is quoted as in JSON.

This is not the `logging` module: a node has one destination and one format, and `Events` in `headrace.node` is all
that logic knows of it. A line that cannot be written is counted and lost, because a node must not stop for its log.
"""

import re
import sys
from collections.abc import Callable, Mapping
from time import gmtime, strftime, time_ns
from typing import Final

from headrace.errors import ConfigError

LEVELS: Final = ("debug", "info", "warning", "error")
_PLAIN: Final = re.compile(r"[^\s\"'=\\\x00-\x1f\x7f]+")


class EventLog:
    """A log that fits `headrace.node.node.Events`."""

    __slots__ = ("_is_json", "_rank_min", "_second", "_second_text", "_wall_ns", "_write", "lines_lost")

    def __init__(
        self,
        write: Callable[[str], object],
        *,
        level: str = "info",
        is_json: bool = False,
        wall_ns: Callable[[], int] = time_ns,
    ) -> None:
        self._write = write
        self._rank_min = LEVELS.index(level)
        self._is_json = is_json
        self._wall_ns = wall_ns
        self._second = -1
        self._second_text = ""
        self.lines_lost = 0

    def debug(self, event: str, /, **fields: object) -> None:
        self._log(0, event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._log(1, event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._log(2, event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._log(3, event, fields)

    def _log(self, rank: int, event: str, fields: Mapping[str, object]) -> None:
        if rank < self._rank_min:
            return
        render = json_line if self._is_json else text_line
        line = render(self._time_text(), LEVELS[rank], event, fields)
        try:
            self._write(line + "\n")
        except (OSError, ValueError):  # The reader has gone away, or the stream was closed under us.
            self.lines_lost += 1

    def _time_text(self) -> str:
        second, ns = divmod(self._wall_ns(), 1_000_000_000)
        if second != self._second:
            self._second = second
            self._second_text = strftime("%Y-%m-%dT%H:%M:%S", gmtime(second))
        return f"{self._second_text}.{ns // 1_000_000:03}Z"


def text_line(time_text: str, level: str, event: str, fields: Mapping[str, object]) -> str:
    words = [time_text, level, _one_line(event)]
    words += [f"{name}={_word(_text(value))}" for name, value in fields.items()]
    return " ".join(words)


def json_line(time_text: str, level: str, event: str, fields: Mapping[str, object]) -> str:
    import json

    plain = {
        name: value if value is None or isinstance(value, bool | int | float) else _text(value)
        for name, value in fields.items()
    }
    return json.dumps({"time": time_text, "level": level, "event": event, **plain}, ensure_ascii=False)


def _text(value: object) -> str:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | bytearray | memoryview):
        return value.hex()
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_fields"):
        return ",".join(map(_text, value))
    return str(value)


def _word(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    import json  # Only for the few values that need it.

    return json.dumps(text, ensure_ascii=False)


def _one_line(event: str) -> str:
    return event if event.isprintable() else _word(event)


def open_log(*, level: str, environment: Mapping[str, str]) -> EventLog:
    """The log of this process, in the format that its environment asks for."""
    form = environment.get("HEADRACE_LOG", "text")
    if form not in ("text", "json"):
        raise ConfigError(f"HEADRACE_LOG is {form!r}; it can be text or json")
    return EventLog(_write_whole, level=level, is_json=form == "json")


def _write_whole(line: str) -> None:
    sys.stderr.write(line)
    sys.stderr.flush()
