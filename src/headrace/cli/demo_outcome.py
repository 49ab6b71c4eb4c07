"""What came of the demo of the lake: the audit, the most wanted pages, delays, and windows against the lake's rows."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headrace.cli.output import print_table

if TYPE_CHECKING:
    import pyarrow as pa

    from headrace.audit.reconcile import Audit

WINDOW_S: Final = 10
_PAGES: Final = 5


class Window(NamedTuple):
    """What the stream has counted of one window, over all pages, and what the lake holds of it."""

    start: datetime
    counted: int
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    audit: "Audit"
    rows: int
    delay_ms_p50: float
    delay_ms_p99: float
    top_pages: list[tuple[str, int]]
    windows: list[Window]

    @property
    def missing(self) -> int:
        return sum(row.finding.missing + row.finding.late for row in self.audit.rows)

    @property
    def duplicated(self) -> int:
        return sum(row.finding.duplicated for row in self.audit.rows)

    @property
    def uncertain(self) -> int:
        from headrace.audit.report import uncertain_max

        return uncertain_max(self.audit)

    @property
    def windows_that_differ(self) -> list[Window]:
        return [window for window in self.windows if window.counted != window.rows]

    def fields(self) -> dict[str, Any]:
        from headrace.audit.report import report_fields

        return {
            "rows": self.rows,
            "missing": self.missing,
            "duplicated": self.duplicated,
            "uncertain_max": self.uncertain,
            "delay_ms_p50": self.delay_ms_p50,
            "delay_ms_p99": self.delay_ms_p99,
            "top_pages": dict(self.top_pages),
            "windows": [
                {"start": window.start.isoformat(), "counted": window.counted, "rows": window.rows}
                for window in self.windows
            ],
            "audit": report_fields(self.audit),
        }


def look(bootstrap: str, topic: str, *, lake: Path, pages: Path) -> Outcome:
    """When senders rest, and load and stream have come to where the log ends: no window changes any more."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    from headrace.audit.auditing import audit
    from headrace.pipeline.delays import read_delays_ms
    from headrace.pipeline.location import parse_location
    from headrace.wire.settings import client_settings

    rows = DeltaTable(lake).to_pyarrow_table(columns=["timestamp", "value"])
    values = rows["value"].cast(pa.string())
    wanted = pc.value_counts(pc.struct_field(pc.extract_regex(values, r'"\w+ (?P<page>\S+)'), "page")).to_pylist()
    top = sorted(wanted, key=lambda page: (-page["counts"], page["values"]))[:_PAGES]
    p50, p99 = np.percentile(read_delays_ms(parse_location(lake)), [50, 99])
    return Outcome(
        audit=audit(client_settings(bootstrap), topic, lake=str(lake), grace_ms=0),
        rows=len(values),
        delay_ms_p50=round(float(p50), 1),
        delay_ms_p99=round(float(p99), 1),
        top_pages=[(page["values"], page["counts"]) for page in top],
        windows=compare_windows(rows["timestamp"], DeltaTable(pages).to_pyarrow_table()),
    )


def compare_windows(times: "pa.ChunkedArray", counted: "pa.Table") -> list[Window]:
    """Every window that either side knows of, with what each has of it."""
    rows = Counter(time_s // WINDOW_S * WINDOW_S for time_s in _seconds(times))
    counts: Counter[int] = Counter()
    for start_s, count in zip(_seconds(counted["window_start"]), counted["count"].to_pylist(), strict=True):
        counts[start_s] += count
    return [
        Window(datetime.fromtimestamp(start_s, UTC), counts[start_s], rows[start_s])
        for start_s in sorted(rows.keys() | counts.keys())
    ]


def _seconds(times: "pa.ChunkedArray") -> list[int]:
    import pyarrow as pa

    found: list[int] = times.cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.int64()).to_pylist()
    return found


def counted_events(pages: Path) -> int:
    """How many events are in windows by now."""
    import pyarrow.compute as pc
    from deltalake import DeltaTable

    return pc.sum(DeltaTable(pages).to_pyarrow_table(columns=["count"])["count"]).as_py() or 0


def show(outcome: Outcome, *, every: str, lake: Path, pages: Path, stays: bool) -> None:
    from headrace.cli.audit import print_audit

    print_audit(outcome.audit)
    rows = [(page, f"{times:,}") for page, times in outcome.top_pages]
    print_table(("most wanted pages, from the lake", "times"), rows, right=("times",))
    p50_s, p99_s = outcome.delay_ms_p50 / 1000, outcome.delay_ms_p99 / 1000
    delays = f"p50 {p50_s:.1f} s, p99 {p99_s:.1f} s, with a load every {every}"
    counted = sum(window.counted for window in outcome.windows)
    same = len(outcome.windows) - len(outcome.windows_that_differ)
    figures = [
        ("rows in the lake", f"{outcome.rows:,}"),
        ("from event to lake", f"{delays}, the kill included"),
        ("events in windows of the stream", f"{counted:,}"),
        ("windows that equal the lake", f"{same:,} of {len(outcome.windows):,}"),
        ("uncertain, at most", f"{outcome.uncertain:,}: on their way when their sender was killed, and not in the log"),
        ("the lake", str(lake) if stays else "is removed now; --keep leaves it"),
        ("pages per window", str(pages) if stays else "likewise"),
    ]
    print_table(("figure", "value"), figures)
