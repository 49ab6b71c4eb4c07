"""A page of metrics as Prometheus reads them: fetched from a URL, and parsed into samples by name."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from headrace.lab.errors import LabError

FETCH_S_MAX: Final = 5.0
_PAGE_BYTES_MAX: Final = 64 << 20
_SAMPLE: Final = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?\s*")
_LABEL: Final = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")
_NEWLINE: Final = "n"


class Sample(NamedTuple):
    labels: Mapping[str, str]
    value: float


Page = Mapping[str, list[Sample]]


def parse_page(text: str) -> Page:
    found: dict[str, list[Sample]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        if (match := _SAMPLE.fullmatch(line)) is None:
            raise LabError(f"not a page of metrics: {line[:80]!r}")
        name, labels, value = match.groups()
        try:
            number = float(value)
        except ValueError:
            raise LabError(f"not a page of metrics: {line[:80]!r}") from None
        found.setdefault(name, []).append(Sample(_labels(labels or ""), number))
    return found


def _labels(text: str) -> dict[str, str]:
    return {
        name: _ESCAPED.sub(lambda escaped: "\n" if escaped[1] == _NEWLINE else escaped[1], value)
        for name, value in _LABEL.findall(text)
    }


def value(page: Page, name: str) -> float | None:
    """The sum of a metric over all its labels; None where the page has none."""
    samples = page.get(name)
    return None if samples is None else sum(one.value for one in samples)


def fetch(url: str, *, timeout_s: float = FETCH_S_MAX) -> str:
    """Directly: what a machine measures on its own network is no business of a proxy for the web."""
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout_s) as answer:
            data: bytes = answer.read(_PAGE_BYTES_MAX)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise LabError(f"cannot read metrics at {url}: {reason}") from error
    return data.decode(errors="replace")
