"""`headrace consume` by way of Arrow prints what it prints without."""

from collections.abc import Iterator

import pytest

from headrace import columnar
from headrace.cli import fast_reading
from headrace.testing import Broker
from tests.clients.command_line import Headrace
from tests.clients.exported import BEGAN_MS, strange_rows


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        for topic, seed in (("one", 1), ("two", 2)):
            broker.create_topic(topic, partitions=3)
            columnar.write(broker.bootstrap, topic, strange_rows(400, seed=seed), compression="zstd", batch_bytes=2000)
        yield broker


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--format", "%T %p %o %t %k %v", "--encoding", "hex", "--null", "-"),
        ("--format", "%p", "--partition", "1"),
        ("--from", "-7", "--format", "%p %o"),
        ("--from", "20", "--format", "%p %o %k"),
        ("--from", f"@{BEGAN_MS + 200_000}", "--format", "%t%%"),
        ("--json",),
        ("--format", "%h"),
    ],
)
def test_the_same_is_printed(broker: Broker, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]) -> None:
    headrace = Headrace(broker.bootstrap)
    taken = []

    def scan(*given: object) -> object:
        taken.append(made := scan_messages(*given))  # type: ignore[arg-type]
        return made

    scan_messages = fast_reading.scan_messages
    monkeypatch.setattr("headrace.cli.reading.scan_messages", scan)
    printed = headrace("consume", "one", "two", "--delimiter", "~\n", *arguments).stdout_bytes
    monkeypatch.setattr(fast_reading, "_WORTHWHILE_MESSAGES", 0)
    fast = headrace("consume", "one", "two", "--delimiter", "~\n", *arguments).stdout_bytes
    assert sorted(fast.split(b"~\n")) == sorted(printed.split(b"~\n"))
    shows_headers = "--json" in arguments or "%h" in arguments
    assert [one is not None for one in taken] == [False, not shows_headers]


def test_a_count_ends_it(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_reading, "_WORTHWHILE_MESSAGES", 0)
    printed = Headrace(broker.bootstrap)("consume", "one", "--format", "%o", "-n", "5", "-p", "0").stdout
    assert printed.split() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("setting", ["fetch.wait.max.ms=100", "isolation.level=read_uncommitted"])
def test_what_only_the_client_library_understands_is_left_to_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr(fast_reading, "_WORTHWHILE_MESSAGES", 0)
    monkeypatch.setattr(fast_reading, "_messages", lambda scan: pytest.fail("by way of Arrow"))
    printed = Headrace(broker.bootstrap)("consume", "one", "--format", "%o", "-p", "0", "-X", setting).stdout
    assert len(printed.split()) > 100
