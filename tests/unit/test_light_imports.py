"""What a node carries for its whole life, it carries for a reason."""

import os
import subprocess
import sys

import pytest

_HEAVY = {
    "aiokafka", "confluent_kafka", "deltalake", "hypothesis", "kafka", "kazoo", "kio", "matplotlib", "numpy",
    "pandas", "pyarrow", "pyspark", "pytest", "rich", "scipy", "starlette", "typer", "uvicorn",
}  # fmt: skip


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after a statement."""
    ran = subprocess.run(
        [sys.executable, "-c", f"{statement}\nimport sys; print(*sys.modules, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("COV")},
    )
    return set(ran.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import headrace",
        "import headrace.cli.main, headrace.cli.serve, headrace.server.main",
        "import headrace.server.http, headrace.server.metrics",
    ],
)
def test_serving_loads_nothing_heavy(statement: str) -> None:
    loaded = modules_after(statement)
    assert "headrace" in loaded
    assert not {name.partition(".")[0] for name in loaded} & _HEAVY


def test_the_package_itself_loads_next_to_nothing() -> None:
    assert not modules_after("import headrace") & {"asyncio", "socket", "headrace.node", "headrace.server"}


def test_configuration_needs_neither_files_nor_a_loop() -> None:
    assert not modules_after("import headrace.node.configs") & {"asyncio", "socket", "pathlib", "dataclasses"}


def test_http_is_loaded_only_where_it_is_asked_for() -> None:
    assert "headrace.server.http" not in modules_after("import headrace.server.main")
