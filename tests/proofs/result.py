"""The dated page that a completed proof leaves in docs/proofs, and the facts about host and code that belong on it."""

import datetime
import itertools
import os
import platform
import re
import shutil
import subprocess
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

import confluent_kafka

from tests.proofs.proof import Proof
from tests.proofs.standing import Standing

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ROOT / "docs" / "proofs"
# What a proof is about; pages of earlier proofs, say, make no difference to it.
_PROVED: Final = ("src", "tests", "bench", "pyproject.toml", "requirements.lock")


def commit() -> str:
    return _git("rev-parse", "HEAD") or "unknown"


def is_dirty() -> bool:
    return _git("status", "--porcelain", "--", *_PROVED) != ""


def _git(*arguments: str) -> str | None:
    """None where this is no clone, or git is not installed."""
    try:
        done = subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def host_facts() -> dict[str, str]:
    return {
        "host": f"{_cpu_model()}, {os.cpu_count()} cores, {_memory_gb():.0f} GB of memory",
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "headrace": version("headrace"),
        "clients": f"confluent-kafka {version('confluent-kafka')}, librdkafka {confluent_kafka.libversion()[0]}",
        "strace": _strace_version(),
    }


def _memory_gb() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except FileNotFoundError:
        return platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model[1] if model else platform.machine()


def _strace_version() -> str:
    if shutil.which("strace") is None:
        return "none"
    said = subprocess.run(["strace", "--version"], capture_output=True, text=True).stdout
    return said.splitlines()[0].split()[-1]


def rerun_command(proof: Proof, units: range) -> str:
    last = f"-{units.stop - 1}" if len(units) > 1 else ""
    return f"python -m tests.proofs.run --only {proof.name} --units {units.start}{last}"


def page(proof: Proof, standing: Standing, *, day: datetime.date, host: dict[str, str], run: int = 1) -> str:
    first = next(proof.slices(range(proof.total)))
    dirty = ", with changes that are not in it" if standing.is_dirty else ""
    rows = {"commit": f"`{standing.commit}`{dirty}", **host, "took": duration_text(standing.seconds)}
    counts = {proof.unit: proof.total, **standing.facts}
    return "\n".join(
        [
            f"# {proof.name}, {day.isoformat()}{f', run {run} of that day' if run > 1 else ''}",
            "",
            proof.promise,
            "",
            f"It held, as far as it was looked at: this lacks {'; '.join(standing.lacking)}."
            if standing.lacking
            else "It held.",
            "",
            "| fact | value |",
            "| --- | --- |",
            *(f"| {name} | {value} |" for name, value in rows.items()),
            "",
            "| counted | |",
            "| --- | ---: |",
            *(f"| {name.replace('_', ' ')} | {number_text(value)} |" for name, value in counts.items()),
            "",
            "To run it again from the start, and its first slice alone:",
            "",
            "```",
            f"python -m tests.proofs.run --only {proof.name} --fresh",
            rerun_command(proof, first),
            "```",
            "",
        ]
    )


def write_page(proof: Proof, standing: Standing) -> Path:
    """Beside those of the same day: what held before has held."""
    day = datetime.datetime.now(datetime.UTC).date()
    PAGES.mkdir(parents=True, exist_ok=True)
    for run in itertools.count(1):
        path = PAGES / f"{day.isoformat()}-{proof.name}{f'-{run}' if run > 1 else ''}.md"
        with suppress(FileExistsError), path.open("x", encoding="utf-8") as new:
            new.write(page(proof, standing, day=day, host=host_facts(), run=run))
            return path
    raise AssertionError


def number_text(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if abs(value) < 100 else f"{value:,.0f}"


def duration_text(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"
