"""Every known way in which Headrace answers otherwise than Apache Kafka, with its reason.

The only such list: the conformance run allows these and nothing else, fails when one of them no longer occurs,
and the protocol documentation is rendered from it.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """`*` stands for any text in a case ('Fetch/unknown topic') and in a field's path."""

    case: str
    field: str
    reason: str

    def covers(self, case: str, field: str) -> bool:
        return _matches(self.case, case) and _matches(self.field, field)


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text) is not None


ACCEPTED: tuple[Accepted, ...] = ()
