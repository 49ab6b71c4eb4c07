import os
import socket

import pytest

from headrace.errors import ConfigError
from headrace.lab.errors import LabError
from headrace.lab.fleet import fleet_settings, fleet_trouble
from headrace.lab.spark_master import SparkMaster


@pytest.mark.parametrize(
    ("text", "slots"), [("local", 1), ("local[2]", 2), ("local[4,3]", 4), ("local[*]", os.cpu_count())]
)
def test_spark_on_this_machine_has_slots_that_are_known(text: str, slots: int) -> None:
    master = SparkMaster.parse(text)
    assert (master.is_here, master.slots) == (True, slots)


def test_a_cluster_may_have_several_masters() -> None:
    master = SparkMaster.parse("spark://one:7077,two:7078")
    assert master.addresses == (("one", 7077), ("two", 7078))
    assert not master.is_here


@pytest.mark.parametrize("text", ["", "local[]", "local[0]", "spark://", "spark://host", "http://host:1", "here"])
def test_what_is_no_master_is_said_so(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is no master of Spark's|on no processor"):
        SparkMaster.parse(text)


def test_a_master_that_does_not_answer_is_one_line() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # And does not listen.
        port = free.getsockname()[1]
        with pytest.raises(LabError, match=rf"no master of Spark's answers \(127.0.0.1:{port}: .*refused\)"):
            SparkMaster.parse(f"spark://127.0.0.1:{port}").check_reachable()


def test_nothing_is_tried_twice_whatever_is_given() -> None:
    master = SparkMaster.parse("spark://there:7077")
    settings = fleet_settings(master, {"spark.task.maxFailures": "4", "spark.executor.memory": "1g"})
    assert settings["spark.task.maxFailures"] == settings["spark.stage.maxConsecutiveAttempts"] == "1"
    assert settings["spark.executor.memory"] == "1g"


def test_too_few_slots_are_one_line_that_says_what_to_do() -> None:
    error = RuntimeError("org.apache.spark.SparkException: [SPARK-24819]: Barrier execution mode does not allow ...")
    told = fleet_trouble(error, SparkMaster.parse("local[2]"), 3)
    assert told == "3 must run at once on local[2], which has room for 2: take fewer, or more cores"
    assert "not room for so many" in fleet_trouble(error, SparkMaster.parse("spark://there:1"), 3)


def test_a_cluster_without_us_is_told_as_that() -> None:
    error = RuntimeError("...\nModuleNotFoundError: No module named 'headrace'\n...")
    assert "pip install" in fleet_trouble(error, SparkMaster.parse("spark://there:1"), 3)
