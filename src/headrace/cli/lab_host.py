"""`headrace lab host`: what the machine itself can do, as a table.

Nothing of the lab is imported before it measures, so that `--help` waits for no numpy.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.progress import BarColumn, TextColumn

from headrace.cli.extras import require
from headrace.cli.output import AsJson, CommandError, note, print_json, print_table, progress

if TYPE_CHECKING:
    from headrace.lab.histogram import Histogram
    from headrace.lab.host.disk_write import DiskWrite
    from headrace.lab.host.links import Link
    from headrace.lab.host.measuring import HostMeasured
    from headrace.lab.host.stalls import Stalls

_DURATION_S_MAX: Final = 60.0
_Row = tuple[str, str]


def host(
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            writable=True,
            metavar="DIRECTORY",
            help="Whose disk: where a broker keeps its data. The directory for temporary files if not said.",
        ),
    ] = None,
    duration: Annotated[
        str, typer.Option("--duration", "-d", metavar="TIME", help="Of each of three measurements, at most a minute.")
    ] = "2s",
    as_json: AsJson = False,
) -> None:
    """Measure the machine: synchronous writes, loopback, links, and how much a busy thread is held off."""
    for package in ("numpy", "scipy"):
        require(package, extra="lab")
    from headrace.lab.host.measuring import measure_host
    from headrace.lab.quantities import parse_time_s

    duration_s = parse_time_s(duration)
    if not 0 < duration_s <= _DURATION_S_MAX:
        raise CommandError(f"a duration of {duration} is not between nothing and {_DURATION_S_MAX:g} s")
    with _watching() as watch:
        measured = measure_host(data or Path(tempfile.gettempdir()), duration_s=duration_s, watch=watch)
    if as_json:
        print_json(measured.to_json())
    else:
        print_host(measured)


@contextmanager
def _watching() -> Iterator[Callable[[str], None]]:
    from headrace.lab.host.measuring import STEPS

    with progress(TextColumn("measuring {task.description}"), BarColumn()) as bars:
        bar = bars.add_task(STEPS[0], total=len(STEPS))

        def watch(step: str) -> None:
            bars.update(bar, description=step, completed=STEPS.index(step))

        yield watch


def print_host(measured: "HostMeasured") -> None:
    from headrace.lab.facts import host_facts

    facts = host_facts()
    rows = [
        *_disk_rows(measured.directory, measured.disk),
        ("loopback", f"{measured.loopback.mb_per_s:,.0f} MB/s, one connection"),
        *map(_link_row, measured.links),
        *_stall_rows(measured.stalls),
    ]
    title = f"{facts['cpu']}, {facts['cores']} cores, {facts['memory_bytes'] / 2**30:.1f} GiB, {facts['kernel']}"
    print_table(("what", "measured"), rows, title=title)
    if not measured.is_calm:
        note("this machine is not calm: latencies that are measured on it now are of its other work, too")


def _disk_rows(directory: Path, disk: "DiskWrite | str") -> list[_Row]:
    from headrace.lab.host.disk_write import COMMIT_BYTES
    from headrace.lab.host.measuring import NOT_MEASURABLE

    if isinstance(disk, str):
        return [("synchronous write", f"{NOT_MEASURABLE}: {disk}")]
    where = f"{directory} ({disk.file_system})" if disk.file_system else str(directory)
    return [
        ("synchronous write", f"{disk.bulk_mb_per_s:,.1f} MB/s, 1 MiB at a time, on {where}"),
        (
            f"write of {COMMIT_BYTES} B and sync",
            f"{disk.commits_per_s:,.0f}/s; {_quantiles_text(disk.commits)}",
        ),
    ]


def _link_row(link: "Link") -> _Row:
    from headrace.lab.host.measuring import NOT_MEASURABLE

    if not link.is_up:
        speed = f"{NOT_MEASURABLE}: down"
    elif link.mb_per_s is None:
        speed = f"{NOT_MEASURABLE}: its driver does not say how fast it is"
    else:
        speed = f"{link.mb_per_s:,.1f} MB/s, as its driver says"
    return f"link {link.interface}", speed


def _stall_rows(stalls: "Stalls") -> list[_Row]:
    from headrace.lab.host.stalls import STALL_NS_MIN

    often = f"{stalls.per_s:,.0f} times a second for {STALL_NS_MIN // 1000} us or more"
    rows = [
        (
            "a busy thread is held off",
            f"{stalls.share:.2%} of the time, {often}; {_quantiles_text(stalls.stalls)}",
        )
    ]
    if stalls.waited_share is not None:
        rows.append(("  by other processes", f"{stalls.waited_share:.2%} of the time"))
    if stalls.stolen_share is not None:
        rows.append(("stolen by the host", f"{stalls.stolen_share:.2%} of all cores"))
    return rows


def _quantiles_text(took: "Histogram") -> str:
    from headrace.lab.sent import quantiles_ms

    found = quantiles_ms(took)
    if found is None:
        return "none at all"
    return f"p50 {found['p50']:g} ms, p99 {found['p99']:g} ms, max {found['max']:g} ms"
