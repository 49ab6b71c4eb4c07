"""Settings as words of a command line."""

import pytest

from headrace.cli.pairs import parse_pairs
from headrace.errors import ConfigError


def test_words_of_the_command_line() -> None:
    assert parse_pairs(["a=b", "c=d=e", "f="], option="-X") == {"a": "b", "c": "d=e", "f": ""}


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_a_word_that_is_no_pair(word: str) -> None:
    with pytest.raises(ConfigError, match="-X"):
        parse_pairs([word], option="-X")
