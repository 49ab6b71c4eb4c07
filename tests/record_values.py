"""Random records, within what every client can write: header names are text, timestamps not negative."""

from hypothesis import strategies as st

from headrace.protocol.records import Record

_BYTES = st.none() | st.binary(max_size=50) | st.builds(lambda byte: byte * 40_000, st.binary(min_size=1, max_size=2))
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


def records() -> st.SearchStrategy[Record]:
    return st.builds(
        Record,
        key=_BYTES,
        value=_BYTES,
        headers=st.lists(st.tuples(_TEXT, st.none() | st.binary(max_size=20)), max_size=3).map(tuple),
        timestamp_ms=st.integers(0, 1 << 45),
        offset=st.just(0),
    )
