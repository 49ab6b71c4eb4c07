"""One thing that a paper found: its words, and the same as a question to results."""

from dataclasses import dataclass

from headrace.lab.evidence import Question
from headrace.lab.published import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    preset: str
    text: str
    source: Source
    question: Question
