"""Two brokers for the whole run, and the account of what was compared."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.broker import Broker
from tests.conformance.case import Case, Topic
from tests.conformance.differences import ACCEPTED, Accepted
from tests.oracle.kafka import ApacheKafka
from tests.oracle.subject import Headrace, RunningBroker
from tests.oracle.toolbox import CACHE_DIR, ToolMissing, without_tool

COMPARISON = "test_answers_are_the_same"
JUDGEMENT = "test_every_accepted_difference_still_occurs"

# The records carry timestamps of long ago, which default retention would delete in the middle of the run; and no member
# shall wait for others.
PROPERTIES = {"log.retention.ms": "-1", "group.initial.rebalance.delay.ms": "0"}

REPORT = CACHE_DIR / "conformance-differences.txt"

# The oracle against itself, to show that the harness finds no difference where there is none.
SUBJECT_IS_APACHE = os.environ.get("HEADRACE_CONFORMANCE_SUBJECT") == "apache"


class Account:
    """How many cases ran per API, which accepted differences were met, and what else differed."""

    def __init__(self) -> None:
        self.cases: Counter[str] = Counter()
        self.met: set[Accepted] = set()
        self.unexpected: dict[tuple[str, str], list[int]] = {}

    def report(self) -> Iterator[str]:
        """Each unexpected difference once, with the versions that show it."""
        for (case, difference), versions in sorted(self.unexpected.items()):
            yield f"{case} v{','.join(map(str, sorted(versions)))}: {difference}"


_ACCOUNT = pytest.StashKey[Account]()
_TOPICS = pytest.StashKey[dict[str, Topic]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_ACCOUNT] = Account()
    config.stash[_TOPICS] = {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Judge the accepted differences after all cases, and only where all of them run.

    The first case pays for fetching Kafka, starting two brokers and creating every topic; hence the time limit.
    """
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(600))
    runs = [item for item in items if isinstance(item, pytest.Function) and item.originalname == COMPARISON]
    for run in runs:
        case, version = run.callspec.params["case"], run.callspec.params["version"]
        assert isinstance(case, Case)
        assert isinstance(version, int)
        config.stash[_TOPICS].update(case.own_topics(version))
    judges = [item for item in items if item.name == JUDGEMENT]
    for judge in judges:
        items.remove(judge)
    if judges and len(runs) == len(judges[0].module.RUNS):  # type: ignore[attr-defined]
        items += judges
    elif judges:
        config.hook.pytest_deselected(items=judges)


@pytest.fixture(scope="session")
def account(pytestconfig: pytest.Config) -> Account:
    return pytestconfig.stash[_ACCOUNT]


def _serving(process: RunningBroker, config: pytest.Config) -> Iterator[Broker]:
    """A started broker with every topic that the chosen cases need: one by one they would take most of the time."""
    from tests.conformance.cases import SHARED_TOPICS, fill_shared_topics

    try:
        process.start()
        broker = Broker(process.name, process.bootstrap, str(process.data_dir))
        with broker.connection:
            broker.create_topics(SHARED_TOPICS)
            topics: dict[str, Topic] = config.stash[_TOPICS]
            broker.create_topics(topics)
            fill_shared_topics(broker)
            yield broker
    except ToolMissing as missing:
        without_tool(missing)
    finally:
        process.discard()


@pytest.fixture(scope="session")
def apache(pytestconfig: pytest.Config) -> Iterator[Broker]:
    # On a busy machine its own controller would take it for dead, and it would coordinate no groups for a while.
    patient = {"broker.session.timeout.ms": "60000"}
    yield from _serving(ApacheKafka.temporary(properties=PROPERTIES | patient), pytestconfig)


@pytest.fixture(scope="session")
def headrace(pytestconfig: pytest.Config) -> Iterator[Broker]:
    subject = ApacheKafka if SUBJECT_IS_APACHE else Headrace
    yield from _serving(subject.temporary(properties=PROPERTIES), pytestconfig)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    account = config.stash[_ACCOUNT]
    if not account.cases:
        return
    terminalreporter.section("conformance with Apache Kafka")
    for api, count in sorted(account.cases.items()):
        terminalreporter.line(f"{api:28} {count:5}")
    terminalreporter.line(f"{'cases in all':28} {account.cases.total():5}")
    terminalreporter.line(f"{'accepted differences met':28} {len(account.met):5} of {len(ACCEPTED)}")
    terminalreporter.line(f"{'other differences':28} {len(account.unexpected):5}")
    if account.unexpected:
        REPORT.parent.mkdir(exist_ok=True)
        REPORT.write_text("\n".join(account.report()) + "\n")
        terminalreporter.line(f"the other differences are listed in {REPORT}")
