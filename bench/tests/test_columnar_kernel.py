"""Every kind of record can be measured, by every kernel that is there."""

import json
from pathlib import Path

import pytest

from bench.columnar_kernel import PLAIN, SHAPES, Reading, main, verdict


def test_every_shape_yields_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--records", "300", "--repeats", "1", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["shape"] for row in rows} == {shape.name for shape in SHAPES}
    assert {"floor", "plain", "both", "numpy"} <= {row["way"] for row in rows}
    assert all(row["ns_per_record"] > 0 for row in rows if row["way"] == "numpy")


def test_a_page_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    assert main(["--records", "300", "--repeats", "1", "--markdown", str(file)]) == 0
    page = file.read_text()
    assert all(f"\n| {shape.name} | decode |" in page for shape in SHAPES)
    assert f"decoding {PLAIN} by numpy: " in page
    assert f"decoding {PLAIN} by numpy: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ns", "word"), [(249.0, "4.0 M rows/s, asked for 4: met"), (260.0, "3.8 M rows/s, asked for 4: short")]
)
def test_the_verdict_is_on_numpy_and_plain_rows(ns: float, word: str) -> None:
    others = [
        Reading(PLAIN, "decode", "c", 1.0),
        Reading("20 B", "decode", "numpy", 1.0),
        Reading(PLAIN, "open", "both", 1.0),
    ]
    assert verdict([*others, Reading(PLAIN, "decode", "numpy", ns)]).endswith(word)
