"""Files that killed writers left in a table's directory: nobody sees them, and a vacuum takes them and nothing else."""

import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from headrace.pipeline.location import parse_location
from headrace.pipeline.upkeep import vacuum

_OLD_S: Final = 48 * 3600


def remove_orphans(lake: Path) -> int:
    """Have them removed, as if they were old; how many. What any version of the tables needs has to stay."""
    tables = [lake, *(path for path in (lake / "_dead_letters", lake / "_ledger") if path.exists())]
    files = _data_files(lake)
    orphans = files - {path for table in tables for path in _named(table)}
    long_ago_s = time.time() - _OLD_S
    for path in files:
        os.utime(path, (long_ago_s, long_ago_s))
    removed = {Path(path) for path in vacuum(parse_location(lake), older_than=timedelta(hours=24), with_orphans=True)}
    assert removed == orphans, f"{len(removed)} files were removed, and {len(orphans)} were in no commit"
    assert _data_files(lake) == files - orphans
    return len(orphans)


def _named(table: Path) -> set[Path]:
    """Files that a commit has put into a table."""
    actions = [json.loads(line) for log in table.glob("_delta_log/*.json") for line in log.read_text().splitlines()]
    return {table / unquote(action["add"]["path"]) for action in actions if "add" in action}


def _data_files(lake: Path) -> set[Path]:
    """Also those that were being written: their names go on behind the ending."""
    return {path for path in lake.rglob("*.parquet*") if "_delta_log" not in path.parts}
