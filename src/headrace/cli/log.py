"""`headrace log`: looking into a data directory while no node runs on it.

Dump and verify only read; repair moves what is broken into quarantine. What Apache Kafka wrote can be looked
into as well: the format is the same.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

import typer
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.text import Text

from headrace.cli.message_text import Message, message_fields
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table, progress, size_text
from headrace.errors import CorruptBatch
from headrace.protocol.batch import CODEC_MASK, LOG_APPEND_TIME, NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader
from headrace.protocol.compression import parse_codec
from headrace.protocol.records import decode_records
from headrace.storage.checkpoints import parse_partition_directory
from headrace.storage.index import OFFSET_ENTRY, TIME_ENTRY
from headrace.storage.repair import Quarantined, repair_segment, survey_segment
from headrace.storage.scan import headers_from
from headrace.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from headrace.storage.verify import SegmentReport, index_entries, verify_segment

app = typer.Typer(help="Look into, check and mend segment files, offline.", no_args_is_help=True)

Where = Annotated[
    Path,
    typer.Argument(
        metavar="PATH",
        exists=True,
        help="A data directory, a partition's directory or one file.",
        show_default=False,
    ),
]
_DESCRIPTORS_MAX: Final = 16
_PREVIEW_CHARS: Final = 120
_BATCH_COLUMNS: Final = "{:>12}  {:>23}  {:>8}  {:>10}  {:<24}  {:<6}  {:>22}  {}"
_BATCH_TITLES: Final = ("position", "offsets", "records", "bytes", "newest", "codec", "producer", "kind")


@app.command()
def dump(
    path: Where,
    records: Annotated[bool, typer.Option("--records", "-r", help="Open the batches and show each record.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the batches of segments, the records in them, or the entries of an index."""
    if path.suffix in _INDEX_FIELDS:
        _dump_index(path, as_json=as_json)
        return
    damaged = False
    for place in segments_at(path):
        if not as_json:
            print(f"{place.path}\n{_BATCH_COLUMNS.format(*_BATCH_TITLES)}")
        with place.opened() as file:
            for part in survey_segment(file, base_offset=place.base_offset, next_base=place.next_base):
                if isinstance(part, Quarantined):
                    damaged = True
                    _print_damage(part, as_json=as_json)
                    continue
                for position, header in headers_from(file, start=part.start, end=part.end):
                    content = file.read(position, header.size_bytes) if records else None
                    _print_batch(place, position, header, content, as_json=as_json)
    if damaged:
        raise typer.Exit(1)


@app.command()
def verify(
    path: Where,
    shallow: Annotated[bool, typer.Option("--shallow", help="Trust checksums: do not open the batches.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check every batch, every record and every index entry; fails if anything is wrong."""
    places = segments_at(path)
    reports: list[SegmentReport] = []
    with progress(TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True)) as bars:
        bar = bars.add_task("", total=sum(place.path.stat().st_size for place in places))
        for place in places:
            bars.update(bar, description=f"{place.partition} {place.base_offset}")
            reports.append(_verified(place, open_batches=not shallow))
            bars.advance(bar, reports[-1].size_bytes)
    findings = [finding for report in reports for finding in report.findings]
    if as_json:
        print_json([_report_fields(report) for report in reports])
    else:
        _print_reports(places, reports)
        for finding in findings:
            print(f"{finding.file} at {finding.position}: {finding.problem}")
    if findings:
        raise CommandError(f"{len(findings)} found wrong in {len(places)} segments")


@app.command()
def repair(
    path: Where,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be moved.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move what is no whole batch into quarantine; every good batch stays. Stop the node first."""
    places = segments_at(path)
    if dry_run:
        moved = [part for place in places for part in _damage(place)]
    else:
        moved = _repaired(places, root=places[0].path.parent.parent)
    if as_json:
        print_json([part._asdict() for part in moved])
    elif not moved:
        note("nothing to repair")
    else:
        rows = [
            (
                part.segment,
                part.position,
                size_text(part.size),
                _lost_text(part),
                part.reason,
                part.kept_in or "(not moved: dry run)",
            )
            for part in moved
        ]
        columns = ("segment", "position", "size", "offsets missing", "why", "kept in")
        print_table(columns, rows, right=("position", "size"))


def _damage(place: "SegmentPlace") -> list[Quarantined]:
    with place.opened() as file:
        survey = survey_segment(file, base_offset=place.base_offset, next_base=place.next_base)
        return [part for part in survey if isinstance(part, Quarantined)]


def _repaired(places: "list[SegmentPlace]", *, root: Path) -> list[Quarantined]:
    from headrace.server.disk import SystemDisk
    from headrace.server.main import lock_data

    lock = lock_data(root)
    disk = SystemDisk(str(root), helper=None, descriptors_max=_DESCRIPTORS_MAX)
    try:
        return [
            part
            for place in places
            for part in repair_segment(disk, place.partition, place.base_offset, next_base=place.next_base)
        ]
    finally:
        disk.close()
        os.close(lock)


class OpenFile:
    """A file to read; nothing of it can change through this."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = str(path)
        self.size = os.fstat(descriptor).st_size
        self._descriptor = descriptor

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)


class SegmentPlace(NamedTuple):
    """A segment on disk, and where the next one of its partition begins."""

    path: Path
    base_offset: int
    next_base: int | None

    @property
    def partition(self) -> str:
        return self.path.parent.name

    @contextmanager
    def opened(self) -> Iterator[OpenFile]:
        with self.path.open("rb") as file:
            yield OpenFile(self.path, file.fileno())


def segments_at(path: Path) -> list[SegmentPlace]:
    """Every segment that `path` is or holds, in the order of the log."""
    path = path.resolve()
    if path.is_file():
        found = [place for place in _segments_of(path.parent) if place.path == path]
    elif found := _segments_of(path):
        pass
    else:
        partitions = sorted(
            (place, directory)
            for directory in path.iterdir()
            if (place := parse_partition_directory(directory.name)) is not None and directory.is_dir()
        )
        found = [segment for _, directory in partitions for segment in _segments_of(directory)]
    if not found:
        raise CommandError(f"{path}: no segment here")
    return found


def _segments_of(directory: Path) -> list[SegmentPlace]:
    bases = sorted(int(file.stem) for file in directory.glob(f"*{LOG_SUFFIX}") if file.stem.isdecimal())
    return [
        SegmentPlace(directory / f"{base:020d}{LOG_SUFFIX}", base, next_base)
        for base, next_base in zip(bases, [*bases[1:], None], strict=False)
    ]


def _print_damage(part: Quarantined, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"damage": part._asdict()}))
    else:
        print(f"{part.position:>12}  {part.size} bytes are no batch: {part.reason}")


def _print_batch(
    place: SegmentPlace, position: int, header: BatchHeader, content: bytes | None, *, as_json: bool
) -> None:
    """`content` is the whole batch where its records are to be shown."""
    kind = _kind(header)
    codec = parse_codec(header.attributes & CODEC_MASK).name.lower()
    records = []
    problem = None
    if content is not None:
        try:
            records = decode_records(content)
        except CorruptBatch as error:  # The checksum is right, so whoever made the batch made it wrong.
            problem = str(error)
    messages = [
        Message(one.key, one.value, one.headers, offset=one.offset, timestamp_ms=one.timestamp_ms) for one in records
    ]
    if as_json:
        fields: dict[str, Any] = {"segment": str(place.path), "position": position, **header._asdict()}
        fields |= {"last_offset": header.last_offset, "codec": codec, "kind": kind}
        if content is not None:
            fields["records"] = [message_fields(message) for message in messages]
        if problem is not None:
            fields["problem"] = problem
        print(json.dumps(fields))
        return
    producer = "-"
    if header.producer_id != NO_PRODUCER_ID:
        producer = f"{header.producer_id}/{header.producer_epoch} #{header.base_sequence}"
    cells = (
        position,
        f"{header.base_offset}..{header.last_offset}",
        header.record_count,
        header.size_bytes,
        _time_text(header.max_timestamp),
        codec,
        producer,
        kind,
    )
    print(_BATCH_COLUMNS.format(*cells).rstrip())
    for message in messages:
        print(f"{'':>14}{_message_text(message)}")
    if problem is not None:
        print(f"{'':>14}{problem}")


def _kind(header: BatchHeader) -> str:
    flags = {
        "control": header.is_control,
        "transactional": header.is_transactional,
        "append-time": bool(header.attributes & LOG_APPEND_TIME),
        "delete-horizon": header.delete_horizon_ms is not None,
    }
    return ",".join(name for name, is_set in flags.items() if is_set)


def _message_text(message: Message) -> str:
    headers = "".join(f" {name}={_preview(value)}" for name, value in message.headers)
    return f"{message.offset}: {_preview(message.key)} -> {_preview(message.value)}{headers}"


def _preview(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = repr(data[:_PREVIEW_CHARS])[1:]
    return text if len(data) <= _PREVIEW_CHARS else f"{text}... ({len(data)} bytes)"


def _time_text(timestamp_ms: int) -> str:
    if timestamp_ms == NO_TIMESTAMP:
        return "-"
    try:
        text = datetime.fromtimestamp(timestamp_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError):  # A producer may claim any 64 bits.
        return str(timestamp_ms)
    return text.replace("+00:00", "Z")


_INDEX_FIELDS: Final = {
    INDEX_SUFFIX: (OFFSET_ENTRY, ("offset", "position")),
    TIME_INDEX_SUFFIX: (TIME_ENTRY, ("timestamp_ms", "offset")),
}


def _dump_index(path: Path, *, as_json: bool) -> None:
    entry, names = _INDEX_FIELDS[path.suffix]
    if not path.stem.isdecimal():
        raise CommandError(f"{path}: the name of an index is the offset at which its segment begins")
    rows = [
        {name: value + int(path.stem) if name == "offset" else value for name, value in zip(names, pair, strict=True)}
        for pair in index_entries(entry, path.read_bytes())
    ]
    if as_json:
        for row in rows:
            print(json.dumps(row))
    else:
        print_table(names, (list(row.values()) for row in rows), right=names)


def _verified(place: SegmentPlace, *, open_batches: bool) -> SegmentReport:
    def index(suffix: str) -> bytes | None:
        path = place.path.with_suffix(suffix)
        return path.read_bytes() if path.exists() else None

    with place.opened() as file:
        return verify_segment(
            file,
            base_offset=place.base_offset,
            next_base=place.next_base,
            offset_index=index(INDEX_SUFFIX),
            time_index=index(TIME_INDEX_SUFFIX),
            open_batches=open_batches,
        )


def _report_fields(report: SegmentReport) -> dict[str, Any]:
    return {
        "segment": report.path,
        "size_bytes": report.size_bytes,
        "batches": report.batches,
        "records": report.records,
        "first_offset": report.first_offset,
        "last_offset": report.last_offset,
        "findings": [finding._asdict() for finding in report.findings],
    }


def _print_reports(places: list[SegmentPlace], reports: list[SegmentReport]) -> None:
    numbers = ("segment", "first offset", "last offset", "batches", "records", "size")
    rows = [
        (
            place.partition,
            place.base_offset,
            report.first_offset,
            report.last_offset,
            report.batches,
            report.records,
            size_text(report.size_bytes),
            Text("damaged", style="bold red") if report.findings else Text("good", style="green"),
        )
        for place, report in zip(places, reports, strict=True)
    ]
    print_table(("partition", *numbers, "verdict"), rows, right=numbers)


def _lost_text(part: Quarantined) -> str:
    if part.next_offset <= part.first_offset:
        return f"{part.first_offset} and on"
    return f"{part.first_offset}..{part.next_offset - 1}"
