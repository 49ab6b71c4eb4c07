"""A load: what a table lacks of some topics, read by tasks and committed in one piece.

    with Load(request, run=SparkTasks(spark_session)) as load:
        loaded = load.once()

Killed anywhere and run again, nothing is lost or repeated, because there is one truth: the offsets are part of the
commit that adds the files. There is no checkpoint beside it. A large backlog is several commits one after the other,
so that a load that is killed does not begin from nothing; a continuous load is this one, again and again.

The order of things, each of which may be the last that a killed load did: ask the cluster, plan, run tasks, look at
their files, ask the cluster again, commit dead letters, commit, copy the ledger, take out dead letters that are none
(`settling`; only where something was replaced, or a load before this one was killed before it had).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final, Self

from deltalake.transaction import AddAction

from headrace.errors import ConfigError
from headrace.ids import TopicName, TopicPartition
from headrace.pipeline.columns import DEAD_LETTERS
from headrace.pipeline.decoding import Decoder
from headrace.pipeline.footers import check_files
from headrace.pipeline.lake_table import DEAD_LETTERS_DIRECTORY, LakeTable
from headrace.pipeline.ledger import Entry
from headrace.pipeline.location import Location
from headrace.pipeline.origins import LOADER, Origin, parse_loader
from headrace.pipeline.plan import HeldTopic, LoadRefused, TopicPlan, limit_plans, plan_topic
from headrace.pipeline.replacing import NotLoaded, plan_none, plan_replay, take_out
from headrace.pipeline.splitting import OffsetRange, split
from headrace.pipeline.tasks import RunTasks, Task, TaskDone, TaskFailed
from headrace.pipeline.upstream import Upstream
from headrace.wire.errors import Unavailable
from headrace.wire.offsets import OffsetAt
from headrace.wire.settings import ClientSettings

OFFSETS_PER_COMMIT: Final = 5_000_000
_OFFSETS_PER_TASK: Final = 500_000
_TRIES_MAX: Final = 3  # Of one commit: where tasks cannot reach a cluster that we can, it does not pass.
_TASKS_MIN_RECORDS: Final = 20_000  # Smaller ranges are not worth a second task.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRequest:
    topics: Sequence[str]
    lake: Location
    settings: ClientSettings
    kind: str  # The name of the format, which the table keeps.
    decoder: Decoder
    loader: str = LOADER
    skips_missing: bool = False
    accepts_new_topic: bool = False
    offsets_per_commit: int = OFFSETS_PER_COMMIT

    def __post_init__(self) -> None:
        parse_loader(self.loader)
        if not self.topics:
            raise ConfigError("no topic is named")
        if len(set(self.topics)) != len(self.topics):
            raise ConfigError(f"a topic is named twice: {', '.join(self.topics)}")
        if self.offsets_per_commit < 1:
            raise ConfigError("a commit has at least one offset")


@dataclass(slots=True)
class Loaded:
    """What a load did so far."""

    offsets_total: int = 0  # That there are to load.
    offsets: int = 0
    rows: int = 0
    dead_letters: int = 0
    missing: int = 0
    files: int = 0
    file_bytes: int = 0
    commits: int = 0
    offsets_on_the_way: int = 0  # Of the next commit, with its tasks.
    tasks_done: int = 0
    tasks_total: int = 0
    elapsed_s: float = 0.0
    entries: list[Entry] = field(default_factory=list)

    def add(self, entries: Sequence[Entry], read: "_Read") -> None:
        """One commit more."""
        self.commits += 1
        self.entries += entries
        self.offsets += sum(entry.end - entry.first for entry in entries)
        self.rows += sum(entry.rows for entry in entries)
        self.dead_letters += sum(entry.dead_letters for entry in entries)
        self.missing += sum(entry.missing for entry in entries)
        self.files += len(read.actions)
        self.file_bytes += sum(action.size for action in read.actions)
        self.offsets_on_the_way = self.tasks_done = self.tasks_total = 0


class TaskTrouble(LoadRefused):
    """A task could not read its range. Nothing of the load was committed."""


class Load:
    def __init__(
        self, request: LoadRequest, *, run: RunTasks, tell: Callable[[Loaded], None] = lambda loaded: None
    ) -> None:
        self._request = request
        self._run = run
        self._tell = tell
        self._upstream = Upstream(request.settings)
        self._table: LakeTable | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._upstream.close()

    def once(self) -> Loaded:
        """Everything up to where the topics end at this moment.

        A cluster that goes away meanwhile is waited for: tasks, who do not know it yet, give up soon, but we know it,
        and planning again waits until it answers.
        """
        loaded, began_s, tries = Loaded(), time.monotonic(), 0
        origins = self._upstream.origins(self._request.topics)
        ends = self._upstream.stable_ends(origins)
        while True:
            plans = self._plan(origins, ends)
            left = sum(one.end - one.first for plan in plans for one in plan.partitions)
            loaded.offsets_total = loaded.offsets + left
            self._tell(loaded)
            if not (changed := [plan for plan in plans if plan.changes or self._is_unsettled(plan.origin)]):
                return loaded
            step = limit_plans(changed, self._request.offsets_per_commit)
            try:
                self._load(step, loaded)
                tries = 0
            except Unavailable:
                tries += 1
                if tries == _TRIES_MAX:
                    raise
            loaded.elapsed_s = time.monotonic() - began_s
            self._tell(loaded)

    def replay(self, ranges: Sequence[OffsetRange]) -> Loaded:
        """Load these ranges once more, in place of what the table holds of them; one commit. No offset changes.

        A cluster that goes away meanwhile is waited for, as by `once`: nothing of a try that failed was committed.
        """
        loaded, began_s, tries = Loaded(), time.monotonic(), 0
        topics = sorted({one.place.topic for one in ranges})
        origins = {origin.topic: origin for origin in self._upstream.origins(topics)}
        ends = self._upstream.stable_ends(origins.values())
        while not loaded.commits:
            try:
                self._replay(ranges, origins, ends, loaded)
            except Unavailable:
                tries += 1
                if tries == _TRIES_MAX:
                    raise
        loaded.elapsed_s = time.monotonic() - began_s
        self._tell(loaded)
        return loaded

    def retry(self) -> Loaded:
        """Decode the dead letters of these topics once more, as the table keeps them: what is a row now becomes one.

        Rows are added and none replaced, and no offset changes.
        """
        loaded, began_s = Loaded(), time.monotonic()
        origins = self._upstream.origins(self._request.topics)
        self._open()
        if (table := self._table) is None:
            raise NotLoaded(f"{self._request.lake} is no table yet: there are no dead letters")
        # What is left of a load that was killed may be dead letters that are rows by now.
        if left := [origin for origin in origins if table.is_unsettled(origin)]:
            self._load([plan_none(origin, table.held(origin)) for origin in left], loaded)
        plans = [plan_none(origin, table.held(origin)) for origin in origins]
        ranges = [each for origin in origins for each in table.letter_ranges(origin)]
        loaded.offsets_total = loaded.offsets + sum(each.size for each in ranges)
        if ranges:
            table.grow()
            self._retry(plans, ranges, loaded)
        loaded.elapsed_s = time.monotonic() - began_s
        self._tell(loaded)
        return loaded

    # --- One commit ----------------------------------------------------------------------------------------------

    def _replay(
        self,
        ranges: Sequence[OffsetRange],
        origins: Mapping[TopicName, Origin],
        ends: Mapping[TopicPartition, OffsetAt],
        loaded: Loaded,
    ) -> None:
        self._open()
        if (table := self._table) is None:
            raise NotLoaded(f"{self._request.lake} is no table yet: there is nothing to replace")
        plans = []
        for origin in origins.values():
            held = table.held(origin)
            mine = [each for each in ranges if each.place.topic == origin.topic]
            plans.append(plan_replay(origin, held, self._upstream.find(origin, held, ends), mine))
        table.grow()
        loaded.offsets_total = sum(each.size for each in ranges)
        tasks = [self._task(each, origins[each.place.topic]) for each in task_ranges(ranges)]
        result = self._read(tasks, loaded)
        self._upstream.check_unchanged(plans)
        actions = [*take_out(table.table, origins, ranges), *result.actions]
        entries = [
            result.entry(origins[each.place.topic], each.place, first=each.first, end=each.end) for each in ranges
        ]
        if result.dead_actions or table.may_have_dead_letters(ranges):
            table.commit_dead_letters(plans, ranges, result.dead_actions)
        table.commit(plans, actions, entries, kind="replay")
        unsettled = [origin for origin in origins.values() if table.is_unsettled(origin)]
        table.settle(unsettled, replaced=ranges, written=[action.path for action in result.dead_actions])
        loaded.add(entries, result)

    def _retry(self, plans: Sequence[TopicPlan], ranges: Sequence[OffsetRange], loaded: Loaded) -> None:
        assert self._table is not None
        table, origins = self._table, {plan.origin.topic: plan.origin for plan in plans}
        tasks = [
            replace(self._task(each, origins[each.place.topic]), letters=files)
            for each, files in zip(ranges, table.letter_files(ranges), strict=True)
        ]
        result = self._read(tasks, loaded)
        self._upstream.check_unchanged(plans)
        entries = [
            result.entry(origins[each.place.topic], each.place, first=each.first, end=each.end) for each in ranges
        ]
        table.commit_dead_letters(plans, ranges, result.dead_actions)
        table.commit(plans, result.actions, entries, kind="retry")
        table.settle([origin for origin in origins.values() if table.is_unsettled(origin)])
        loaded.add(entries, result)

    def _open(self) -> None:
        request = self._request
        if self._table is None:
            self._table = LakeTable.open(
                request.lake, loader=request.loader, kind=request.kind, rows=request.decoder.schema
            )
        else:
            self._table.refresh()

    def _plan(self, origins: Sequence[Origin], ends: Mapping[TopicPartition, OffsetAt]) -> list[TopicPlan]:
        self._open()
        plans = []
        for origin in origins:
            held = HeldTopic() if self._table is None else self._table.held(origin)
            found = self._upstream.find(origin, held, ends)
            plans.append(
                plan_topic(
                    origin,
                    held,
                    found,
                    skips_missing=self._request.skips_missing,
                    accepts_new_topic=self._request.accepts_new_topic,
                )
            )
        return plans

    def _load(self, plans: Sequence[TopicPlan], loaded: Loaded) -> None:
        request = self._request
        if (table := self._table) is None:
            table = self._table = LakeTable.create(
                request.lake, loader=request.loader, kind=request.kind, rows=request.decoder.schema
            )
        table.grow()
        origins = {plan.origin.topic: plan.origin for plan in plans}
        unsettled = [origin for origin in origins.values() if table.is_unsettled(origin)]
        ranges = [one.range for plan in plans for one in plan.partitions]
        skips = self._request.skips_missing
        tasks = [self._task(each, origins[each.place.topic], skips_missing=skips) for each in task_ranges(ranges)]
        result = self._read(tasks, loaded)
        self._upstream.check_unchanged(plans)
        entries = [
            result.entry(plan.origin, one.place, first=one.first, end=one.end, missing=one.begin - one.first)
            for plan in plans
            for one in plan.changes
        ]
        settles = {}
        if result.dead_actions:
            with_dead = {one.range.place for one in result.done if one.dead_rows}
            noted = [each for each in ranges if each.place in with_dead]
            settles = table.commit_dead_letters(plans, noted, result.dead_actions)
        table.commit(plans, result.actions, entries, settles=settles)
        table.settle(unsettled)
        loaded.add(entries, result)

    def _is_unsettled(self, origin: Origin) -> bool:
        return self._table is not None and self._table.is_unsettled(origin)

    def _task(self, each: OffsetRange, origin: Origin, *, skips_missing: bool = False) -> Task:
        request = self._request
        return Task(
            range=each,
            origin=origin,
            settings=request.settings,
            decoder=request.decoder,
            lake=request.lake,
            dead_letters=request.lake.child(DEAD_LETTERS_DIRECTORY),
            skips_missing=skips_missing,
        )

    def _read(self, tasks: Sequence[Task], loaded: Loaded) -> "_Read":
        """Run tasks, and look at what they wrote."""
        loaded.tasks_done, loaded.tasks_total = 0, len(tasks)
        loaded.offsets_on_the_way = sum(task.range.size for task in tasks)

        def tell(count: int) -> None:
            loaded.tasks_done = count
            self._tell(loaded)

        done = []
        for outcome in self._run(tasks, tell) if tasks else []:
            if isinstance(outcome, TaskFailed):
                place, first, end = outcome.range
                told = f"{place} from offset {first} to {end}: {outcome.reason}"
                raise Unavailable(told) if outcome.may_pass else TaskTrouble(told)
            done.append(outcome)
        if sorted(one.range for one in done) != sorted(task.range for task in tasks):
            # What runs tasks is a cluster as well: what it leaves out or tells twice would be lost or doubled.
            told = ", ".join(f"{place}:{first}-{end}" for place, first, end in sorted(one.range for one in done))
            raise TaskTrouble(f"{len(tasks)} tasks were to be done, and these are told of: {told or 'none'}")
        lake = self._request.lake
        files = [file for one in done for file in one.files]
        dead_files = [file for one in done for file in one.dead_files]
        return _Read(
            done,
            check_files(lake.files(), files, self._request.decoder.schema) if files else [],
            check_files(lake.child(DEAD_LETTERS_DIRECTORY).files(), dead_files, DEAD_LETTERS) if dead_files else [],
        )


@dataclass(slots=True)
class _Read:
    """What tasks brought, and what Delta is to be told of it."""

    done: Sequence[TaskDone]
    actions: Sequence[AddAction]
    dead_actions: Sequence[AddAction]

    def entry(self, origin: Origin, place: TopicPartition, *, first: int, end: int, missing: int = 0) -> Entry:
        """The ledger's line of a partition."""
        mine = [one for one in self.done if one.range.place == place]
        return Entry(
            cluster_id=origin.cluster_id,
            topic=origin.topic,
            topic_id=origin.topic_id,
            partition=place.partition,
            first=first,
            end=end,
            rows=sum(one.rows for one in mine),
            dead_letters=sum(one.dead_rows for one in mine),
            missing=missing,
        )


def task_ranges(ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
    """What tasks read: enough of them for a few processors, none of them too large."""
    total = sum(each.size for each in ranges)
    tasks_min = max(1, min(8, total // _TASKS_MIN_RECORDS))
    return split(ranges, min_tasks=tasks_min, max_records=_OFFSETS_PER_TASK)
