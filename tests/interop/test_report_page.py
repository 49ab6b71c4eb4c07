"""The lab's report in a real browser: drawn, without errors, with the results' numbers, on a desk and on a phone."""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.lab.report.minutes import LONG_S
from headrace.lab.report.writing import write_report
from headrace.lab.results import Bottleneck, EndLine, Results, read_results
from tests.oracle.toolbox import ToolMissing, require_tool, without_tool
from tests.result_values import latencies, reading, repeat, scenario, seconds, trial, write

try:
    from selenium import webdriver
except ImportError:
    without_tool(ToolMissing("selenium is not installed (pip install selenium)"))

HINT = "the Debian packages are chromium and chromium-driver"
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
)  # fmt: skip
DESK_PX, PHONE_PX = 1280, 390


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from selenium.webdriver.chrome.service import Service

    try:
        chromium, driver = (require_tool(name, hint=HINT) for name in ("chromium", "chromedriver"))
    except ToolMissing as missing:
        without_tool(missing)
    profile = tempfile.mkdtemp()
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    started = webdriver.Chrome(options=options, service=Service(driver))
    try:
        yield started
    finally:
        started.quit()
        shutil.rmtree(profile, ignore_errors=True)


def sweep(directory: Path) -> Results:
    """Several cells and repeats, with everything that a report can show."""
    lines = []
    for (acks, rate), number in itertools.product({"0": 250_000.5, "1": 320_000.25}.items(), range(2)):
        cell = {"acks": acks, "batch_bytes": 16_384}
        lines += seconds([int(rate) + 1000 * second for second in range(5)], cell=cell, number=number)
        lines.append(
            repeat(
                {"rate_per_s": rate + number, "mb_per_s": rate / 5000, "planned_latency_p99_ms": 12.345},
                cell=cell,
                number=number,
                histograms={"planned_latency": latencies(1.5), "send_latency": latencies(0.5)},
                gate={"rate_per_s": "passed", "planned_latency_p99_ms": "not measurable here: the sender was late"},
                bottleneck=Bottleneck(verdict="client CPU", evidence=["the sender used 99% of a core"]),
            )
        )
    name = "a sweep whose name is as long as anybody would ever write one"
    return read_results(write(directory, [scenario(name), *lines, EndLine(partial="the broker died after 5 s")]))


def published(directory: Path) -> Results:
    """Of a preset: findings, and what a paper states beside what was measured."""
    cells = [{"acks": acks, "batch_size": size} for acks in ("0", "1", "all") for size in ("16KiB", "64KiB")]
    lines = [
        repeat({"rate_per_s": 250e3 + 1000 * number, "mb_per_s": 50.0}, cell=cell, number=number)
        for number, cell in itertools.product(range(3), cells)
    ]
    return read_results(write(directory, [scenario("s0-fig7", workload={"rate": "1000K"}), *lines, EndLine()]))


def single(directory: Path) -> Results:
    one = repeat(
        {"rate_per_s": 99_871.5, "planned_latency_p50_ms": 2.5}, histograms={"planned_latency": latencies(2.0)}
    )
    return read_results(
        write(directory, [scenario(target="kafka"), *seconds([90_000, 99_000, 101_000]), one, EndLine()])
    )


LOADS = {"0": (0.5, 1.25, 1.75), "1": (2.5, 3.25, 3.5)}  # By acks, second by second.
TRIALS = ((100e3, True), (200e3, False), (150e3, True), (175e3, False), (162.5e3, True))


def watched(directory: Path) -> Results:
    """What a run leaves that consumed, read the machine meanwhile, and searched for the highest rate."""
    lines: list[Any] = []
    for acks, rate in {"0": 90_000, "1": 60_000}.items():
        cell = {"acks": acks}
        lines += seconds([rate, rate + 500, rate + 900], cell=cell)
        line = repeat(
            {"max_rate_per_s": 162.5e3, "rate_per_s": rate, "consumed_per_s": rate, "end_to_end_p99_ms": 7.5},
            cell=cell,
            histograms={"end_to_end": latencies(3.0)},
            bottleneck=Bottleneck(verdict="none found"),
        )
        held_up = Bottleneck(verdict="consumer CPU", evidence=["the consumer used 99% of a core"])
        lines.append(replace(line, consumer_bottleneck=held_up))
    trials = [trial(rate, held=held, cell={"acks": acks}) for acks in LOADS for rate, held in TRIALS]
    write(directory, [scenario("watched", workload={"groups": 1}), *lines, EndLine()], more=trials)
    for number, loads in enumerate(LOADS.values()):
        text = "\n".join(reading(second, load=load) for second, load in enumerate(loads))
        (directory / f"readings-{number}.jsonl").write_text(text)
    return read_results(directory)


def lengthy(directory: Path) -> Results:
    """Long enough for rates over the last minute."""
    lines: list[Any] = []
    for acks, rate in {"0": 90_000, "1": 60_000, "all": 50_000}.items():
        cell = {"acks": acks}
        course = seconds([rate + 100 * (second % 30) for second in range(LONG_S + 5)], cell=cell)
        lines += [replace(line, more={"is_warm_up": second < 5}) for second, line in enumerate(course)]
        lines.append(repeat({"rate_per_s": rate}, cell=cell))
    return read_results(write(directory, [scenario("lengthy"), *lines, EndLine()]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Results]]:
    made = tmp_path_factory.mktemp("runs")
    several, one = sweep(made / "sweep"), single(made / "single")
    return {
        "sweep": [several],
        "single": [one],
        "both": [several, one],
        "published": [published(made / "published")],
        "watched": [watched(made / "watched")],
        "lengthy": [lengthy(made / "lengthy")],
    }


def show(browser: Any, page: Path, *, width_px: int, scheme: str) -> None:
    """Each page afresh, with the log of whatever was before it read and gone."""
    browser.get_log("browser")
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    screen = {"width": width_px, "height": 900, "deviceScaleFactor": 1, "mobile": width_px < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get(page.as_uri())


def values_of(browser: Any, selector: str, *names: str) -> list[tuple[str, ...]]:
    script = "return [...document.querySelectorAll(arguments[0])].map(e => arguments[1].map(n => e.getAttribute(n)))"
    return [tuple(each) for each in browser.execute_script(script, selector, list(names))]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width_px", [DESK_PX, PHONE_PX])
@pytest.mark.parametrize("of", ["sweep", "single", "both", "published", "watched", "lengthy"])
def test_a_page_fits_is_drawn_and_has_no_errors(
    browser: Any, runs: dict[str, list[Results]], tmp_path: Path, of: str, width_px: int, scheme: str
) -> None:
    show(browser, write_report(runs[of], tmp_path, with_figures=False).page, width_px=width_px, scheme=scheme)
    assert browser.get_log("browser") == []
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.execute_script("return innerWidth") == width_px
    wide_px, seen_px = browser.execute_script(
        "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
    )
    assert wide_px == seen_px  # Nothing to scroll to.

    # Every line and bar takes up room on the screen, inside its own chart.
    drawn = browser.execute_script(
        """return [...document.querySelectorAll('.chart')].map(chart => {
            const outer = chart.getBoundingClientRect();
            const shapes = [...chart.querySelectorAll('path.line, rect.bar')].map(e => e.getBoundingClientRect());
            const texts = [...chart.querySelectorAll('text')]
                .filter(e => getComputedStyle(e).display !== 'none').map(e => e.getBoundingClientRect());
            return [chart.dataset.chart, shapes.length, shapes.every(r => r.width > 0),
                [...shapes, ...texts].every(r => r.left >= outer.left - 1 && r.right <= outer.right + 1)];
        })"""
    )
    assert drawn
    assert [chart for chart in drawn if not (chart[1] and chart[2] and chart[3])] == []

    # Words can be read on what is behind them.
    back, front = browser.execute_script(
        "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
    )
    assert _contrast(back, front) > 7
    assert (_luminance(back) < 0.5) == (scheme == "dark")


def test_numbers_are_those_of_the_results(browser: Any, runs: dict[str, list[Results]], tmp_path: Path) -> None:
    [results] = runs["sweep"]
    show(browser, write_report(runs["sweep"], tmp_path, with_figures=False).page, width_px=DESK_PX, scheme="light")
    expected = {
        (", ".join(f"{name}={value}" for name, value in cell.items()), metric): sum(values) / len(values)
        for cell in results.cells
        for metric in ("rate_per_s", "mb_per_s", "planned_latency_p99_ms")
        if (values := results.values(cell, metric))
    }
    cells = values_of(browser, "table[data-table=metrics] [data-metric]", "data-subject", "data-metric", "data-value")
    assert {(subject, metric): float(value) for subject, metric, value in cells} == pytest.approx(expected)

    rates = {subject: value for (subject, metric), value in expected.items() if metric == "rate_per_s"}
    shown = values_of(browser, "[data-chart=bars-rate_per_s] [data-bar]", "data-bar", "data-value")
    assert {name: float(value) for name, value in shown} == pytest.approx(rates)
    widths = browser.execute_script(
        """const bars = document.querySelectorAll('[data-chart=bars-rate_per_s] rect');
        return [...bars].map(bar => bar.getBoundingClientRect().width)"""
    )
    [low, high] = rates.values()
    assert widths[0] / widths[1] == pytest.approx(low / high, abs=0.01)

    lines = values_of(browser, "[data-chart=rates-1] path.line:not([data-series=planned])", "data-series", "data-y")
    for (name, ys), cell in zip(lines, results.cells, strict=True):
        repeats = [results.seconds_of(cell, repeat=number) for number in (0, 1)]
        assert name.startswith(f"acks={cell['acks']}")
        assert [float(y) for y in ys.split()] == [(a.acknowledged + b.acknowledged) / 2 for a, b in zip(*repeats)]  # noqa: B905

    words = browser.execute_script("return document.body.innerText")
    assert "the broker died after 5 s" in words
    assert "not measurable here: in 2 of 2 repeats: the sender was late" in words
    assert "client CPU" in words


def test_machine_consumers_and_searches_are_drawn_with_their_numbers(
    browser: Any, runs: dict[str, list[Results]], tmp_path: Path
) -> None:
    show(browser, write_report(runs["watched"], tmp_path, with_figures=False).page, width_px=DESK_PX, scheme="light")

    def drawn(key: str, *names: str) -> list[tuple[str, ...]]:
        return values_of(browser, f"[data-chart={key}] path[data-series]", *names)

    assert {name: tuple(map(float, ys.split())) for name, ys in drawn("machine-load-1", "data-series", "data-y")} == {
        f"acks={acks}": loads for acks, loads in LOADS.items()
    }
    for key, values in {"cpu": 50.0, "disk": 3.0, "loopback": 4.0, "packets": 30_000.0}.items():
        lines = drawn(f"machine-{key}-1", "data-y")
        assert [[float(y) for y in ys.split()] for (ys,) in lines] == [[values] * 3] * 2, key
    consumed = [[float(y) for y in ys.split()] for (ys,) in drawn("consumed-1", "data-y")]
    assert consumed == [[rate, rate + 500, rate + 900] for rate in (90_000, 60_000)]
    for number in range(2):
        found = {
            name: tuple(map(float, ys.split())) for name, ys in drawn(f"search-{number}-0", "data-series", "data-y")
        }
        assert found == {
            "tried": tuple(rate for rate, _ in TRIALS),
            "held": tuple(rate for rate, held in TRIALS if held),
            "not held": tuple(rate for rate, held in TRIALS if not held),
        }
    words = browser.execute_script("return document.body.innerText")
    assert "consumer CPU" in words
    assert "the consumer used 99% of a core" in words


def test_what_kafka_shows_is_drawn_on_the_axes_of_what_was(
    browser: Any, runs: dict[str, list[Results]], tmp_path: Path
) -> None:
    show(browser, write_report(runs["lengthy"], tmp_path, with_figures=False).page, width_px=DESK_PX, scheme="light")
    ticks = [
        values_of(browser, f"[data-chart={key}] text.tick", "x", "y") for key in ("minute-kafka-1", "minute-true-1")
    ]
    assert ticks[0] == ticks[1]
    for key, first in {"minute-kafka-1": -5.0, "minute-true-1": 54.0}.items():
        lines = values_of(browser, f"[data-chart={key}] path[data-series]", "data-series", "data-x")
        assert {name: float(xs.split()[0]) for name, xs in lines} == {
            f"acks={acks}": first for acks in "0 1 all".split()
        }


def _luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)
