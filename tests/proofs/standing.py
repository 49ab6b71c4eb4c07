"""How far a proof has come, kept in a file so that an interrupted run goes on where it was.

A standing belongs to one commit. What was shown of other code is no progress of this one.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.proofs.proof import Facts, merge_facts


@dataclass(slots=True)
class Standing:
    commit: str
    is_dirty: bool = False  # Whether any unit ran with changes that the commit does not have.
    units_done: int = 0
    seconds: float = 0.0
    facts: Facts = field(default_factory=dict)
    lacking: list[str] = field(default_factory=list)  # What could not be looked at, for want of a tool.

    def add(self, units: int, facts: Facts, *, seconds: float, is_dirty: bool, lacking: Sequence[str] = ()) -> None:
        self.units_done += units
        self.seconds += seconds
        self.facts = merge_facts(self.facts, facts)
        self.is_dirty = self.is_dirty or is_dirty
        self.lacking += [what for what in lacking if what not in self.lacking]


def load_standing(path: Path, *, commit: str, keep: bool = False) -> Standing:
    """What the file says, if it is of this commit or any other's is good enough; else a fresh start."""
    try:
        standing = Standing(**json.loads(path.read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return Standing(commit)
    return standing if keep or standing.commit == commit else Standing(commit)


def save_standing(path: Path, standing: Standing) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(asdict(standing), indent=2))
    unfinished.replace(path)
