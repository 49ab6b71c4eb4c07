"""The proof of groups finds what members may not suffer."""

import pytest

from tests.proofs.crowd import SESSION_MS
from tests.proofs.groups import Findings, check

GOOD = Findings(**dict.fromkeys(Findings._fields, 0))


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        (GOOD._replace(given_up=1), "1 members were given up"),
        (GOOD._replace(joined_again_after_restart=5), "5 members had to join again after the restart"),
        (GOOD._replace(silence_s_max=SESSION_MS / 1000), "a member was not answered for 10.0 s"),
    ],
)
def test_what_members_may_not_suffer(found: Findings, complaint: str) -> None:
    check(GOOD)
    with pytest.raises(AssertionError, match=complaint):
        check(found)
