"""The generator matches the published statistics for any seed, and one seed always gives the same log."""

import re
from collections import Counter
from datetime import datetime
from hashlib import sha256
from itertools import islice, pairwise
from statistics import mean, pstdev

import pytest

from headrace.lab import weblog

LINE = re.compile(
    rb"(?P<host>[a-z0-9.-]+) - - \[(?P<time>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d -0400)\] "
    rb'"GET (?P<path>/\S*) HTTP/1\.0" (?P<status>200|302|304|404) (?P<size>\d+|-)'
)


def some_lines(seed: int, count: int) -> list[bytes]:
    return list(islice(weblog.lines(seed), count))


def stamp_of(line: bytes) -> datetime:
    match = LINE.fullmatch(line)
    assert match is not None, line
    return datetime.strptime(match["time"].decode(), "%d/%b/%Y:%H:%M:%S %z")


@pytest.mark.parametrize("seed", [1, 7, 1995])
def test_line_lengths_match_the_published_log(seed: int) -> None:
    lengths = [len(line) for line in some_lines(seed, 30_000)]
    # The mean of 30,000 lines is within 0.23 of its expectation three times in a thousand.
    assert mean(lengths) == pytest.approx(108.5, abs=0.4)
    assert pstdev(lengths) == pytest.approx(13.0, abs=0.4)


@pytest.mark.parametrize("seed", [1, 7, 1995])
def test_statuses_match_the_published_log(seed: int) -> None:
    seen = Counter(int(line.rsplit(b" ", 2)[1]) for line in some_lines(seed, 30_000))
    for status, share in weblog.STATUS_SHARES.items():
        sigma = (share * (1 - share) / 30_000) ** 0.5
        assert seen[status] / 30_000 == pytest.approx(share, abs=4 * sigma)
    assert seen.keys() == weblog.STATUS_SHARES.keys()


def test_every_line_is_in_the_common_log_format() -> None:
    assert all(LINE.fullmatch(line) for line in some_lines(3, 5_000))


def test_a_few_hosts_take_much_of_the_traffic_and_many_take_some() -> None:
    hosts = Counter(weblog.host_of(line) for line in some_lines(3, 30_000))
    assert len(hosts) > 1_500
    assert 0.15 < sum(count for _, count in hosts.most_common(10)) / 30_000 < 0.40


def test_time_starts_at_the_start_and_keeps_the_pace() -> None:
    stamps = [stamp_of(line) for line in islice(weblog.lines(5, lines_per_s=10), 6_000)]
    assert stamps[0].timestamp() == weblog.START_S
    assert all(earlier <= later for earlier, later in pairwise(stamps))
    assert (stamps[-1] - stamps[0]).total_seconds() == pytest.approx(600, rel=0.05)


def test_less_than_a_line_a_second_leaves_seconds_empty() -> None:
    stamps = [stamp_of(line) for line in islice(weblog.lines(5, lines_per_s=0.5), 300)]
    assert (stamps[-1] - stamps[0]).total_seconds() == pytest.approx(600, rel=0.1)


def test_one_seed_is_one_log_and_two_seeds_are_two() -> None:
    assert some_lines(11, 500) == some_lines(11, 500)
    assert some_lines(11, 500) != some_lines(12, 500)


def test_the_log_of_a_seed_is_the_same_on_every_machine_and_version() -> None:
    # Results are compared over years by their seed. If this must change, say so in the changelog.
    digest = sha256(b"\n".join(some_lines(42, 10_000))).hexdigest()
    assert digest == "c77d49e7da65f686a22dd9ecb54882bcab4ff94396efc0eed113455550921d8e"


def test_a_pace_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="lines_per_s"):
        next(weblog.lines(1, lines_per_s=0))
