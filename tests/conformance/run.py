"""Carrying out a case on one broker."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.conformance.broker import Broker
from tests.conformance.case import Ask, Case, Raw, Together, Until, served_versions
from tests.conformance.schemas import Message
from tests.conformance.wire import Answered, Closed, Outcome, Silent, frame, read_answer, request_bytes

_PROBE_CORRELATION_ID = 123_456


class Context:
    """One broker during one run of one case."""

    def __init__(self, broker: Broker, *, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        self.answers: list[Message] = []

    def topic_id(self, name: str = "$topic") -> uuid.UUID:
        return self.broker.find_topic_id(self.expand(name))

    def expand(self, value: Any) -> Any:
        """A body with its callables called and its names filled in."""
        if callable(value):
            return value(self)
        if isinstance(value, str):
            return value.replace("$topic", self.topic).replace("$node", str(self.broker.node_id))
        if isinstance(value, Mapping):
            return {key: self.expand(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.expand(one) for one in value]
        return value


@dataclass(frozen=True, slots=True)
class Observed:
    """What one step did: the request's API and version where there is one, and what was seen."""

    api: str
    version: int
    seen: Message


def run_case(case: Case, version: int, broker: Broker) -> list[Observed]:
    """Every comparable step's outcome, in order. The case's own topics must be there."""
    context = Context(broker, topic=case.topic_name(version))
    observed = []
    for step in case.steps:
        match step:
            case Ask():
                observed.append(_ask(step, case, version, context))
            case Raw():
                outcome = broker.connection.exchange(step.data, timeout_s=2)
                seen = {"outcome": _outcome_word(outcome)}
                if isinstance(outcome, Answered):
                    seen |= read_answer(case.api, step.version, outcome.data)
                observed.append(Observed(case.api, step.version, seen))
            case Together():
                observed += _ask_together(step, case, version, context)
            case Until():
                broker.settle(step.api, context.expand(step.body), step.done)
    return observed


def _ask(step: Ask, case: Case, version: int, context: Context) -> Observed:
    version = _version_of(step, case, version)
    body = context.expand(step.body)
    request = _request(step, version, body)
    connection = context.broker.connection
    if step.unanswered:
        probe = request_bytes("ApiVersions", 0, {}, correlation_id=_PROBE_CORRELATION_ID)
        outcome = connection.exchange(frame(request) + frame(probe))
        if isinstance(outcome, Answered) and outcome.data[:4] == probe[4:8]:
            outcome = Silent()
    else:
        outcome = connection.exchange(frame(request), timeout_s=step.patience_s, chunk_bytes=step.chunk_bytes)
    observed = _observe(step, version, outcome, context)
    if isinstance(outcome, Answered) and step.api == "CreateTopics" and not body.get("validate_only"):
        _wait_created(context.broker, body, context.answers[-1])
    return observed


def _ask_together(step: Together, case: Case, version: int, context: Context) -> list[Observed]:
    versions = [_version_of(ask, case, version) for ask in step.asks]
    requests = [
        frame(_request(ask, asked, context.expand(ask.body), correlation_id=index))
        for index, (ask, asked) in enumerate(zip(step.asks, versions, strict=True))
    ]
    outcomes = context.broker.connection.exchange_all(requests)
    return [
        _observe(ask, asked, outcome, context)
        for ask, asked, outcome in zip(step.asks, versions, outcomes, strict=False)
    ]


def _version_of(step: Ask, case: Case, version: int) -> int:
    if step.version is not None:
        return step.version
    return version if step.api == case.api else served_versions(step.api)[-1]


def _request(step: Ask, version: int, body: Message, *, correlation_id: int = 7) -> bytes:
    request = request_bytes(step.api, version, body, correlation_id=correlation_id)
    return request if step.mangle is None else step.mangle(request)


def _observe(step: Ask, version: int, outcome: Outcome, context: Context) -> Observed:
    seen: Message = {"outcome": _outcome_word(outcome)}
    if isinstance(outcome, Answered):
        answer = read_answer(step.api, version, outcome.data)
        context.answers.append(answer)
        seen |= _only_topics(answer, context.expand(step.only))
        if step.wait_ms is not None:
            seen["waited"] = outcome.elapsed_s * 1000 >= step.wait_ms
    return Observed(step.api, version, seen)


def _only_topics(value: Any, prefix: str) -> Any:
    if isinstance(value, dict):
        return {name: _only_topics(one, prefix) for name, one in value.items()}
    if isinstance(value, list):
        return [_only_topics(one, prefix) for one in value if not _is_other_topic(one, prefix)]
    return value


def _is_other_topic(item: Any, prefix: str) -> bool:
    names = [item.get(field) for field in ("name", "topic", "topic_name", "group_id")] if isinstance(item, dict) else []
    return any(isinstance(name, str) and not name.startswith(prefix) for name in names)


def _wait_created(broker: Broker, body: Message, answer: Message) -> None:
    created = {one["name"] for one in answer["topics"] if one["error_code"] == 0}
    broker.wait_served(
        {
            topic["name"]: len(topic.get("assignments", ())) or max(1, topic["num_partitions"])
            for topic in body["topics"]
            if topic["name"] in created
        }
    )


def _outcome_word(outcome: Outcome) -> str:
    match outcome:
        case Answered():
            return "answered"
        case Closed():
            return "closed"
        case Silent():
            return "silent"
