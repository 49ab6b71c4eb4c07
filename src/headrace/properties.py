"""Java properties, the format of `java.util.Properties`, in which Kafka's people keep settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError


def read_properties(path: Path) -> dict[str, str]:
    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, ConfigError) as error:
        raise ConfigError(f"{path}: {error}") from error


_CONTINUED: Final = re.compile(r"(?:^|[^\\])(?:\\\\)*\\$")
_KEY: Final = re.compile(r"(?:\\.|[^\\\s=:])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """The format of `java.util.Properties`: of two lines with one key, the later counts."""
    properties = {}
    for line in _logical_lines(text):
        key = _KEY.match(line)
        assert key is not None
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        properties[_unescape(key[0])] = _unescape(line[separator.end() :])
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blanks, with those that a backslash continues made one."""
    begun: list[str] = []
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        if _CONTINUED.search(line):
            begun.append(line[:-1])
            continue
        yield "".join([*begun, line])
        begun = []
    if begun:
        yield "".join(begun)


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escaped = match[1]
        if escaped[0] == "u":
            if len(escaped) == 1:
                raise ConfigError(f"malformed \\uxxxx in {text!r}")
            return chr(int(escaped[1:], 16))
        return _ESCAPED.get(escaped, escaped)

    return _ESCAPE.sub(replace, text)
