"""A Spark that is gone, without one: what calls of it raise then is told in one sentence."""

import threading
from typing import Any, Never

import pytest
from py4j.protocol import Py4JNetworkError

from headrace.pipeline.spark_tasks import SparkTasks, SparkTrouble


class GoneSpark:
    """A session whose JVM was killed: what is under way fails, and what is asked is refused."""

    @property
    def sparkContext(self) -> "GoneSpark":  # noqa: N802
        return self

    def setJobGroup(self, *_: Any, **__: Any) -> None:  # noqa: N802
        pass

    def parallelize(self, *_: Any) -> Never:
        raise Py4JNetworkError("Answer from Java side is empty")

    def statusTracker(self) -> Never:  # noqa: N802
        raise ConnectionRefusedError(111, "Connection refused")

    def cancelJobGroup(self, group: str) -> Never:  # noqa: N802
        raise ConnectionRefusedError(111, "Connection refused")


def run_on(spark: Any, tell: Any = lambda done: None) -> None:
    SparkTasks(lambda: spark)([], tell)


def test_a_spark_that_was_killed_is_told_in_one_sentence() -> None:
    with pytest.raises(SparkTrouble, match="Spark's own process ended meanwhile; nothing was committed, run it again"):
        run_on(GoneSpark())


def test_an_interruption_stays_one_where_spark_is_gone() -> None:
    class SlowlyGone(GoneSpark):
        def parallelize(self, *_: Any) -> Never:
            interrupted.wait(30)
            raise Py4JNetworkError("Answer from Java side is empty")

    interrupted = threading.Event()

    def interrupt(done: int) -> None:
        assert done == 0
        interrupted.set()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_on(SlowlyGone(), interrupt)
