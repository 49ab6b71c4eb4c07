"""The report in short."""

from dataclasses import replace
from pathlib import Path

from headrace.lab.report.markdown import markdown
from headrace.lab.report.subjects import subjects_of
from headrace.lab.results import Bottleneck, EndLine, Line, read_results
from tests.result_values import repeat, scenario, write


def short(directory: Path, *lines: Line, name: str = "steady", partial: str | None = None) -> list[str]:
    results = read_results(write(directory, [scenario(name), *lines, EndLine(partial=partial)]))
    return markdown([results], subjects_of([results]), ["figures/rates.png"]).splitlines()


def test_numbers_doubts_and_bottlenecks(tmp_path: Path) -> None:
    latencies = ("send_latency_p50_ms", "send_latency_p99_ms")
    verdict = Bottleneck(verdict="disk", evidence=["a flush was under way | always"])
    lines = [
        repeat({"rate_per_s": rate} | dict.fromkeys(latencies, 2.5), number=number, bottleneck=verdict, gate=gate)
        for number, (rate, gate) in enumerate([(1000.0, {}), (1002.0, dict.fromkeys(latencies, "late"))])
    ]
    told = short(tmp_path / "a", *lines)
    assert told[0] == "# steady on node"
    assert told[2].startswith("16 November 2026, 12:00 UTC, headrace 0.1.0: a processor, 2 cores, 8.0 GiB of memory.")
    assert "| node | 1,001 ± 13 | 2.5 ± 0 † | 2.5 ± 0 † |" in told
    assert "- sent to answered, p50, p99 (node): in 1 of 2 repeats: late" in told
    assert told.count("† not measurable here:") == 1
    assert "| node | disk | a flush was under way \\| always |" in told
    assert "![rates](figures/rates.png)" in told


def test_what_happened_meanwhile_and_what_failed(tmp_path: Path) -> None:
    events = [["100 messages failed: TOO | LARGE", "node killed at 2 s"], ["node killed at 2 s"], []]
    lines = [
        replace(repeat({"rate_per_s": 5.0, "failed": 100.0}, number=number), events=told)
        for number, told in enumerate(events)
    ]
    told = short(tmp_path / "a", *lines)
    assert "|  | rate, messages/s | failed, messages |" in told
    assert "- 100 messages failed: TOO \\| LARGE (node, repeat 1)" in told
    assert "- node killed at 2 s (node, repeat 1; node, repeat 2)" in told
    assert "## Meanwhile" not in short(tmp_path / "b", repeat({"rate_per_s": 5.0}))


def test_findings_of_a_preset(tmp_path: Path) -> None:
    lines = [
        repeat({"consumed_per_s": rate * factor}, cell={"messages": messages}, number=number)
        for messages, rate in ((1000, 100.0), (9000, 50.0))
        for number, factor in enumerate((0.99, 1.0, 1.01))
    ]
    told = short(tmp_path / "a", *lines, name="s1-backlog")
    [row] = [line for line in told if line.startswith("| **")]
    assert row.startswith("| **does not hold** | Consuming is no slower")
    assert "doesn't degrade with a larger data size" in row


def test_what_was_cut_short_says_so_and_a_sweep_of_nothing_is_empty(tmp_path: Path) -> None:
    told = short(tmp_path / "a", partial="the <b>broker</b> died")
    assert "**Partial:** the &lt;b>broker&lt;/b> died." in told
    assert not [line for line in told if line.startswith("|")]
