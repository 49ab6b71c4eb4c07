"""Bounds as people write them, and what repeats say of them."""

import pytest

from headrace.errors import ConfigError
from headrace.lab.requirements import Requirement, Result, at_least, at_most, judge, parse_requirement


def test_a_bound_is_absolute_or_a_multiple_of_a_rivals() -> None:
    assert parse_requirement("rate_per_s", "at least 1.5 x kafka") == Requirement(
        metric="rate_per_s", is_least=True, bound=1.5, rival="kafka"
    )
    assert parse_requirement("start_s", "at most 0.4") == at_most("start_s", 0.4)


@pytest.mark.parametrize("text", ["1.5 x kafka", "at least", "at least fast", "at most 1 x", 3, "at most 1.5 kafka"])
def test_anything_else_is_refused(text: object) -> None:
    with pytest.raises(ConfigError, match=r"^rate_per_s: .* is not 'at least 1\.5 x kafka'"):
        parse_requirement("rate_per_s", text)


@pytest.mark.parametrize(("ours", "result"), [(1.5, Result.MET), (1.49, Result.SHORT)])
def test_what_is_to_be_reached_must_be(ours: float, result: Result) -> None:
    verdict = judge(at_least("rate_per_s", 1.5, rival="kafka"), [ours], [1.0])
    assert (verdict.result, verdict.measured) == (result, ours)


@pytest.mark.parametrize(("ours", "result"), [(0.5, Result.MET), (0.51, Result.SHORT)])
def test_what_is_not_to_be_exceeded_must_not_be(ours: float, result: Result) -> None:
    assert judge(at_most("start_s", 0.5, rival="kafka"), [ours], [1.0]).result == result
    assert judge(at_most("start_s", 0.5), [ours]).result == result


def test_medians_are_judged() -> None:
    verdict = judge(at_most("start_s", 0.4), [0.3, 9.0, 0.1])
    assert (verdict.result, verdict.measured) == (Result.MET, 0.3)
    assert verdict.text("start s") == "met: start s 0.3 <= 0.4"


def test_what_was_not_measured_is_not_judged() -> None:
    bound = at_least("rate_per_s", 1, rival="kafka")
    for ours, rivals in (([], [1.0]), ([1.0], []), ([1.0], [0.0])):
        assert judge(bound, ours, rivals).result == Result.NOT_JUDGED
    assert judge(bound, [1.0]).text("messages/s") == "not judged: messages/s >= 1 x kafka"


def test_a_multiple_has_its_interval_beside_it() -> None:
    verdict = judge(at_least("rate_per_s", 1.5, rival="kafka"), [2.0, 2.0], [1.0, 1.0])
    assert verdict.text("messages/s") == "met: messages/s 2 (2..2) >= 1.5 x kafka"
    unsure = judge(at_least("rate_per_s", 1.5, rival="kafka"), [1.6, 2.0, 1.0], [1.0, 1.2, 0.8])
    assert unsure.interval is not None
    assert unsure.interval.contains(1.5)
