"""The table that a load writes, bound to one loader, with its dead letters and its ledger inside its directory.

    LAKE/                 the table: files by event date and hour, `_delta_log`
    LAKE/_dead_letters/   a table of what did not become rows
    LAKE/_ledger/         a table of what each commit brought

Delta and every reader of it leave names that begin with an underscore alone. The binding is a property of the table: a
second loader with another name would find no offsets of its own and load everything twice, so it is refused.

One commit holds the files, the offsets and the ledger's entries. Dead letters are in another table, which no commit
spans; they are committed before, with a note of where. The rows of the same load repeat the note's number: where they
did not follow, or a replay has yet to take out what it replaced, whoever comes next finds it unsettled, and settles it.
Only after a commit of rows: it makes sure that no other load that began earlier can commit any more.
"""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.fs
from deltalake.transaction import AddAction, RemoveAction

from headrace.pipeline.columns import DEAD_LETTERS, LEDGER, PARTITION_BY, table_schema
from headrace.pipeline.delta import Commit, Delta, LakeError
from headrace.pipeline.ledger import DIRECTORY as LEDGER_DIRECTORY
from headrace.pipeline.ledger import Entry, carried, commit_metadata, copy_ledger, rows_of
from headrace.pipeline.location import Location
from headrace.pipeline.origins import (
    Origin,
    dead_key,
    dead_range_keys,
    epoch_key,
    loads_key,
    offset_key,
    partitions_key,
    settled_key,
)
from headrace.pipeline.plan import Held, HeldTopic, LoadRefused, TopicPlan
from headrace.pipeline.replacing import files_with, may_hold
from headrace.pipeline.retrying import letter_ranges
from headrace.pipeline.settling import settle
from headrace.pipeline.splitting import OffsetRange
from headrace.wire.metadata import NO_EPOCH

DEAD_LETTERS_DIRECTORY: Final = "_dead_letters"

_LOADER: Final = "headrace.loader"
_FORMAT: Final = "headrace.format"
_RAW: Final = "raw"
_TRIES_MAX: Final = 5


class NotALake(LoadRefused):
    """There is something at the path that no load made."""


class OtherLoader(LoadRefused):
    """The table belongs to a loader of another name."""


class SchemaRefused(LoadRefused):
    """The table has columns that the rows of this load do not fit."""


class LostRace(LoadRefused):
    """Somebody else loaded the same records meanwhile, and was first."""


class LakeTable:
    def __init__(
        self,
        table: Delta,
        dead_letters: Delta,
        ledger: Delta,
        *,
        loader: str,
        rows: pa.Schema,
        lacking: Sequence[pa.Field] = (),
    ) -> None:
        self.table = table
        self.dead_letters = dead_letters
        self._ledger = ledger
        self._loader = loader
        self._rows = rows
        self._lacking = lacking  # Columns that rows have and the table has not.
        self._held: dict[Origin, HeldTopic] = {}

    @classmethod
    def open(cls, location: Location, *, loader: str, kind: str, rows: pa.Schema) -> "LakeTable | None":
        """The table, if it is one that this loader may write such rows to; None where nothing is there yet."""
        table = Delta.open(location)
        if table is None:
            check_free(location)
            return None
        check_binding(table, loader=loader, kind=kind)
        lacking = check_columns(table, rows)
        dead_letters = Delta.create(location.child(DEAD_LETTERS_DIRECTORY), DEAD_LETTERS)
        ledger = Delta.create(location.child(LEDGER_DIRECTORY), LEDGER)
        return cls(table, dead_letters, ledger, loader=loader, rows=rows, lacking=lacking)

    @classmethod
    def create(cls, location: Location, *, loader: str, kind: str, rows: pa.Schema) -> "LakeTable":
        properties = {_LOADER: loader, _FORMAT: kind}
        Delta.create(location, table_schema(rows), partition_by=PARTITION_BY, properties=properties)
        # Opened as any other: somebody else may have made it at the same moment, for another loader.
        made = cls.open(location, loader=loader, kind=kind, rows=rows)
        assert made is not None
        return made

    @property
    def location(self) -> Location:
        return self.table.location

    # --- What it holds -------------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Before planning, and never between that and the commit."""
        self.table.refresh()
        self.dead_letters.refresh()
        self._check_still_fits()

    def held(self, origin: Origin) -> HeldTopic:
        """How far this life of a topic was loaded.

        A thousand partitions take half a second to look up. Every commit of a topic raises its number of loads, so what
        was looked up is good for as long as that stays; what a commit of our own has changed of it, `commit` notes.
        """
        loads = self.table.transaction(loads_key(self._loader, origin.topic), 0)
        known = self._held.get(origin)
        if known is None or known.loads != loads:
            known = self._held[origin] = HeldTopic(loads=loads, partitions=self._look_up(origin))
        return known

    def _look_up(self, origin: Origin) -> dict[int, Held]:
        count = self.table.transaction(partitions_key(self._loader, origin), 0)
        partitions = {}
        for number in range(count):
            offset = self.table.transaction(offset_key(self._loader, origin, number), NO_EPOCH)
            if offset >= 0:
                epoch = self.table.transaction(epoch_key(self._loader, origin, number), NO_EPOCH)
                partitions[number] = Held(offset, epoch)
        return partitions

    def may_have_dead_letters(self, ranges: Sequence[OffsetRange]) -> bool:
        return bool(files_with(self.dead_letters, ranges))

    def letter_ranges(self, origin: Origin) -> list[OffsetRange]:
        """Where the dead letters of a topic are."""
        ends = {number: one.next_offset for number, one in self.held(origin).partitions.items()}
        return letter_ranges(self.dead_letters, origin, ends)

    def letter_files(self, ranges: Sequence[OffsetRange]) -> list[list[str]]:
        """For each range the files that may have dead letters of it."""
        lives = self.dead_letters.live_files()
        return [[live.path for live in lives if may_hold(live, each)] for each in ranges]

    def is_unsettled(self, origin: Origin) -> bool:
        """Whether there are dead letters of which the rows do not tell yet, or which may be rows by now."""
        return self.dead_letters.transaction(dead_key(self._loader, origin), 0) > self._settled(origin)

    def _settled(self, origin: Origin) -> int:
        """The last commit of dead letters of which nothing is left to do."""
        by_rows = self.table.transaction(dead_key(self._loader, origin), 0)
        return max(by_rows, self.dead_letters.transaction(settled_key(self._loader, origin), 0))

    def _noted(self, origin: Origin, partition: int) -> OffsetRange | None:
        """Where dead letters of a partition are unsettled."""
        first, end, which = (
            self.dead_letters.transaction(key, 0) for key in dead_range_keys(self._loader, origin, partition)
        )
        return OffsetRange(origin.place(partition), first, end) if which > self._settled(origin) else None

    # --- Committing ----------------------------------------------------------------------------------------------

    def grow(self) -> None:
        """Add the columns that the table lacks; before it is loaded, and not before there is something to load.

        So a load that is refused has changed nothing. What else was committed by now is seen afterwards, too: a plan
        that does not fit any more will be refused by `commit`.
        """
        if self._lacking:
            self.table.refresh()
            if lacking := check_columns(self.table, self._rows):  # Somebody else may have added them.
                self.table.add_columns(lacking)
            self._lacking = ()

    def commit_dead_letters(
        self,
        plans: Sequence[TopicPlan],
        ranges: Sequence[OffsetRange],
        actions: Sequence[AddAction],
    ) -> dict[str, int]:
        """Before the rows of the same load, with a note of where; what the commit of the rows repeats to settle it.

        Nothing is repeated of a topic of which older ones are unsettled: `settle` is for these, and for the new.
        """
        numbers: dict[str, int] = {}
        repeated: dict[str, int] = {}
        for plan in plans:
            origin = plan.origin
            mine = [each for each in ranges if each.place.topic == origin.topic]
            if not mine:
                continue
            key = dead_key(self._loader, origin)
            numbers[key] = self.dead_letters.transaction(key, 0) + 1
            numbers[partitions_key(self._loader, origin)] = plan.partition_count
            if not self.is_unsettled(origin):
                repeated[key] = numbers[key]
            for each in mine:
                noted = self._noted(origin, each.place.partition) or each
                bounds = (min(noted.first, each.first), max(noted.end, each.end), numbers[key])
                numbers |= zip(dead_range_keys(self._loader, origin, each.place.partition), bounds, strict=True)
        if not self.dead_letters.try_commit(actions, transactions=numbers):
            raise LostRace(f"{self.dead_letters.location}: somebody else loads the same records; nothing was committed")
        return repeated

    def settle(
        self, origins: Iterable[Origin], *, replaced: Sequence[OffsetRange] = (), written: Collection[str] = ()
    ) -> None:
        """Take dead letters out that are none by what the rows say, after a commit of rows."""
        for origin in origins:
            key = dead_key(self._loader, origin)
            count = self.dead_letters.transaction(key, 0)
            held = self.held(origin)
            ends = {origin.place(number): one.next_offset for number, one in held.partitions.items()}
            for _ in range(_TRIES_MAX):
                # Where a compaction has put fresh ones into one file with what they replace, the rows decide alone.
                is_known = {live.path for live in self.dead_letters.live_files()}.issuperset(written)
                mine = [each for each in replaced if is_known and each.place.topic == origin.topic]
                partitions = range(self.dead_letters.transaction(partitions_key(self._loader, origin), 0))
                noted = [each for number in partitions if (each := self._noted(origin, number)) is not None]
                actions = settle(
                    self.dead_letters, self.table, {origin.topic: origin}, noted, ends, replaced=mine, written=written
                )
                numbers = {key: count + 1, settled_key(self._loader, origin): count + 1}
                if self.dead_letters.try_commit(actions, transactions=numbers):
                    break
                self.dead_letters.refresh()
                if self.dead_letters.transaction(key, 0) != count:
                    break  # Somebody else found it unsettled, and settles it or has done so.
            else:
                raise LakeError(f"{self.dead_letters.location}: the table changes too often; the next load settles it")

    def commit(
        self,
        plans: Sequence[TopicPlan],
        actions: Sequence[AddAction | RemoveAction],
        entries: Iterable[Entry],
        *,
        kind: str = "load",
        settles: Mapping[str, int] | None = None,
    ) -> None:
        """Files, offsets and ledger in one commit, on top of what the plans were made on; `LostRace` if it cannot be.

        With it, the dead letters that were committed before are settled, where that is all there is to it.

        A commit that removes files is tried once: after any other commit they may not be there any more.
        """
        load_id = str(uuid.uuid4())
        metadata = commit_metadata(entries, load_id=load_id, kind=kind)
        numbers = dict(settles or {})
        for plan in plans:
            self._check_planned(plan)
            numbers |= plan.transactions(self._loader)
        planned_version = self.table.version
        for _ in range(_TRIES_MAX):
            if self.table.try_commit(actions, transactions=numbers, metadata=metadata):
                break
            self.table.refresh()
            since = self.table.commits_after(planned_version)
            if any(carried(commit).get("load_id") == load_id for commit in since):
                break  # It was made after all, and only the answer was lost.
            self._check_not_overtaken(plans, since)
            if any(isinstance(action, RemoveAction) for action in actions):
                raise LostRace(f"{self.location}: the table was changed meanwhile; no row was committed, run it again")
            # The table was changed in another way; the same files may still be right for it.
            self._check_still_fits()
        else:
            raise LakeError(f"{self.location}: the table changes too often to commit; no row was committed")
        for plan in plans:
            # Where somebody else has loaded the topic on top of this by now, its number of loads says so to `held`.
            self._held[plan.origin] = plan.held_after(self._held[plan.origin])
        self._copy_ledger()

    def _check_still_fits(self) -> None:
        gone = [column for column in check_columns(self.table, self._rows) if column not in self._lacking]
        if gone:
            raise SchemaRefused(f"{self.location} has no column {gone[0].name} any more")

    def _check_planned(self, plan: TopicPlan) -> None:
        """That the handle shows what was planned on: a plan on an older state would load twice."""
        held = self.held(plan.origin)
        is_stale = held.loads != plan.loads
        for one in plan.partitions:
            known = held.partitions.get(one.place.partition)
            assert one.first <= one.begin <= one.end
            is_stale |= (known is None) != one.is_new or (known is not None and known.next_offset != one.first)
        if is_stale:
            raise LostRace(
                f"{self.location}: another load of topic {plan.origin.topic!r} was first; no row of this one was "
                f"committed"
            )

    def _check_not_overtaken(self, plans: Sequence[TopicPlan], since: Sequence[Commit]) -> None:
        for plan in plans:
            topic = plan.origin.topic
            if self.table.transaction(loads_key(self._loader, topic), 0) != plan.loads:
                rows = [row for commit in since for row in rows_of(commit) if row["topic"] == topic]
                told = ", ".join(f"{topic}-{row['partition']} up to offset {row['end']}" for row in rows[:3])
                raise LostRace(
                    f"{self.location}: another load of topic {topic!r} was first{f' ({told})' if told else ''}. No row "
                    f"of this one was committed; run it again to load what is left"
                )

    def _copy_ledger(self) -> None:
        self._ledger.refresh()
        copy_ledger(self.table, self._ledger)


# --- What may be written to ---------------------------------------------------------------------------------------


def check_free(location: Location) -> None:
    """`NotALake` where there are files that are not ours. What begins with an underscore is left of a load."""
    if (path := location.path) is not None:
        if not path.exists():
            return
        if not path.is_dir():
            raise NotALake(f"{location} is a file; a lake is a directory, of which there is none yet or a Delta table")
        names = [entry.name for entry in path.iterdir()]
    else:
        selector = pyarrow.fs.FileSelector("", allow_not_found=True, recursive=False)
        names = [info.base_name for info in location.files().get_file_info(selector)]
    others = sorted(name for name in names if not name.startswith(("_", ".")))
    if others:
        raise NotALake(
            f"{location} is no Delta table, and there are other files in it ({others[0]}): name a directory that is "
            f"empty or not there yet"
        )


def check_binding(table: Delta, *, loader: str, kind: str) -> None:
    bound = table.properties.get(_LOADER)
    if bound is None:
        raise NotALake(f"{table.location} is a Delta table that was not made by a load: name another directory")
    if bound != loader:
        raise OtherLoader(
            f"{table.location} belongs to the loader {bound!r}: {loader!r} would load everything a second time. Say "
            f"--loader {bound} if that is what you are"
        )
    made = table.properties.get(_FORMAT)
    if made != kind:
        raise SchemaRefused(f"{table.location} was made with --format {made}, not {kind}")


def check_columns(table: Delta, rows: pa.Schema) -> list[pa.Field]:
    """Columns that the table lacks, to be added; `SchemaRefused` where one has another type, or may not be null.

    Columns that rows lack are null in them. A declared column that is taken away again is told of, since that is more
    likely a mistake; columns that users added to a table of raw records are theirs.
    """
    if tuple(table.partition_by) != PARTITION_BY:
        raise SchemaRefused(f"{table.location} is partitioned by {table.partition_by}, not {list(PARTITION_BY)}")
    wanted, found = table_schema(rows), table.schema
    added = []
    for column in wanted:
        index = found.get_field_index(column.name)
        if index < 0:
            if not column.nullable:
                raise SchemaRefused(
                    f"{table.location}: column {column.name} would be new and must not be null, as in older rows"
                )
            added.append(column)
        elif found.field(index).type != column.type:
            raise SchemaRefused(
                f"{table.location}: column {column.name} is {found.field(index).type}, and would be {column.type}"
            )
        elif column.nullable and not found.field(index).nullable:
            raise SchemaRefused(
                f"{table.location}: column {column.name} must not be null, and would be one that may be"
            )
    for column in found:
        if wanted.get_field_index(column.name) < 0:
            if not column.nullable:
                raise SchemaRefused(f"{table.location}: column {column.name} must not be null, and records have none")
            if table.properties.get(_FORMAT) != _RAW:
                raise SchemaRefused(f"{table.location} has a column {column.name}, which is not declared any more")
    return added
