"""What error codes ask of a client. That the table is Kafka's is `tests/interop/test_wire_errors.py`'s to prove."""

import pytest

from headrace.errors import ApiError, ErrorCode
from headrace.wire.errors import Advice, Unavailable, UnknownTopic, Unreachable, advice, refusal


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Advice.REFRESH),
        (ErrorCode.OFFSET_NOT_AVAILABLE, Advice.RETRY),
        (ErrorCode.OFFSET_OUT_OF_RANGE, Advice.FAIL),
        (32_000, Advice.FAIL),  # Newer than our table.
    ],
)
def test_advice(code: int, expected: Advice) -> None:
    assert advice(code) is expected


def test_a_refusal_has_its_code_and_its_name() -> None:
    error = refusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 't'")
    assert (error.code, str(error)) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, "topic 't': TOPIC_AUTHORIZATION_FAILED")


def test_a_refusal_by_a_code_that_is_not_known() -> None:
    error = refusal(32_000, "topic 't'")
    assert (error.code, "32000" in str(error)) == (ErrorCode.UNKNOWN_SERVER_ERROR, True)


def test_what_may_be_caught_together() -> None:
    assert issubclass(Unreachable, Unavailable)
    assert issubclass(UnknownTopic, ApiError)
