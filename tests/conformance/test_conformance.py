"""The same requests to Apache Kafka and to Headrace; every field of every answer must be the same."""

import pytest

from tests.conformance.broker import Broker
from tests.conformance.case import Case
from tests.conformance.conftest import SUBJECT_IS_APACHE, Account
from tests.conformance.differences import ACCEPTED
from tests.conformance.normal import Difference, Symbols, compare
from tests.conformance.run import run_case
from tests.oracle.toolbox import ToolMissing, without_tool

try:
    from tests.conformance.cases import CASES
except ToolMissing as missing:  # The schemas come with Kafka's jars.
    without_tool(missing)

RUNS = [
    pytest.param(case, version, id=f"{case.api}/{case.name}/v{version}")
    for case in CASES
    for version in case.all_versions()
]


@pytest.mark.parametrize(("case", "version"), RUNS)
def test_answers_are_the_same(case: Case, version: int, apache: Broker, headrace: Broker, account: Account) -> None:
    found = differences(case, version, apache, headrace)
    account.cases[case.api] += 1
    unexpected = []
    for one in found:
        covering = (
            []
            if SUBJECT_IS_APACHE
            else [accepted for accepted in ACCEPTED if accepted.covers(f"{case.api}/{case.name}", one.path)]
        )
        account.met.update(covering)
        if not covering:
            unexpected.append(one)
            account.unexpected.setdefault((f"{case.api}/{case.name}", str(one)), []).append(version)
    assert not unexpected, "\n" + "\n".join(map(str, unexpected))


def test_every_accepted_difference_still_occurs(account: Account) -> None:
    if SUBJECT_IS_APACHE:
        return
    stale = [accepted for accepted in ACCEPTED if accepted not in account.met]
    assert not stale, "no longer different, take them off the list:\n" + "\n".join(map(str, stale))


def differences(case: Case, version: int, apache: Broker, headrace: Broker) -> list[Difference]:
    """Run the case on both; fields of later steps are numbered."""
    theirs, ours = run_case(case, version, apache), run_case(case, version, headrace)
    topic = case.topic_name(version)
    their_symbols, our_symbols = Symbols(apache, topic=topic), Symbols(headrace, topic=topic)
    found = []
    for index, (their_step, our_step) in enumerate(zip(theirs, ours, strict=True)):
        prefix = f"{their_step.api} #{index + 1}: " if len(theirs) > 1 else ""
        found += [
            Difference(prefix + one.path, one.theirs, one.ours)
            for one in compare(their_symbols.normal(their_step), our_symbols.normal(our_step))
        ]
    return found
