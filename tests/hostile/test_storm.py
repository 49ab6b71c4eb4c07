"""A share of the mutations; `make prove` sends all hundred thousand."""

from tests.hostile.storm import storm


def test_mutated_requests_harm_nobody_else() -> None:
    outcome = storm(first=0, count=2000)
    # A storm that only ever bounced off the door would prove nothing.
    assert outcome.answered > 100
    assert outcome.closed > 100
