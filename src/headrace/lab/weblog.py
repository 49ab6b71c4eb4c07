"""Web-server access-log lines in the common log format, endless and seeded.

They stand in for the NASA access logs of 1995 that published experiments send, and match their statistics:
108.5 bytes a line with a standard deviation of 13; status 200 in 90.3% of lines, 304 in 6.1%, 302 in 2.7%,
404 in 0.9%; a few pages and a few hosts take most of the traffic. The river museum, its pages and its
visitors are invented.

The site is always the same; the seed only decides who asks for what, and when. A line is put together from a
host, a time and an answer out of ready-made tables, which is what makes it fast.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, product
from random import Random
from statistics import NormalDist
from typing import Final, NamedTuple

START_S: Final = 804_571_200  # 1 July 1995, midnight where the museum stands.
_ZONE_S: Final = -4 * 3600
_MONTHS: Final = (
    *(b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun"),
    *(b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"),
)

STATUS_SHARES: Final = {200: 0.903, 304: 0.061, 302: 0.027, 404: 0.009}
_PAGES: Final = 1400
_HOSTS: Final = 1800
_NUMERIC_HOST_EVERY: Final = 8  # One visitor in eight has no name.
_PATH_CHARS: Final = NormalDist(31.1, 14.2)
_HOST_CHARS: Final = NormalDist(20.2, 4.7)
# Zipf's exponent for pages and hosts: the measured heads are flatter than 1.
_ZIPF: Final = 0.8
# Steps of this size fill [0, 1) evenly however few are taken: a table's heavy head is as typical as its tail.
_GOLDEN: Final = 0.618033988749895

_SECTIONS: Final = ("river", "mill", "history", "floods", "weirs", "gauges", "exhibits", "library", "facts")
_TOPICS: Final = (
    *("oak", "elm", "dam", "weir", "sluice", "wheel", "flume", "canal", "turbine", "penstock", "headrace"),
    *("tailrace", "millpond", "watershed", "spring-thaw", "upper-falls", "lower-falls", "lock-keepers"),
    *("waterpower", "stone-bridge", "flood-of-1936"),
)
_KINDS: Final = ("", "map", "info", "patch", "logo", "small", "medium", "tour", "news", "sketch", "album")
_EXTENSIONS: Final = ("html", "gif", "jpg", "txt", "xbm")
_MACHINES: Final = (
    *("ppp", "dialup", "slip", "gw", "pc", "mac", "line", "port", "ts", "proxy", "ix", "modem", "user"),
    *("vax", "sun", "library"),
)
_TOWNS: Final = ("", ".elm", ".north", ".eastbank", ".lockport")
_DOMAINS: Final = (
    *("bignet", "river", "netway", "mill.edu", "prism", "uplands", "co", "dialnet", "ac", "or", "k12"),
    *("public-library", "lowlands"),
)


class _Table(NamedTuple):
    """Things to draw from, and how often each is drawn."""

    items: Sequence[bytes]
    weights_cumulated: Sequence[float]

    def draw(self, random: Random, count: int) -> list[bytes]:
        return random.choices(self.items, cum_weights=self.weights_cumulated, k=count)


def lines(seed: int, *, lines_per_s: float = 40.0, start_s: int = START_S) -> Iterator[bytes]:
    """Endless lines, without line ends. The same arguments give the same lines.

    `lines_per_s` is the pace of the stamps inside the log: a second holds between half as many lines and half
    as many again.
    """
    if lines_per_s <= 0:
        raise ValueError(f"{lines_per_s=} must be positive")
    random = Random(seed)
    hosts, answers = _hosts(), _answers()
    second_s, due = start_s, 0.0
    while True:
        due += lines_per_s * (0.5 + random.random())
        count = int(due)
        due -= count
        stamp = _stamp(second_s)
        for host, answer in zip(hosts.draw(random, count), answers.draw(random, count), strict=True):
            yield host + stamp + answer
        second_s += 1


def host_of(line: bytes) -> bytes:
    """Who asked: the natural key, which keeps one visitor's requests in order."""
    return line[: line.index(b" ")]


def _stamp(second_s: int) -> bytes:
    year, month, day, hour, minute, second, *_ = time.gmtime(second_s + _ZONE_S)
    return b" - - [%02d/%s/%d:%02d:%02d:%02d -0400] " % (day, _MONTHS[month - 1], year, hour, minute, second)


def _zipf(count: int) -> list[float]:
    weights = [rank**-_ZIPF for rank in range(1, count + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def _with_lengths(candidates: Iterable[str], lengths: NormalDist, *, count: int) -> list[str]:
    """`count` of the candidates, their lengths spread as `lengths` says over every prefix of the answer."""
    mixed = sorted(candidates)
    Random(count).shuffle(mixed)
    by_length: dict[int, list[str]] = {}
    for text in mixed:
        by_length.setdefault(len(text), []).append(text)
    chosen = []
    for n in range(1, count + 1):
        wanted = lengths.inv_cdf(n * _GOLDEN % 1)
        nearest = min(by_length, key=lambda length: abs(length - wanted))
        chosen.append(by_length[nearest].pop())
        if not by_length[nearest]:
            del by_length[nearest]
    return chosen


def _hosts() -> _Table:
    names = {
        f"{machine}{number}{town}.{domain}.example"
        for machine, number, town, domain in product(_MACHINES, range(1, 16), _TOWNS, _DOMAINS)
    }
    hosts = _with_lengths(names, _HOST_CHARS, count=_HOSTS)
    for n in range(3, _HOSTS, _NUMERIC_HOST_EVERY):
        hosts[n] = f"10.{n % 251}.{n * 7 % 253}.{n * 3 % 255}"
    return _Table([host.encode() for host in hosts], list(accumulate(_zipf(_HOSTS))))


def _site_paths() -> Iterator[str]:
    yield from ("/", *(f"/{section}/" for section in _SECTIONS))
    for extension, kind, topic in product(_EXTENSIONS, _KINDS, _TOPICS):
        name = f"{topic}-{kind}.{extension}" if kind else f"{topic}.{extension}"
        yield f"/{name}"
        yield f"/images/{name}"
        for section in _SECTIONS:
            yield f"/{section}/{name}"
            yield f"/{section}/{topic}/{name}"
            yield f"/{section}/{topic}/images/{name}"


def _answers() -> _Table:
    """What follows the time: request, status and size, for every page and every way it is answered."""
    paths = _with_lengths(_site_paths(), _PATH_CHARS, count=_PAGES)
    clicks = [f"/cgi-bin/imagemap/floodgates?{n * 7 % 400},{n * 3 % 300}" for n in range(_PAGES)]
    # A page keeps its size: between 100 bytes and 100 KB, evenly over the orders of magnitude.
    sizes = [int(10 ** (2 + 3 * (n * _GOLDEN % 1))) for n in range(_PAGES)]
    answered: dict[int, Iterable[tuple[str, int | str]]] = {
        200: zip(paths, sizes, strict=True),
        304: ((path, 0) for path in paths),
        302: ((click, 60 + size % 50) for click, size in zip(clicks, sizes, strict=True)),
        404: ((path + "~", "-") for path in paths),
    }
    items: list[bytes] = []
    weights: list[float] = []
    for status, share in STATUS_SHARES.items():
        items += [f'"GET {path} HTTP/1.0" {status} {size}'.encode() for path, size in answered[status]]
        weights += [share * weight for weight in _zipf(_PAGES)]
    return _Table(items, list(accumulate(weights)))
