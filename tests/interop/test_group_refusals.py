"""The errors that bad members get in `tests/hostile`, asked of Apache Kafka: they are its own."""

from collections.abc import Iterator

import pytest

from headrace.errors import ErrorCode
from tests.hostile.frames import error_codes
from tests.hostile.group_abuse import ABUSES
from tests.hostile.honest_group import HonestGroup
from tests.hostile.target import Wire
from tests.oracle.kafka import ApacheKafka


@pytest.fixture(scope="module")
def honest(apache: ApacheKafka) -> Iterator[HonestGroup]:
    with HonestGroup(apache.bootstrap) as group:
        yield group
        group.wait_round()


@pytest.mark.parametrize("name", ABUSES)
def test_the_error_is_kafkas(name: str, apache: ApacheKafka, honest: HonestGroup) -> None:
    abuse = ABUSES[name]
    with Wire(apache.bootstrap) as wire:
        answer = wire.call(abuse.api.key, abuse.version, abuse.request(honest))
    assert error_codes(answer) - {ErrorCode.NONE} == {abuse.expected} - {ErrorCode.NONE}, answer
    honest.check()
