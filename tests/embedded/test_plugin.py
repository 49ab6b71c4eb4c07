"""The fixtures, as somebody else's suite meets them."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from headrace.testing import Broker, BrokerPool
from tests.unit.test_light_imports import modules_after


def test_a_topic_of_ones_own(headrace_broker: Broker, headrace_topic: str) -> None:
    assert headrace_topic.startswith("test-a-topic-of-ones-own-")
    assert headrace_broker.topics()[headrace_topic] == 1
    assert len(headrace_broker.log(headrace_topic)) == 0


@pytest.mark.headrace_topic(partitions=3, retention_ms=1000)
@pytest.mark.parametrize("name", ["plain", "with blanks/and : signs", "é" * 300])
def test_a_topic_as_the_marker_says(headrace_broker: Broker, headrace_topic: str, name: str) -> None:
    assert headrace_broker.topics()[headrace_topic] == 3


@pytest.mark.headrace_topic(3, cleanup_policy="compact")
def test_a_marker_may_say_partitions_by_place(headrace_broker: Broker, headrace_topic: str) -> None:
    assert headrace_broker.topics()[headrace_topic] == 3


@pytest.mark.parametrize("arguments", ["3, 1000", "'three'", "3, partitions=2", "{'partitions': 3}"])
def test_what_a_marker_cannot_mean_is_said(tmp_path: Path, arguments: str) -> None:
    suite = f"""
        import pytest

        @pytest.mark.headrace_topic({arguments})
        def test_one(headrace_topic): ...
    """
    ran = run_suite(tmp_path, suite)
    assert ran.returncode == 1, ran.stdout
    assert "headrace_topic(partitions=1, **config) is not to be given" in ran.stdout


def test_a_broker_of_ones_own(headrace_pool: BrokerPool) -> None:
    with headrace_pool.broker() as broker:
        assert broker.topics() == {}


def run_suite(directory: Path, text: str, *arguments: str, ini: str = "") -> subprocess.CompletedProcess[str]:
    (directory / "test_suite.py").write_text(textwrap.dedent(text))
    (directory / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )


def test_settings_come_from_the_ini_file(tmp_path: Path) -> None:
    suite = """
        def test_settings(headrace_broker):
            headrace_broker.produce("orders", b"1")
            assert headrace_broker.topics() == {"orders": 4}
    """
    ran = run_suite(tmp_path, suite, ini="headrace_config =\n  num.partitions = 4\n  log.retention.ms=-1")
    assert ran.returncode == 0, ran.stdout
    wrong = run_suite(tmp_path, suite, ini="headrace_config = num.partitions")
    assert "'num.partitions' is not name=value" in wrong.stdout


def test_each_worker_has_a_broker(tmp_path: Path) -> None:
    suite = """
        import os, pathlib, pytest

        @pytest.mark.parametrize("number", range(8))
        def test_one(headrace_broker, headrace_topic, number, worker_id):
            pathlib.Path(f"{worker_id}.{headrace_broker.port}").touch()
            headrace_broker.produce(headrace_topic, str(number))
            assert headrace_broker.log(headrace_topic).values == [str(number).encode()]
    """
    ran = run_suite(tmp_path, suite, "-n", "2")
    assert ran.returncode == 0, ran.stdout
    used = [path.name.split(".") for path in tmp_path.glob("gw*")]
    assert sorted(worker for worker, _ in used) == ["gw0", "gw1"]
    assert len({port for _, port in used}) == 2


def test_nothing_is_loaded_before_a_test_asks_for_it() -> None:
    loaded = modules_after("import pytest, headrace.testing.plugin")
    assert {name for name in loaded if name.startswith("headrace")} == {
        "headrace",
        "headrace.testing",
        "headrace.testing.plugin",
    }


def test_the_test_process_does_not_load_the_broker() -> None:
    loaded = modules_after("from headrace.testing import Broker\nwith Broker() as broker: broker.topics()")
    assert not {name for name in loaded if name.startswith(("headrace.node", "headrace.server", "headrace.storage"))}
    assert not loaded & {"asyncio", "uvloop", "cramjam", "confluent_kafka", "numpy"}
