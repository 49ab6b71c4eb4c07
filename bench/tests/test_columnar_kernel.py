"""Every kind of record can be measured, by every kernel that is there."""

import json

import pytest

from bench.columnar_kernel import SHAPES, main


def test_every_shape_yields_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--records", "300", "--repeats", "1", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {row["shape"] for row in rows} == {shape.name for shape in SHAPES}
    assert {"floor", "plain", "both", "numpy"} <= {row["way"] for row in rows}
    assert all(row["ns_per_record"] > 0 for row in rows if row["way"] == "numpy")
