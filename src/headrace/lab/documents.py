"""YAML files of people: read, and told in one line what is wrong with them.

A document is a mapping of known keys. Whoever mistypes one is told the nearest that there is.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from headrace.errors import ConfigError

Parse = Callable[[Any], Any]

_LISTED_MAX: Final = 50


def read_document(path: Path) -> dict[str, Any]:
    """The mapping that a file holds; ConfigError where it holds none."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not text") from error
    try:
        return parse_document(text)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def parse_document(text: str) -> dict[str, Any]:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"not YAML: {_yaml_trouble(error)}") from error
    if not isinstance(found, dict):
        raise ConfigError("not a mapping: there should be lines of KEY: VALUE")
    return {str(key): value for key, value in found.items()}


def _yaml_trouble(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "cannot be read"
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark is not None else str(problem)


def parse_assignment(text: str) -> tuple[str, Any]:
    """KEY=VALUE of a command line, the value as YAML has it: 3 is a number, [1, 2] a list."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise ConfigError(f"{text!r} is not KEY=VALUE")
    try:
        return key.strip(), yaml.safe_load(value)
    except yaml.YAMLError as error:
        raise ConfigError(f"{key}: {value!r} is not YAML: {_yaml_trouble(error)}") from error


def check_keys(given: Iterable[str], known: Iterable[str]) -> None:
    """ConfigError for the first key that there is not."""
    names = list(known)
    for key in given:
        if key in names:
            continue
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(names[:_LISTED_MAX])}"
        raise ConfigError(f"there is no key {key!r}: {hint}")


def parse_keys(given: Mapping[str, Any], keys: Mapping[str, Parse]) -> dict[str, Any]:
    """Each value by its key's parser; what it complains of is told with the key."""
    check_keys(given, keys)
    found = {}
    for key, value in given.items():
        try:
            found[key] = keys[key](value)
        except ConfigError as error:
            raise ConfigError(f"{key}: {error}") from error
    return found


# --- Parsers of values -------------------------------------------------------------------------------------------


def text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise ConfigError(f"{value!r} is not a text")
    return str(value)


def optional(parse: Parse) -> Parse:
    """`null` says the same as leaving the key out."""
    return lambda value: None if value is None else parse(value)


def whole(*, least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{value!r} is not a whole number of {least} or more")
        return value

    return parse


def number(*, least: float, most: float | None = None) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not value >= least or (most is not None and value > most):
            bounds = f"of {least:g} or more" if most is None else f"from {least:g} to {most:g}"
            raise ConfigError(f"{value!r} is not a number {bounds}")
        return float(value)

    return parse


def yes_or_no(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"{value!r} is neither true nor false")
    return value


def choice(*words: str) -> Callable[[Any], str]:
    def parse(value: Any) -> str:
        if str(value) not in words:
            raise ConfigError(f"{value!r} is none of {', '.join(words)}")
        return str(value)

    return parse


def pairs(value: Any) -> dict[str, str]:
    """Settings of somebody else's, whose values are texts: true is written as they write it."""
    if not isinstance(value, Mapping):
        raise ConfigError(f"{value!r} is not a mapping of names to values")
    return {str(name): str(each).lower() if isinstance(each, bool) else str(each) for name, each in value.items()}
