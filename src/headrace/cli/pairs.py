"""Settings as words of a command line."""

from collections.abc import Iterable

from headrace.errors import ConfigError


def parse_pairs(pairs: Iterable[str], *, option: str) -> dict[str, str]:
    """`key=value` words; `option` is what they were given with."""
    settings = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise ConfigError(f"{option} {pair!r} is not KEY=VALUE")
        settings[key] = value
    return settings
