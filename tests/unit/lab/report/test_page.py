"""The page: complete, of itself, and with the results' own numbers."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import ClassVar

from headrace.lab.readings.recorder import RECORDED
from headrace.lab.report.markdown import markdown
from headrace.lab.report.page import by_reason, page
from headrace.lab.report.subjects import subjects_of
from headrace.lab.results import Bottleneck, EndLine, Line, Results, read_results
from tests.result_values import latencies, of_rates, repeat, scenario, seconds, write


class Outline(HTMLParser):
    """Checks that elements are closed as they were opened, and keeps what they say."""

    VOID: ClassVar = {"meta", "link", "br"}

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    def having(self, attribute: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.elements if attribute in attributes]


def read(directory: Path, *lines: Line, end: EndLine | None = None) -> Results:
    return read_results(write(directory, [scenario(), *lines, end or EndLine()]))


def whole(directory: Path) -> Results:
    verdict = Bottleneck(verdict="client CPU", evidence=["the sender used 99% of a core"])
    return read(
        directory,
        *seconds([90_000, 110_000]),
        repeat(
            {"rate_per_s": 100_123.25, "planned_latency_p99_ms": 2.125},
            bottleneck=verdict,
            histograms={"planned_latency": latencies(1.0)},
            gate={"rate_per_s": "passed", "planned_latency_p99_ms": "not measurable here: the sender was late"},
        ),
    )


def test_numbers_are_those_of_the_results(tmp_path: Path) -> None:
    shown = Outline(page([whole(tmp_path / "a")]))
    values = {each["data-metric"]: each["data-value"] for each in shown.having("data-metric")}
    assert values == {"rate_per_s": "100123.25", "planned_latency_p99_ms": "2.125"}
    [acknowledged] = (each for each in shown.having("data-series") if each["data-series"] == "acknowledged")
    assert acknowledged["data-y"] == "90000.0 110000.0"
    assert "100,123" in shown.text


def test_verdicts_doubts_and_facts_are_told(tmp_path: Path) -> None:
    text = Outline(page([whole(tmp_path / "a")])).text
    assert "bottleneck: client CPU" in text
    assert "the sender used 99% of a core" in text
    assert "not measurable here: the sender was late" in text
    assert "a processor" in text
    assert "8.0 GiB" in text


def test_it_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    text = page([whole(tmp_path / "a")])
    shown = Outline(text)
    assert not {tag for tag, _ in shown.elements} & {"script", "img", "iframe", "object", "embed"}
    links = [each.get("src") or each.get("href") for _, each in shown.elements if "src" in each or "href" in each]
    assert links == ["data:,"]
    assert not re.search(r"https?://|url\(|@import", text)


def test_a_run_that_was_cut_short_says_so(tmp_path: Path) -> None:
    cut = read(tmp_path / "a", *seconds([1, 2]), end=EndLine(partial="the broker died"))
    shown = Outline(page([cut]))
    assert len(shown.having("data-partial")) == 1
    assert "the broker died" in shown.text
    assert not Outline(page([whole(tmp_path / "b")])).having("data-partial")


def test_a_run_whose_requests_were_recorded_says_so(tmp_path: Path) -> None:
    recorded = read(tmp_path / "a", replace(repeat({"rate_per_s": 1.0}), events=[RECORDED]))
    shown = Outline(page([recorded]))
    assert len(shown.having("data-recorded")) == 1
    assert "a proxy before each broker, which adds to every latency" in shown.text
    assert f"**Recorded:** {RECORDED}." in markdown([recorded], subjects_of([recorded]), [])
    plain = whole(tmp_path / "b")
    assert not Outline(page([plain])).having("data-recorded")
    assert "Recorded" not in markdown([plain], subjects_of([plain]), [])


def test_further_runs_are_held_against_the_first(tmp_path: Path) -> None:
    first, second = of_rates(tmp_path / "a", [100.0, 101.0]), of_rates(tmp_path / "b", [200.0, 202.0])
    [ratio] = Outline(page([first, second])).having("data-ratio")
    assert ratio["data-value"] == "2.0"
    assert not Outline(page([first])).having("data-ratio")


def test_a_run_of_a_preset_has_its_findings_judged(tmp_path: Path) -> None:
    repeats = [
        repeat({"consumed_mb_per_s": mb * factor, "end_to_end_p50_ms": 5.0}, cell={"consume": when}, number=number)
        for when, mb in {"during": 10.0, "after": 30.0}.items()
        for number, factor in enumerate((0.99, 1.0, 1.01))
    ]
    results = read_results(write(tmp_path / "a", [scenario("s4-after", workload={"rate": "max"}), *repeats, EndLine()]))
    shown = Outline(page([results]))
    assert [each["data-verdict"] for each in shown.having("data-verdict")] == ["holds", "does not hold"]
    assert "greater than the latter one" in shown.text
    assert "Each EC2 m3xlarge machine has 4 vCPU" in shown.text
    assert not Outline(page([whole(tmp_path / "b")])).having("data-verdict")


def test_a_remark_of_ours_is_told_from_the_papers_words(tmp_path: Path) -> None:
    line = repeat({"mb_per_s": 10.0, "consumed_mb_per_s": 30.0})
    results = read_results(write(tmp_path / "a", [scenario("s2-cku"), line, EndLine()]))
    text = Outline(page([results])).text
    assert "AWS: “AWS 117 351 GCP 106 318 Azure 106 318” (table in Results). Our remark: AWS wrote all" in text
    assert text.count("Our remark: AWS wrote all") == 3  # Below each of the two charts, and once among the sources.
    told = markdown([results], subjects_of([results]), [])
    assert "(table in Results). Our remark: AWS wrote all" in told


def test_what_failed_and_why_is_told(tmp_path: Path) -> None:
    why = "1,234 messages failed: MSG_SIZE_<TOO>_LARGE"
    lines = [
        replace(repeat({"rate_per_s": 1.0, "failed": 1234.0}, number=n), events=[why] if n else []) for n in range(2)
    ]
    shown = Outline(page([read(tmp_path / "a", *lines)]))
    assert shown.text.count(why) == 1
    assert {"data-metric": "failed", "data-value": "1234.0"}.items() <= shown.having("data-metric")[1].items()
    assert "meanwhile" not in Outline(page([whole(tmp_path / "b")])).text


def test_what_is_known_of_clocks_is_among_the_facts(tmp_path: Path) -> None:
    lines = [replace(repeat({"rate_per_s": 1.0}, number=n), clocks="one host, one clock") for n in range(2)]
    shown = Outline(page([read(tmp_path / "a", *lines)]))
    assert shown.text.count("one host, one clock") == 1


def test_a_reason_is_told_once() -> None:
    reasons = {"rate_per_s": "late", "mb_per_s": "late", "lateness_p99_ms": "stolen"}
    assert by_reason(reasons, [*reasons]) == {"late": ["rate", "throughput"], "stolen": ["sender's lateness, p99"]}
    assert by_reason(dict.fromkeys(reasons, "late"), [*reasons]) == {"late": ["everything"]}


def test_words_of_a_workload_are_no_markup(tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)>"
    results = read(tmp_path / "a", *seconds([1], cell={bad: bad}), repeat({bad: 1.0}, cell={bad: bad}, partial=bad))
    assert "<img" not in page([results])
