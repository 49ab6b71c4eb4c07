"""Kafka's way of writing flags."""

import pytest

from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words, help_text, parse_words

FLAGS = (
    Flag("list", help="List."),
    Flag("describe", help="Describe."),
    Flag("delete", help="Delete."),
    Flag("topic", Takes.VALUE, "A topic."),
    Flag("topics-with-overrides", help="Only these."),
    Flag("state", Takes.MAYBE, "A state."),
    Flag("props", Takes.SEVERAL, "Settings."),
    Flag("zookeeper", Takes.VALUE, refused="it is gone"),
    Flag("force", ignored="nothing is asked"),
)


def parsed(line: str) -> tuple[Words, list[str]]:
    notes: list[str] = []
    return parse_words(FLAGS, line.split(), note=notes.append), notes


def test_values_follow_or_stand_behind_an_equals_sign() -> None:
    words, _ = parsed("--topic a --topic=b=c --list")
    assert words.all("topic") == ["a", "b=c"]
    assert "list" in words
    assert "describe" not in words


def test_a_value_may_look_like_a_number_below_zero_or_even_like_a_flag() -> None:
    assert parsed("--topic -5")[0].number("topic") == -5
    assert parsed("--topic --list")[0].one("topic") == "--list"


def test_an_optional_value_is_taken_if_one_is_there() -> None:
    assert parsed("--state stable --list")[0].one("state") == "stable"
    words, _ = parsed("--state --list")
    assert "state" in words
    assert words.one("state") is None


def test_several_values_are_all_that_follow() -> None:
    words, _ = parsed("--props a=1 b=-1 --list --props=c=3 d=4")
    assert words.pairs("props") == {"a": "1", "b": "-1", "c": "3", "d": "4"}
    assert "list" in words


def test_numbers_with_a_point_and_numbers_with_a_bound() -> None:
    assert parsed("--topic -1")[0].real("topic") == -1
    assert parsed("--topic 0.5")[0].real("topic") == 0.5
    for text in ("x", "nan", "inf"):
        with pytest.raises(Misused, match="is not a number"):
            parsed(f"--topic {text}")[0].real("topic")
    assert parsed("--topic 3")[0].bounded("topic", least=3) == 3
    assert parsed("--list")[0].bounded("topic", least=3, otherwise=1) == 1
    with pytest.raises(Misused, match="--topic 2 is below 3"):
        parsed("--topic 2")[0].bounded("topic", least=3, otherwise=1)
    with pytest.raises(Misused, match="--topic is missing"):
        parsed("--list")[0].bounded("topic", least=3)


def test_a_name_may_be_cut_short_while_it_is_one_name() -> None:
    assert "describe" in parsed("--desc")[0]
    assert parsed("--topic x")[0].one("topic") == "x"  # Whole, although another begins with it.
    with pytest.raises(Misused, match="--de could be --describe or --delete"):
        parsed("--de")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("--no-such 1", "--no-such is not a flag of this command"),
        ("--topic", "--topic needs a value"),
        ("--props --list", "--props needs a value"),
        ("--list=yes", "--list takes no value"),
        ("stray", "'stray' is not a flag"),
        ("-x", "'-x' is not a flag"),
        ("--", "'--' is not a flag"),
        ("--zookeeper z", "--zookeeper is not supported here: it is gone"),
    ],
)
def test_what_cannot_be_meant_is_named(line: str, complaint: str) -> None:
    with pytest.raises(Misused, match=complaint):
        parsed(line)


def test_what_changes_nothing_is_noted() -> None:
    assert parsed("--force --list")[1] == ["--force changes nothing here: nothing is asked"]


def test_one_two_or_none_of_several() -> None:
    assert parsed("--list")[0].only("list", "describe") == "list"
    for line in ("--topic x", "--list --describe"):
        with pytest.raises(Misused, match="exactly one of --list, --describe"):
            parsed(line)[0].only("list", "describe")
    assert parsed("--topic x")[0].at_most_one("list", "describe") is None
    with pytest.raises(Misused, match="said 2 times"):
        parsed("--topic a --topic b")[0].one("topic")
    with pytest.raises(Misused, match="--topic is missing"):
        parsed("--list")[0].required("topic")
    with pytest.raises(Misused, match="not a whole number"):
        parsed("--topic x")[0].number("topic")


def test_help_lists_what_can_be_used() -> None:
    text = help_text("kafka-x", "does x", FLAGS)
    assert "--topic VALUE" in text
    assert "--state [VALUE]" in text
    assert "--props VALUE [VALUE ...]" in text
    assert "No effect: nothing is asked" in text
    assert "zookeeper" not in text
