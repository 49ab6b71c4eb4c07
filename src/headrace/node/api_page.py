"""`docs/protocol.md`, drawn from the API table, so that it cannot disagree with what is served.

The differences from Apache Kafka are known to the comparison that finds them, and are handed in.
"""

from collections.abc import Iterable, Iterator, Mapping

from headrace.node.apis import Api
from headrace.node.handlers import APIS

_INTRODUCTION = """\
# Protocol

Generated from `src/headrace/node/handlers/` and `tests/conformance/differences.py` by `make docs`.

A node speaks Kafka's wire protocol. What it serves is one table: dispatch, the answer to ApiVersions and this page
come from it. A request with another key or version closes the connection, as it does in Kafka, except that
ApiVersions is answered in any version.
"""

_NOT_SERVED = """\
## Not served yet

Transactions, the consumer protocol of KIP-848 (`group.protocol=consumer`), SASL, ACLs and quotas, reassignment,
telemetry, share and streams groups. None of them is advertised, so clients that need one say so
instead of waiting. A transactional producer that looks for its coordinator, or sends InitProducerId with a
transactional id, is answered TRANSACTIONAL_ID_AUTHORIZATION_FAILED, which every client takes as final.
"""

_DIFFERENCES = """\
## Differences from Apache Kafka

The same requests, good and bad, of every served API and version, are put to Apache Kafka 4.1.1 and to a node, and the
answers are compared field by field (`tests/conformance`). Order within lists of topics, partitions and settings does
not count, nor do ids, ports, paths and times of day. These differences are known; any other fails the comparison, and
so does one of these that no longer occurs. `*` stands for any text.
"""


def protocol_page(differences: Iterable[tuple[str, str, str]], *, apis: Mapping[int, Api] = APIS) -> str:
    """The page. A difference is a case, a field of its answer, and the reason."""
    return "\n".join([_INTRODUCTION, *_api_section(apis), _NOT_SERVED, _DIFFERENCES, *_difference_section(differences)])


def _api_section(apis: Mapping[int, Api]) -> Iterator[str]:
    yield "## Served\n"
    yield "| key | API | versions | flexible from | notes |"
    yield "|---|---|---|---|---|"
    for _, api in sorted(apis.items()):
        table = api.messages
        flexible = str(table.flexible_since) if table.flexible_since <= api.version_max else "never"
        yield f"| {api.key} | {table.name} | {_versions(api)} | {flexible} | {api.notes} |"
    yield ""


def _versions(api: Api) -> str:
    served = f"{api.version_min}-{api.version_max}" if api.version_min < api.version_max else f"{api.version_min}"
    if api.advertised_min is None:
        return served
    return f"{served} (advertised from {api.advertised_min})"


def _difference_section(differences: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    reasons: dict[str, list[str]] = {}
    for case, field, reason in differences:
        reasons.setdefault(reason, []).append(f"`{case}`: `{field}`")
    yield "| where | why |"
    yield "|---|---|"
    for reason, places in reasons.items():
        yield f"| {'<br>'.join(places)} | {reason} |"
    yield ""
