"""Topics into files, so that an export which was killed and is run again makes the file that it would have made.

What is exported is settled once, at the first start: offsets from here to there, of these partitions. Rows are written
group by group into `FILE.part`; when a group has reached the disk, `FILE.part.json` is replaced by one that knows it
and the offsets that come next. So there is never a row that was written and will be read again, nor one that was read
and is not written: whatever lies behind the last known group is cut off and read again. At the end the file becomes
whole, gets its name, and what lay beside it is removed; each of these steps may be the last before a kill, and is done
again.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Self

import pyarrow as pa

from headrace.cli.bookmarks import keep_bookmark, open_alone, put_in_place, read_bookmark
from headrace.cli.output import CommandError
from headrace.cli.places import parse_position
from headrace.cli.tables.growing import GrowingFile
from headrace.cli.tables.kinds import Kind
from headrace.columnar.reading import Scan
from headrace.columnar.schema import schema_of
from headrace.ids import topic_id_text
from headrace.wire.cluster import Cluster
from headrace.wire.settings import ClientSettings

_GROUP_S: Final = 10.0  # After so long, what there is makes a group.


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user said, in words that can be compared: another export must not go on with this one's file."""

    topic: str
    kind: Kind
    columns: Sequence[str]
    compression: str
    start: str
    end: str
    partitions: Sequence[int]  # All where none is named.


class Offsets(NamedTuple):
    """Of one partition: all that are meant, and the one that comes next."""

    first: int
    end: int
    next: int


@dataclass(slots=True, kw_only=True)
class Bookmark:
    asked: dict[str, Any]
    topic_id: str
    offsets: dict[int, Offsets]
    ends: Sequence[int] = ()  # Of groups, in bytes.
    rows: int = 0
    whole: str | None = None  # The file that has to be given its name, once it is complete.
    whole_bytes: int = 0

    @property
    def done(self) -> int:
        return sum(one.next - one.first for one in self.offsets.values())

    @property
    def total(self) -> int:
        return sum(one.end - one.first for one in self.offsets.values())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "offsets": {str(number): list(one) for number, one in self.offsets.items()}}

    @classmethod
    def from_json(cls, kept: dict[str, Any]) -> Self:
        offsets = {int(number): Offsets(*one) for number, one in kept["offsets"].items()}
        return cls(**{**kept, "offsets": offsets})


@dataclass(slots=True)
class Exported:
    bookmark: Bookmark
    resumed_rows: int | None  # None where nothing was there to go on with.
    file_bytes: int = 0
    bytes_fetched: int = 0


@dataclass(slots=True, kw_only=True)
class Export:
    settings: ClientSettings
    asked: Asked
    out: Path
    group_bytes: int
    missing: Any
    timeout_s: float
    tell: Callable[[Bookmark], None]
    part: Path = field(init=False)
    beside: Path = field(init=False)

    def __post_init__(self) -> None:
        self.part = self.out.with_name(f"{self.out.name}.part")
        self.beside = self.out.with_name(f"{self.out.name}.part.json")

    def run(self, *, restart: bool, overwrite: bool) -> Exported:
        kept = None if restart else self._read()
        if self.out.is_dir():
            raise CommandError(f"{self.out} is a directory")
        if kept is None and self.out.exists() and not overwrite:
            raise CommandError(f"{self.out} exists already: --overwrite replaces it")
        if kept is not None and kept.whole is not None and not self.part.exists():
            return self._conclude(kept, Exported(kept, kept.rows))  # Killed when all was done but to tidy up.
        with open_alone(self.part, create=kept is None) as file:
            if restart:
                self.beside.unlink(missing_ok=True)
            kept = self._read()
            if kept is not None and kept.whole is not None:
                return self._conclude(kept, Exported(kept, kept.rows))
            return self._write(file, kept)

    def _read(self) -> Bookmark | None:
        kept = read_bookmark(self.beside)
        if kept is None:
            return None
        try:
            bookmark = Bookmark.from_json(kept)
        except (TypeError, KeyError, ValueError, AttributeError):
            raise CommandError(f"{self.beside} is not what an interrupted export left: say --restart") from None
        asked = _plain(self.asked)
        for name, value in bookmark.asked.items():
            if asked.get(name) != value:
                raise CommandError(
                    f"{self.part} is of an export with another {name}, {_said(value)}: say the same to go on with it, "
                    "or --restart to begin anew"
                )
        return bookmark

    # --- Rows ----------------------------------------------------------------------------------------------------

    def _write(self, file: IO[bytes], kept: Bookmark | None) -> Exported:
        with Cluster(self.settings) as cluster:
            topic_id = topic_id_text(cluster.topic(self.asked.topic, timeout_s=self.timeout_s).topic_id)
        if kept is not None and kept.topic_id != topic_id:
            raise CommandError(
                f"topic {self.asked.topic!r} was deleted and made anew since {self.part} was begun: say --restart"
            )
        scan = self._scan_anew() if kept is None else self._scan_on(kept)
        with nullcontext() if scan is None else closing(scan):
            if kept is None:
                assert scan is not None
                offsets = {place.partition: Offsets(first, end or first, first) for place, first, end in scan.ranges}
                bookmark = Bookmark(asked=_plain(self.asked), topic_id=topic_id, offsets=offsets)
            else:
                bookmark = kept
            exported = Exported(bookmark, None if kept is None else kept.rows)
            table = GrowingFile(
                file,
                self.part,
                self.asked.kind,
                schema_of(self.asked.columns),
                compression=self.asked.compression,
                ends=bookmark.ends,
            )
            self._keep(bookmark)
            if scan is not None:
                self._append_all(scan, table, bookmark)
                exported.bytes_fetched = scan.bytes_fetched
        whole = table.complete()
        bookmark.offsets = {number: one._replace(next=one.end) for number, one in bookmark.offsets.items()}
        bookmark.whole, bookmark.whole_bytes = whole.name, whole.stat().st_size
        self._keep(bookmark)
        return self._conclude(bookmark, exported)

    def _scan_anew(self) -> Scan:
        asked, now_ms = self.asked, time.time_ns() // 1_000_000
        return Scan(
            self.settings,
            {asked.topic: asked.partitions} if asked.partitions else asked.topic,
            start=parse_position(asked.start, option="--start", now_ms=now_ms),
            end=parse_position(asked.end, option="--end", now_ms=now_ms),
            columns=asked.columns,
            missing=self.missing,
        )

    def _scan_on(self, bookmark: Bookmark) -> Scan | None:
        """From where the bookmark is; None where it is at the end."""
        left = {number: one for number, one in bookmark.offsets.items() if one.next < one.end}
        if not left:
            return None
        return Scan(
            self.settings,
            {self.asked.topic: list(left)},
            start={number: one.next for number, one in left.items()},
            end={number: one.end for number, one in left.items()},
            columns=self.asked.columns,
            missing=self.missing,
        )

    def _append_all(self, scan: Scan, table: GrowingFile, bookmark: Bookmark) -> None:
        for batches, positions in self._groups(scan):
            table.append(batches)
            bookmark.ends = table.ends
            bookmark.rows += sum(batch.num_rows for batch in batches)
            bookmark.offsets = {
                number: one._replace(next=min(one.end, positions.get(number, one.next)))
                for number, one in bookmark.offsets.items()
            }
            self._keep(bookmark)

    def _groups(self, scan: Scan) -> Iterator[tuple[list[pa.RecordBatch], dict[int, int]]]:
        """Rows that are written at once, and the offsets that follow all that were given out so far."""
        batches: list[pa.RecordBatch] = []
        size, began_s = 0, time.monotonic()
        for batch in scan:
            batches.append(batch)
            size += batch.nbytes
            if size >= self.group_bytes or time.monotonic() - began_s >= _GROUP_S:
                yield batches, _positions(scan)
                batches, size, began_s = [], 0, time.monotonic()
        if batches:
            yield batches, _positions(scan)

    def _keep(self, bookmark: Bookmark) -> None:
        keep_bookmark(self.beside, bookmark.to_json())
        self.tell(bookmark)

    # --- The end -------------------------------------------------------------------------------------------------

    def _conclude(self, bookmark: Bookmark, exported: Exported) -> Exported:
        assert bookmark.whole is not None
        whole = self.out.with_name(bookmark.whole)
        if whole.exists():
            if whole.stat().st_size != bookmark.whole_bytes:
                raise CommandError(f"{whole} has not the {bookmark.whole_bytes} bytes that it had: say --restart")
            put_in_place(whole, self.out)
        self.part.unlink(missing_ok=True)
        self.beside.unlink(missing_ok=True)
        exported.file_bytes = bookmark.whole_bytes
        return exported


def _positions(scan: Scan) -> dict[int, int]:
    return {place.partition: offset for place, offset in scan.positions.items()}


def _plain(asked: Asked) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(asked).items()}


def _said(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
