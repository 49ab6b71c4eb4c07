"""The package is built with a compiler and without one, and holds what it should."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.oracle.toolbox import ToolMissing, require_tool, without_tool

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "headrace/columnar/_kernel.abi3.so"


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    """A copy to build in, without what was built in ours."""
    copy = tmp_path / "source"
    ignored = shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    return copy


def build_wheel(source_dir: Path, *, compiler: str) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--no-build-isolation", "--no-index", "--wheel-dir", source_dir / "dist", source_dir],
        check=True, env=os.environ | {"CC": compiler}, timeout=100,
    )  # fmt: skip
    [wheel] = (source_dir / "dist").iterdir()
    return wheel


def test_with_a_compiler_one_wheel_for_every_python(source_dir: Path) -> None:
    try:
        compiler = require_tool("gcc", hint="the Debian packages are gcc and libc6-dev")
    except ToolMissing as missing:
        without_tool(missing)
    wheel = build_wheel(source_dir, compiler=compiler)
    assert "-cp311-abi3-" in wheel.name
    held = zipfile.ZipFile(wheel).namelist()
    assert KERNEL in held
    assert "headrace/py.typed" in held
    assert "headrace/columnar/_kernel.pyi" in held
    assert "headrace/lab/report/page.css" in held
    assert "headrace/lab/targets/pom.xml" in held
    assert "headrace/spark/log4j2.properties" in held


def test_without_a_compiler_the_rest(source_dir: Path) -> None:
    wheel = build_wheel(source_dir, compiler="/bin/false")
    held = zipfile.ZipFile(wheel).namelist()
    assert KERNEL not in held
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert {name for name in held if name.endswith(".py")} == modules
