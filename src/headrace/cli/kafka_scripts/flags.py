"""Kafka's way of writing flags: one parser, given a table.

Words are `--name`, `--name value` or `--name=value`, of some flags `--name value value`; a name may be cut short as
long as it is one name's beginning, as in Kafka's scripts. Knows no script.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from headrace.cli.output import CommandError
from headrace.cli.pairs import parse_pairs


class Takes(Enum):
    NOTHING = auto()
    VALUE = auto()
    MAYBE = auto()  # A value if one follows.
    SEVERAL = auto()  # As many as follow, and at least one.


class Flag(NamedTuple):
    name: str
    takes: Takes = Takes.NOTHING
    help: str = ""
    refused: str = ""  # Kafka has it; why it cannot be had here.
    ignored: str = ""  # It changes nothing here, and why.


COMMON = (
    Flag("bootstrap-server", Takes.VALUE, "REQUIRED: where the cluster is, as HOST:PORT,..."),
    Flag("command-config", Takes.VALUE, "A properties file of client settings."),
    Flag("help", help="Show this and exit."),
    Flag("version", help="Show the version and exit."),
)


class Misused(CommandError):
    """A command line that cannot be meant."""


class Words:
    """What a command line says."""

    def __init__(self, values: dict[str, list[str]]) -> None:
        self._values = values

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def all(self, name: str) -> list[str]:
        return [value for value in self._values.get(name, ()) if value]

    def one(self, name: str) -> str | None:
        """The value, or None where there is none; one flag does not mean two things."""
        found = self.all(name)
        if len(found) > 1:
            raise Misused(f"--{name} is said {len(found)} times, and only one can be meant")
        return found[0] if found else None

    def required(self, name: str) -> str:
        value = self.one(name)
        if value is None:
            raise Misused(f"--{name} is missing")
        return value

    def number(self, name: str) -> int | None:
        value = self.one(name)
        if value is None:
            return None
        try:
            return int(value)
        except ValueError:
            raise Misused(f"--{name} {value!r} is not a whole number") from None

    def real(self, name: str) -> float:
        """A number that has to be said."""
        value = self.required(name)
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise Misused(f"--{name} {value!r} is not a number")
        return number

    def bounded(self, name: str, *, least: int, otherwise: int | None = None) -> int:
        """A whole number not below `least`; one that has to be said, unless there is another to take."""
        if otherwise is None:
            self.required(name)
        number = self.number(name)
        if number is None:
            assert otherwise is not None
            return otherwise
        if number < least:
            raise Misused(f"--{name} {number} is below {least}")
        return number

    def pairs(self, name: str) -> dict[str, str]:
        return parse_pairs(self.all(name), option=f"--{name}")

    def only(self, *names: str) -> str:
        """The one of these that is said: a script's actions exclude each other."""
        said = [name for name in names if name in self]
        if len(said) != 1:
            listed = ", ".join(f"--{name}" for name in names)
            raise Misused(f"say exactly one of {listed}" + (f", not {len(said)} of them" if said else ""))
        return said[0]

    def check(self, action: str, belongs: Mapping[str, Collection[str]]) -> None:
        """Flags that belong to some actions only, by name, go with no other."""
        for name, actions in belongs.items():
            if name in self and action not in actions:
                raise Misused(f"--{name} does not go with --{action}")

    def at_most_one(self, *names: str) -> str | None:
        return self.only(*names) if any(name in self for name in names) else None


def parse_words(flags: Iterable[Flag], words: Sequence[str], *, note: Callable[[str], None]) -> Words:
    table = {flag.name: flag for flag in flags}
    values: dict[str, list[str]] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if not word.startswith("--") or len(word) == 2:
            raise Misused(f"{word!r} is not a flag, and no flag before it takes it as a value")
        name, equals, value = word[2:].partition("=")
        flag = _find(table, name)
        if flag.refused:
            raise Misused(f"--{flag.name} is not supported here: {flag.refused}")
        if flag.takes is Takes.NOTHING:
            if equals:
                raise Misused(f"--{flag.name} takes no value")
        elif not equals:
            if left and (flag.takes is Takes.VALUE or not left[0].startswith("--")):
                value = left.pop(0)
            elif flag.takes is not Takes.MAYBE:
                raise Misused(f"--{flag.name} needs a value")
        if flag.ignored:
            note(f"--{flag.name} changes nothing here: {flag.ignored}")
        said = values.setdefault(flag.name, [])
        said.append(value)
        while flag.takes is Takes.SEVERAL and left and not left[0].startswith("--"):
            said.append(left.pop(0))
    return Words(values)


def _find(table: dict[str, Flag], name: str) -> Flag:
    if name in table:
        return table[name]
    meant = [flag for full, flag in table.items() if name and full.startswith(name)]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise Misused(f"--{name} could be {' or '.join(f'--{flag.name}' for flag in meant)}")
    raise Misused(f"--{name} is not a flag of this command (see --help)")


def help_text(name: str, about: str, flags: Iterable[Flag]) -> str:
    placeholders = {
        Takes.NOTHING: "",
        Takes.VALUE: " VALUE",
        Takes.MAYBE: " [VALUE]",
        Takes.SEVERAL: " VALUE [VALUE ...]",
    }
    rows = [
        (f"--{flag.name}{placeholders[flag.takes]}", flag.help or f"No effect: {flag.ignored}")
        for flag in sorted(flags, key=lambda flag: flag.name)
        if not flag.refused
    ]
    width = max(len(left) for left, _ in rows)
    lines = [f"  {left:<{width}}  {right}".rstrip() for left, right in rows]
    return "\n".join([f"{name}: {about}", "", *lines])
