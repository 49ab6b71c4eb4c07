"""`docs/configuration.md`, drawn from the tables, so that it cannot disagree with them."""

from collections.abc import Iterable, Iterator

from headrace.node.configs import BrokerConfig, TopicConfig
from headrace.node.kafka_names import INERT_NAMES, REFUSED_NAMES
from headrace.node.settings import INT_MAX, LONG_MAX, Setting, value_text

_INTRODUCTION = """\
# Configuration

Generated from the tables in `src/headrace/node/configs.py` by `make docs`.

Names, defaults and checks are those of Apache Kafka 4.1. A node reads its settings from the file given with
`--config` (Java properties, as Kafka's `server.properties`), then from each `-o key=value`, then from the
flags of `headrace serve`; the later wins. A topic's settings are given when it is created or altered and are
kept over restarts; those not given come from the broker setting named beside them.

Settings marked **no effect yet** are checked, kept and described, and change nothing. Further names that
Kafka knows and that have no use here are accepted with one warning in the log; they are listed at the end.
Any other name is an error.
"""


def configuration_page() -> str:
    return "\n".join([_INTRODUCTION, *_topic_section(), *_broker_section(), *_names_section()]) + "\n"


def _topic_section() -> Iterator[str]:
    yield "## Of a topic\n"
    yield _line("name", "type", "default", "values", "meaning", "from the broker's")
    yield _line(*["---"] * 6)
    for row in _documented(TopicConfig.rows.values()):
        yield _line(*_cells(row), ", ".join(f"`{synonym.name}`" for synonym in row.synonyms))
    yield ""


def _broker_section() -> Iterator[str]:
    yield "## Of a node\n"
    yield "Those marked *dynamic* can be changed while the node runs.\n"
    yield _line("name", "type", "default", "values", "meaning", "change")
    yield _line(*["---"] * 6)
    for row in _documented(BrokerConfig.rows.values()):
        yield _line(*_cells(row), "dynamic" if row.dynamic else "")
    yield ""


def _names_section() -> Iterator[str]:
    yield "## Refused\n"
    yield "Ignoring these could let through what they should stop, so a node does not start with them:\n"
    yield _listed(REFUSED_NAMES)
    yield "\n## Accepted without effect\n"
    yield _listed(INERT_NAMES)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names)) + "."


def _documented(rows: Iterable[Setting]) -> list[Setting]:
    return [row for row in rows if not row.internal]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: Setting) -> tuple[str, ...]:
    allowed = row.check.allowed if row.check is not None else ""
    meaning = row.doc if row.acts else f"{row.doc} **No effect yet.**"
    return f"`{row.name}`", row.kind.name.lower(), _default(row), allowed, meaning


def _default(row: Setting) -> str:
    if row.default is None:
        return "unset"
    if row.default in (INT_MAX, LONG_MAX):
        return "no limit"
    text = value_text(row.default)
    return f"`{text}`" if text else "empty"
