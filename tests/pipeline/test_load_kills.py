"""A few kills of a loading driver; `make prove` makes many."""

from pathlib import Path

import pytest

from tests.proofs import lake
from tests.proofs.proof import Slice


@pytest.mark.timeout(240)
def test_a_driver_killed_anywhere_and_run_again_loads_every_record_once(tmp_path: Path) -> None:
    facts = lake.run(Slice(range(8), is_full=False, scratch=tmp_path))
    assert (facts["kills"], facts["kills_of_the_broker"]) == (8, 1)
    records = facts["rows"] + facts["dead_letters"]
    assert records >= lake.ROWS
    assert facts["dead_letters"] == records / lake.STRANGE_EVERY
