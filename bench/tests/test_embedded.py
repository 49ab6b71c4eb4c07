"""What the bench of embedded brokers makes of its timings."""

from datetime import date
from pathlib import Path

import pytest

from bench import embedded
from bench.embedded import Timings, lines_of, page
from tests.oracle.toolbox import ToolMissing


def test_a_page_has_medians_and_says_when_and_of_what_they_are() -> None:
    runs = {"Headrace": [Timings(0.3, 7.0, 0.01), Timings(0.2, 6.0, 0.02), Timings(0.9, 8.0, 0.03)]}
    (line,) = lines_of(runs)
    assert line == (
        "Headrace", "0.30 (0.20..0.90)", "7.00 (6.00..8.00)", "0.02 (0.01..0.03)", "7.31 (6.22..8.93)"
    )  # fmt: skip
    written = page([line], day=date(2026, 11, 18), rounds=3, commit="0.1.0 (abc)", machine="cores 2")
    assert written.startswith("# A small suite on an embedded broker and on Apache Kafka, 2026-11-18\n")
    assert "headrace 0.1.0 (abc)" in written
    assert "Machine: cores 2." in written
    assert "| Headrace | 0.30 (0.20..0.90) |" in written


def test_what_is_lacking_is_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_jars() -> list[Path]:
        raise ToolMissing("java is not installed")

    monkeypatch.setattr(embedded, "kafka_jars", no_jars)
    with pytest.raises(SystemExit) as left:
        embedded.main([])
    assert left.value.code == 2
    assert "java is not installed" in capsys.readouterr().err
