"""Targets as people write them: which kind, and what that kind can be told. Never what is sent.

    kind: kafka
    brokers: 3

A target is named on the command line by a file such as this, by one of the names of `BUILT_IN`, or by the addresses of
a cluster that is there. Whoever holds a `TargetSpec` knows that its keys are those of its kind.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Self

from headrace.errors import ConfigError
from headrace.lab.documents import Parse, check_keys, choice, pairs, parse_keys, read_document, text, whole
from headrace.lab.quantities import parse_rate_per_s

BROKERS_MAX: Final = 9
_HEAP: Final = re.compile(r"\d+[mMgG]")
_ADDRESSES: Final = re.compile(r"[^\s,/]+:\d+(,[^\s,/]+:\d+)*")
# Settings whose values are nobody's business.
_SECRET: Final = re.compile(r"password|secret|key|token|jaas|pem", re.IGNORECASE)


def _brokers(value: Any) -> int:
    count = whole(least=1)(value)
    if count > BROKERS_MAX:
        raise ConfigError(f"{count} brokers on one machine are too many: at most {BROKERS_MAX}")
    return count


def _heap(value: Any) -> str:
    if not isinstance(value, str) or not _HEAP.fullmatch(value):
        raise ConfigError(f"{value!r} is not a heap such as 512M or 1G")
    return value


def _addresses(value: Any) -> str:
    found = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    if not _ADDRESSES.fullmatch(found):
        raise ConfigError(f"{found!r} is not HOST:PORT, or several with commas")
    return found


_SHARED: Final[Mapping[str, Parse]] = {"kind": text, "name": text, "client": pairs}
# What each kind can be told beside that.
KINDS: Final[Mapping[str, Mapping[str, Parse]]] = {
    "node": {"properties": pairs},
    "cluster": {"bootstrap": _addresses},
    "kafka": {"brokers": _brokers, "properties": pairs, "heap": _heap},
    "null": {"limit": lambda value: parse_rate_per_s(text(value))},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSpec:
    name: str
    kind: str
    client: Mapping[str, str] = field(default_factory=dict, repr=False)  # librdkafka's; there may be a password.
    properties: Mapping[str, str] = field(default_factory=dict)  # The broker's own.
    bootstrap: str | None = None
    brokers: int = 1
    heap: str | None = None
    limit: float | None = None  # Messages a second that a null sink takes.
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def has_own_brokers(self) -> bool:
        """Started for it on this machine, on whose disk they keep what they are sent."""
        return self.kind in ("node", "kafka")

    def with_changes(self, changes: Mapping[str, Any]) -> Self:
        """With keys that a sweep sets."""
        if not changes:
            return self
        changed = parse_target({**self.given, **changes}, name=self.name)
        return replace(self, **{each: getattr(changed, each) for each in (*changes, "given")})

    def to_json(self) -> dict[str, Any]:
        """As it was written, without what nobody should read."""
        return {"name": self.name, "kind": self.kind, **without_secrets(self.given)}


def without_secrets(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of some settings are nobody's business, wherever they are."""
    return {
        name: without_secrets(value)
        if isinstance(value, Mapping)
        else "***"
        if _SECRET.search(name) and value is not None
        else value
        for name, value in given.items()
    }


def parse_target(given: Mapping[str, Any], *, name: str) -> TargetSpec:
    """Of keys and values as YAML has them; `name` where it has none of its own."""
    check_keys(given, dict.fromkeys([*_SHARED, *(key for keys in KINDS.values() for key in keys)]))
    if "kind" not in given:
        raise ConfigError(f"kind is missing: one of {', '.join(KINDS)}")
    kind = choice(*KINDS)(given["kind"])
    for key in given:
        if key not in _SHARED and key not in KINDS[kind]:
            raise ConfigError(f"a target of kind {kind} has no key {key!r}: it has {', '.join(KINDS[kind])}")
    parsed = parse_keys(given, {**_SHARED, **KINDS[kind]})
    if kind == "cluster" and "bootstrap" not in parsed:
        raise ConfigError("bootstrap is missing: where is the cluster? HOST:PORT")
    return TargetSpec(**{"name": name, **parsed, "given": dict(given)})


BUILT_IN: Final[Mapping[str, Mapping[str, Any]]] = {
    "node": {"kind": "node"},
    "kafka": {"kind": "kafka"},
    "kafka-3": {"kind": "kafka", "brokers": 3},
    "null": {"kind": "null"},
}


def find_target(named: str) -> TargetSpec:
    """A built-in name, the path of a file, or addresses."""
    if named in BUILT_IN:
        return parse_target(BUILT_IN[named], name=named)
    path = Path(named)
    if path.is_file():
        try:
            return parse_target(read_document(path), name=path.stem)
        except ConfigError as error:
            raise ConfigError(str(error) if str(error).startswith(str(path)) else f"{path}: {error}") from error
    if _ADDRESSES.fullmatch(named):
        return parse_target({"kind": "cluster", "bootstrap": named}, name=named)
    raise ConfigError(
        f"there is no target {named!r}: it is one of {', '.join(BUILT_IN)}, a YAML file, or HOST:PORT "
        "(headrace lab targets)"
    )
