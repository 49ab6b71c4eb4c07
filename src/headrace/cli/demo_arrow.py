"""The demo's last look: the same topic as an Arrow table, and which pages people wanted.

Needs the extra `arrow`; without it the scene is left out, and the demo says so.
"""

import importlib.util
import time
from typing import Any, Final, NamedTuple

_PAGES: Final = 5


class Outcome(NamedTuple):
    rows: int
    read_s: float
    count_s: float
    pages: list[tuple[str, int]]  # Those asked for most, and how often.

    def fields(self) -> dict[str, Any]:
        return {**self._asdict(), "pages": dict(self.pages)}


def play(bootstrap: str, topic: str) -> Outcome | None:
    """None where there is no pyarrow."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    import pyarrow.compute as pc

    from headrace import columnar

    began_s = time.monotonic()
    table = columnar.read(bootstrap, topic, columns=["value"]).read_all()
    read_s = time.monotonic() - began_s
    found = pc.extract_regex(table["value"].cast(pa.string()), r'"\w+ (?P<page>\S+)')
    pages = pc.value_counts(pc.struct_field(found, "page")).to_pylist()
    top = sorted(pages, key=lambda page: (-page["counts"], page["values"]))[:_PAGES]
    return Outcome(
        rows=table.num_rows,
        read_s=read_s,
        count_s=time.monotonic() - began_s - read_s,
        pages=[(page["values"], page["counts"]) for page in top],
    )
