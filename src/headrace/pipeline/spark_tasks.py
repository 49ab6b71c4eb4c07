"""Tasks of a load on Spark: one Spark task each, tried again as Spark does, with progress to look at meanwhile."""

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from headrace.errors import HeadraceError
from headrace.pipeline.tasks import Task, TaskOutcome, run_task
from headrace.spark.jobs import GONE, interrupts_kept, last_words

_LOOK_S: Final = 0.1


class SparkTrouble(HeadraceError):
    """Spark gave up on a task. Nothing of the load was committed."""


class SparkTasks:
    """Give it to a `Load`. The session is begun with the first task, and stays for those that follow."""

    def __init__(self, begin: Callable[[], SparkSession]) -> None:
        self._begin = begin
        self._context: SparkContext | None = None
        # Spark's own call waits until all is done, so it is made beside; always by the same thread, because Spark keeps
        # one of its own for each that ever asked it something.
        self._beside = ThreadPoolExecutor(1, "headrace-spark")

    def __call__(self, tasks: Sequence[Task], tell: Callable[[int], None]) -> list[TaskOutcome]:
        if self._context is None:
            with interrupts_kept():
                self._context = self._begin().sparkContext
        context, group = self._context, f"headrace-load-{uuid.uuid4()}"
        job = self._beside.submit(_collect, context, tasks, group)
        try:
            while wait([job], _LOOK_S).not_done:
                tell(_tasks_done(context, group))
        except BaseException:  # Ctrl-C: the tasks are of no use to anybody.
            with suppress(*GONE):
                context.cancelJobGroup(group)
            raise
        try:
            return job.result()
        except GONE as error:
            raise SparkTrouble("Spark's own process ended meanwhile; nothing was committed, run it again") from error
        except Exception as error:  # Whatever it was, in Java or in Python: it is Spark's last word on the job.
            raise SparkTrouble(f"a task failed again and again: {last_words(error)}") from error


def _collect(context: SparkContext, tasks: Sequence[Task], group: str) -> list[TaskOutcome]:
    context.setJobGroup(group, "headrace load", interruptOnCancel=True)
    return context.parallelize(tasks, len(tasks)).map(run_task).collect()


def _tasks_done(context: SparkContext, group: str) -> int:
    """As many as Spark knows of: none where it is gone, which the job itself will tell."""
    done = 0
    with suppress(*GONE):
        tracker = context.statusTracker()
        for job_id in tracker.getJobIdsForGroup(group):
            job = tracker.getJobInfo(job_id)
            for stage_id in job.stageIds if job else ():
                stage = tracker.getStageInfo(stage_id)
                done += stage.numCompletedTasks if stage else 0
    return done
