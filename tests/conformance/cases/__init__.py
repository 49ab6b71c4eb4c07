"""The table of cases: for every served API, what is asked of both brokers."""

from tests.conformance.case import Case
from tests.conformance.cases import configs, describe, fetch, frames, groups, offsets, produce, topics
from tests.conformance.cases.bodies import SHARED_TOPICS, fill_shared_topics

CASES: tuple[Case, ...] = (
    *frames.CASES,
    *describe.CASES,
    *produce.CASES,
    *fetch.CASES,
    *offsets.CASES,
    *groups.CASES,
    *topics.CASES,
    *configs.CASES,
)

__all__ = ["CASES", "SHARED_TOPICS", "fill_shared_topics"]
