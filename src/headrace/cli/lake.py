"""`headrace lake`: what a table of a load needs now and then."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headrace.cli.extras import require
from headrace.cli.output import note
from headrace.cli.pairs import parse_pairs

if TYPE_CHECKING:
    from headrace.pipeline.location import Location

app = typer.Typer(help="Keep the tables of loads in order.", no_args_is_help=True)

_AGE: Final = re.compile(r"(\d+)([hd])")
_MIB: Final = 1 << 20

Path = Annotated[str, typer.Argument(metavar="PATH_OR_URL", help="The Delta table.", show_default=False)]
Options = Annotated[
    list[str],
    typer.Option("--lake-option", metavar="KEY=VALUE", help="For an object store: region, keys. May be repeated."),
]


@app.command()
def compact(
    path: Path,
    file_mib: Annotated[int, typer.Option("--file-mib", min=1, help="How large files shall be, about.")] = 128,
    options: Options = [],  # noqa: B006
) -> None:
    """Make larger files of small ones. Rows and offsets stay what they are; loads may go on meanwhile."""
    location = _location(path, options)
    from headrace.pipeline import upkeep

    compacted = upkeep.compact(location, file_bytes=file_mib * _MIB)
    note(f"{path}: {compacted.files_before} files became {compacted.files_after}")


@app.command()
def vacuum(
    path: Path,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="TIME", help="Only what was needed last so long ago: 7d, 24h.")
    ] = "7d",
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also files that killed loads left; they must be a day old.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print what would go, and remove nothing.")] = False,
    options: Options = [],  # noqa: B006
) -> None:
    """Remove files that the table does not need any more, and print which. Older versions of it cannot be read then."""
    location = _location(path, options)
    from headrace.pipeline import upkeep

    removed = upkeep.vacuum(location, older_than=parse_age(older_than), with_orphans=orphans, dry_run=dry_run)
    for name in removed:
        print(name)
    note(f"{path}: {len(removed)} files {'would go' if dry_run else 'removed'}")


def parse_age(text: str) -> timedelta:
    match = _AGE.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"--older-than {text!r} is not like 7d or 24h")
    return timedelta(**{"days" if match[2] == "d" else "hours": int(match[1])})


def _location(path: str, options: list[str]) -> "Location":
    for package in ("pyarrow", "deltalake"):
        require(package, extra="spark")
    from headrace.pipeline.location import parse_location

    return parse_location(path, parse_pairs(options, option="--lake-option"))
