"""What a broker says of a quota is read from the end of its answer, in every version."""

import pytest

from headrace.lab.columnar_engine import read_throttle_ms
from headrace.protocol.messages.produce import API as PRODUCE


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("throttle_ms", [0, 1, 70_000])
def test_throttle_time(version: int, throttle_ms: int) -> None:
    part = {"index": 3, "error_code": 0, "base_offset": 17}
    answer = {"responses": [{"name": "orders", "partition_responses": [part]}], "throttle_time_ms": throttle_ms}
    frame = PRODUCE.response.encode(answer, version)
    assert read_throttle_ms(memoryview(frame), version) == throttle_ms
