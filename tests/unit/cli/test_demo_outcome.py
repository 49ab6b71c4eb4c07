"""What the demo's stream has counted, against what its lake holds."""

from datetime import UTC, datetime

import pyarrow as pa

from headrace.cli.demo_outcome import Window, compare_windows

BEGAN_S = 1_763_208_000
TIMES = pa.timestamp("us", "UTC")


def at(*seconds: float) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array([int((BEGAN_S + each) * 1_000_000) for each in seconds], TIMES)])


def start(second: int) -> datetime:
    return datetime.fromtimestamp(BEGAN_S + second, UTC)


def test_windows_are_counted_over_all_pages() -> None:
    counted = pa.table({"window_start": at(0, 0, 10), "page": ["/", "/a", "/"], "count": [2, 1, 1]})
    assert compare_windows(at(0, 9.999999, 5, 10), counted) == [Window(start(0), 3, 3), Window(start(10), 1, 1)]


def test_a_window_that_only_one_side_knows_is_told_of() -> None:
    counted = pa.table({"window_start": at(0, 20), "page": ["/", "/"], "count": [1, 4]})
    assert compare_windows(at(0, 10, 11), counted) == [
        Window(start(0), 1, 1),
        Window(start(10), 0, 2),
        Window(start(20), 4, 0),
    ]
