"""The small language in which configuration tables are written: kinds, checks and rows.

A row is a `Setting`; the body of a class decorated with `table` is the table itself, so that the name on the
wire, the type, the default, the check and the typed attribute are written once. Values are parsed and refused
in the words of Kafka's own `ConfigDef`, because clients show those words to people.

This module knows no setting by name, and reads no file.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum, IntEnum
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

Value = bool | int | float | str | tuple[str, ...] | None
LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1


class Invalid(Exception):
    """A value that a setting refuses, in Kafka's sentence. Callers choose the error that carries it."""

    def __init__(self, name: str, shown: object, why: str) -> None:
        super().__init__(f"Invalid value {shown} for configuration {name}: {why}")


class Kind(Enum):
    """How a value is spelled. The number is its code in a DescribeConfigs response."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


_WHOLE_BOUNDS = {Kind.SHORT: 2**15, Kind.INT: 2**31, Kind.LONG: 2**63}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?")
_COMMA = re.compile(r"\s*,\s*")

# What is wrong with a value: the part of it to show, and the reason.
Complaint = tuple[object, str]


class Check(NamedTuple):
    """Which values are allowed, in a reader's words, and what to say to one that is not."""

    allowed: str
    find_fault: Callable[[str, Any], Complaint | None]  # Of a setting's name and its parsed value.


def parse_value(kind: Kind, name: str, text: str) -> Value:
    """The value that `text` spells, or Invalid. Surrounding blanks never count, as in Kafka."""
    trimmed = text.strip()
    if kind in _WHOLE_BOUNDS:
        bound = _WHOLE_BOUNDS[kind]
        if _WHOLE.fullmatch(trimmed) and len(trimmed) <= 20 and -bound <= (number := int(trimmed)) < bound:
            return number
        raise Invalid(name, text, f"Not a number of type {kind.name}")
    if kind is Kind.BOOLEAN:
        if trimmed.lower() in ("true", "false"):
            return trimmed.lower() == "true"
        raise Invalid(name, text, "Expected value to be either true or false")
    if kind is Kind.DOUBLE:
        if match := _DOUBLE.fullmatch(trimmed):
            return float(match[1])
        raise Invalid(name, text, "Not a number of type DOUBLE")
    if kind is Kind.LIST:
        return tuple(_COMMA.split(trimmed)) if trimmed else ()
    return trimmed


def value_text(value: Value) -> str | None:
    """How Kafka spells a parsed value in an answer."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _java_double(value)
    return str(value)


def _java_double(value: float) -> str:
    """Java writes 1.0E-4 where Python writes 0.0001."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(text for digits in range(1, 18) if float(text := f"{value:.{digits}e}") == value)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa}E{int(exponent)}"


def at_least(low: int) -> Check:
    def find_fault(_name: str, value: int) -> Complaint | None:
        return (value_text(value), f"Value must be at least {low}") if value < low else None

    return Check(f"at least {low}", find_fault)


def between(low: int, high: int, *, or_equal: int | None = None) -> Check:
    def find_fault(_name: str, value: int) -> Complaint | None:
        if low <= value <= high or value == or_equal:
            return None
        if or_equal is not None:
            return value, f"Value must be between {low} and {high} or equal to {or_equal}"
        if value < low:
            return value_text(value), f"Value must be at least {low}"
        return value_text(value), f"Value must be no more than {high}"

    return Check(f"{low} to {high}" + (f", or {or_equal}" if or_equal is not None else ""), find_fault)


def one_of(*allowed: str) -> Check:
    """Of a string: it is one of these. Of a list: each item is."""

    def find_fault(_name: str, value: str | tuple[str, ...]) -> Complaint | None:
        for item in (value,) if isinstance(value, str) else value:
            if item not in allowed:
                return item, f"String must be one of: {', '.join(allowed)}"
        return None

    return Check(", ".join(allowed), find_fault)


class Synonym(NamedTuple):
    """A broker setting from which a topic setting inherits, and how many topic units one of its units is."""

    name: str
    scale: int = 1


class Setting:
    """One row. `attribute` is filled in by the class body that the row stands in."""

    __slots__ = (
        "acts", "attribute", "check", "default", "doc", "dynamic", "internal", "kind", "name", "synonyms",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: Kind,
        default: Value,
        doc: str,
        *,
        check: Check | None = None,
        synonyms: tuple[Synonym, ...] = (),
        dynamic: bool = False,
        acts: bool = True,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.check = check
        self.synonyms = synonyms
        self.dynamic = dynamic
        self.acts = acts
        self.internal = internal
        self.attribute = ""

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    @property
    def sensitive(self) -> bool:
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> Value:
        value = parse_value(self.kind, self.name, text)
        self.refuse_faulty(value)
        return value

    def refuse_faulty(self, value: Value) -> None:
        if self.check is not None and (complaint := self.check.find_fault(self.name, value)) is not None:
            raise Invalid(self.name, *complaint)


class Source(IntEnum):
    """Where a value came from, as DescribeConfigs numbers it; a smaller number wins over a larger."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_BROKER_DEFAULT = 3
    STATIC_BROKER = 4
    DEFAULT = 5


class Layer(NamedTuple):
    """Texts that somebody gave, by name."""

    source: Source
    texts: Mapping[str, str]


class Settings:
    """Base of the tables: one value per row, each an attribute, and the texts that the values came from."""

    __slots__ = ("layers",)
    rows: ClassVar[Mapping[str, Setting]]
    layers: tuple[Layer, ...]  # Strongest first; the defaults of the table stand below them all.

    def __init__(self, **values: Value) -> None:
        self.layers = ()
        for row in self.rows.values():
            setattr(self, row.attribute, values.pop(row.attribute, row.default))
        if values:
            raise TypeError(f"{type(self).__name__} has no setting {', '.join(values)}")


S = TypeVar("S", bound=Settings)


def table(body: type[S]) -> type[S]:
    """Rebuild a class whose body holds rows as one with a slot for each, as `dataclass(slots=True)` does."""
    rows = {value.name: value for value in vars(body).values() if isinstance(value, Setting)}
    slots = tuple(row.attribute for row in rows.values())
    dropped = {*slots, "__dict__", "__weakref__"}
    members = {name: value for name, value in vars(body).items() if name not in dropped}
    return cast(type[S], type(body.__name__, body.__bases__, {**members, "__slots__": slots, "rows": rows}))
