"""What a producer sends."""

import re
from itertools import islice

import pytest

from headrace.errors import ConfigError
from headrace.lab.perf.payloads import chosen, numbers, random_letters, split_payloads


def test_random_letters_are_as_long_as_asked_and_do_not_repeat_soon() -> None:
    values = list(islice(random_letters(512), 8_000))
    assert all(re.fullmatch(rb"[A-Z]{512}", value) for value in values)
    assert len(set(values)) == len(values)
    assert values == list(islice(random_letters(512), 8_000))
    assert {len(value) for value in islice(random_letters(5 << 20), 9)} == {5 << 20}


def test_payloads_are_chosen_by_chance_and_all_of_them() -> None:
    payloads = [b"a", b"bb", b"ccc"]
    assert set(islice(chosen(payloads), 100)) == set(payloads)
    assert list(islice(chosen(payloads), 3_000)) == list(islice(chosen(payloads), 3_000))


def test_numbers_count_from_zero() -> None:
    assert list(islice(numbers(), 11))[::5] == [b"0", b"5", b"10"]


@pytest.mark.parametrize(
    ("text", "delimiter", "pieces"),
    [
        ("a\nb\n", r"\n", ["a", "b"]),
        ("a\n\nb", r"\n", ["a", "", "b"]),
        ("\na\n\n", r"\n", ["a", ""]),
        ("\n", r"\n", []),
        ("", r"\n", []),
        ("a1b22c", r"\d+", ["a", "b", "c"]),
        ("a,b;c", "(,|;)", ["a", "b", "c"]),
        ("ä|ö", r"\|", ["ä", "ö"]),
        ("one", r"\n", ["one"]),
    ],
)
def test_a_file_is_cut_as_javas_scanner_cuts_it(text: str, delimiter: str, pieces: list[str]) -> None:
    assert split_payloads(text, delimiter) == [piece.encode() for piece in pieces]


def test_a_delimiter_that_is_no_expression_is_named() -> None:
    with pytest.raises(ConfigError, match="--payload-delimiter '\\(' is not a regular expression"):
        split_payloads("a", "(")
