"""Numbers and times in Java's words. Expected texts are what Java 17 printed."""

import os
import time
from collections.abc import Iterator

import pytest

from headrace.errors import ConfigError
from headrace.lab.perf.java_text import date_writer, divide, fixed, shortest


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.15, 1, "0.2"),  # The binary number is below it; Java rounds what it would print.
        (0.25, 1, "0.3"),
        (0.35, 1, "0.4"),
        (2.5, 0, "3"),
        (1.005, 2, "1.01"),
        (0.125, 2, "0.13"),
        (-0.125, 2, "-0.13"),
        (0.0, 4, "0.0000"),
        (59999.999996, 6, "59999.999996"),
        (1234567890.0, 1, "1234567890.0"),
        (1e21, 1, "1000000000000000000000.0"),
        (0.00004, 4, "0.0000"),
        (0.00005, 4, "0.0001"),
        (float("nan"), 2, "NaN"),
        (float("inf"), 4, "Infinity"),
        (float("-inf"), 4, "-Infinity"),
    ],
)
def test_fixed_digits(value: float, digits: int, text: str) -> None:
    assert fixed(value, digits) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (12.0, "12.0"),
        (1.234567, "1.234567"),
        (0.001, "0.001"),
        (0.00095, "9.5E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (12345678.5, "1.23456785E7"),
        (-0.0005, "-5.0E-4"),
        (float("nan"), "NaN"),
    ],
)
def test_the_shortest_text(value: float, text: str) -> None:
    assert shortest(value) == text


def test_division_raises_nothing() -> None:
    assert divide(1, 4) == 0.25
    assert fixed(divide(1, 0), 1) == "Infinity"
    assert fixed(divide(0, 0), 1) == "NaN"


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    if before is None:
        monkeypatch.delenv("TZ")
    else:
        monkeypatch.setenv("TZ", before)
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd HH:mm:ss:SSS", "2020-03-26 23:17:20:053"),
        ("y yy MMM MMMM M d", "2020 20 Mar March 3 26"),
        ("EEE EEEE u D", "Thu Thursday 4 86"),
        ("h:mm a K k S", "11:17 PM 11 23 53"),
        ("z Z X XX XXX", "IST +0530 +05 +0530 +05:30"),
        ("'at' HH 'o''clock' ''", "at 23 o'clock '"),
        ("HH'h'mm", "23h17"),
    ],
)
def test_dates(pattern: str, text: str) -> None:
    assert date_writer(pattern)(1_585_244_840_053) == text


def test_midnight_and_zulu(monkeypatch: pytest.MonkeyPatch, zone: None) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert date_writer("kk KK hh HH XXX")(0) == "24 00 12 00 Z"


@pytest.mark.parametrize(("pattern", "complaint"), [("b", "'b' is"), ("XXXX", "'XXXX' is"), ("'open", "not closed")])
def test_what_a_pattern_cannot_have(pattern: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        date_writer(pattern)
