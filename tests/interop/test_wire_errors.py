"""What the wire client does about error codes, against what Kafka's own clients do."""

from pathlib import Path

import pytest

from headrace.errors import ErrorCode
from headrace.wire.errors import advice
from tests.oracle import kafka
from tests.oracle.toolbox import ToolMissing, run_checked, without_tool

PROGRAM = Path(kafka.__file__).with_name("ErrorKinds.java")


@pytest.fixture(scope="module")
def kafkas() -> dict[int, str]:
    try:
        command = kafka.java_command()
    except ToolMissing as missing:
        without_tool(missing)
    lines = run_checked([*command, PROGRAM]).decode().splitlines()
    return {int(code): kind for code, kind in (line.split() for line in lines)}


def test_the_advice_is_kafkas(kafkas: dict[int, str]) -> None:
    assert {code: advice(code).name for code in kafkas} == kafkas


def test_the_table_is_whole(kafkas: dict[int, str]) -> None:
    assert {int(code) for code in ErrorCode} - {ErrorCode.NONE} == kafkas.keys()
