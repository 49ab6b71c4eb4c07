"""A sheet: what its lines, verdicts and notes say of readings."""

import io

from rich.console import Console

from bench.sheet import Claim, Line, Reading, Sheet
from headrace.lab.requirements import Result, at_least, at_most


def reading(row: str, system: str, repeat: int, **values: float) -> Reading:
    return Reading(row=row, system=system, repeat=repeat, values=values)


READINGS = [
    reading("a", "ours", 0, rows_per_s=2_000_000.0, cpu_s_per_m_rows=3.0, steal_share=0.5),
    reading("a", "ours", 1, rows_per_s=3_000_000.0, cpu_s_per_m_rows=5.0, steal_share=0.5),
    reading("a", "theirs", 0, rows_per_s=1_000_000.0, cpu_s_per_m_rows=2.0, steal_share=0.0),
]
CLAIMS = [
    Claim(at_least("rows_per_s", 2.0, rival="theirs"), ("a", "theirs")),
    Claim(at_most("cpu_s_per_m_rows", 1.0, rival="theirs"), ("a", "theirs")),
    Claim(at_most("cpu_s_per_m_rows", 4.0)),
    Claim(at_least("rows_per_s", 1.0, rival="nobody"), ("a", "nobody")),
]


def make(*, is_judged: bool = True, failures: tuple[str, ...] = ()) -> Sheet:
    return Sheet(
        title="Rows",
        heads=("broker", "format"),
        metrics=("rows_per_s", "cpu_s_per_m_rows"),
        lines=[
            Line(row="a", system="ours", labels=("node", "ours"), claims=CLAIMS),
            Line(row="a", system="theirs", labels=("node", "theirs")),
        ],
        readings=READINGS,
        failures=failures,
        facts={"cores": 2},
        seconds=90.0,
        is_judged=is_judged,
    )


def test_claims_are_judged_against_the_line_that_they_name() -> None:
    sheet = make()
    expected = [Result.MET, Result.SHORT, Result.MET, Result.NOT_JUDGED]
    assert [one.verdict.result for one in sheet.judged(sheet.lines[0])] == expected
    assert sheet.judged(sheet.lines[1]) == []
    assert sheet.any_short()
    assert str(sheet.judged(sheet.lines[0])[0]) == "met: rows/s 2.5 >= 2 x theirs"


def test_a_smoke_run_judges_nothing_and_says_so() -> None:
    sheet = make(is_judged=False)
    assert sheet.judged(sheet.lines[0]) == []
    assert not sheet.any_short()
    assert any("judges nothing" in note for note in sheet.notes())


def test_a_disturbed_line_and_a_failure_are_named() -> None:
    notes = make(failures=("a, theirs, repeat 2: gone",)).notes()
    assert notes[0] == "Machine: cores 2. Run time 1.5 min."
    assert any("stolen by the host" in note and "node, ours 50%" in note and "theirs" not in note for note in notes)
    assert notes[-1] == "Failed: a, theirs, repeat 2: gone"


def test_markdown_has_a_line_each_with_median_and_range() -> None:
    lines = make().markdown().splitlines()
    assert lines[0] == "Rows, 2 repeats: median, least..greatest."
    (ours,) = [line for line in lines if line.startswith("| node | ours |")]
    assert "| 2.50 M (2.00 M..3.00 M) | 4.00 (3.00..5.00) |" in ours
    (theirs,) = [line for line in lines if line.startswith("| node | theirs |")]
    assert theirs == "| node | theirs | 1.00 M | 2.00 |  |"


def test_json_has_every_metric_that_was_read() -> None:
    ours, theirs = make().json_lines()
    assert (ours["row"], ours["system"], ours["repeats"], theirs["repeats"]) == ("a", "ours", 2, 1)
    metrics = ours["metrics"]
    assert isinstance(metrics, dict)
    assert set(metrics) == {"rows_per_s", "cpu_s_per_m_rows", "steal_share"}
    assert metrics["rows_per_s"]["values"] == [2_000_000.0, 3_000_000.0]


def test_a_terminal_sees_the_same() -> None:
    out = io.StringIO()
    Console(file=out, width=190).print(make().rich_table())
    assert "2.50 M" in out.getvalue()
    assert "short: CPU-s/M rows 2 <= 1 x theirs" in out.getvalue()
