"""Where senders are: here, at the far end of a link, or wherever Spark runs them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import typer

from headrace.cli.extras import require
from headrace.cli.pairs import parse_pairs

if TYPE_CHECKING:
    from headrace.lab.crew import Crew
    from headrace.lab.spark_master import SparkMaster


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    master: "SparkMaster | None" = None
    spark_settings: dict[str, str] = field(default_factory=dict)
    is_remote: bool = False

    def members_by_default(self, said: int | None) -> int:
        """How many senders there are where nobody says so."""
        if said is not None or self.master is None:
            return said or 1
        if self.master.slots is None:
            raise typer.BadParameter(f"--processes is missing: how many senders on {self.master.text}?")
        return self.master.slots

    @contextmanager
    def crew(self) -> "Iterator[Crew | None]":
        """None for processes on this machine."""
        if self.master is None:
            yield None
            return
        require("pyspark", extra="spark")
        from headrace.lab.fleet import Fleet

        with Fleet(self.master, settings=self.spark_settings) as fleet:
            yield fleet


def placed(*, on: str | None, spark_options: list[str], is_remote: bool = False) -> Place:
    from headrace.lab.spark_master import SparkMaster

    if on is None and spark_options:
        raise typer.BadParameter("--spark-option is for --on, which is missing")
    if on is not None and is_remote:
        raise typer.BadParameter("--on and --remote do not go together: Spark's tasks are where its cluster is")
    return Place(
        is_remote=is_remote,
        master=None if on is None else SparkMaster.parse(on),
        spark_settings=parse_pairs(spark_options, option="--spark-option"),
    )
