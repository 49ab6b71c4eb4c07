"""`headrace consume` prints the same, whether by columns or message by message."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace import columnar
from headrace.cli import column_printing
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
        ("--format", "%T %p %o %t %k %v", "--null", "(none)"),
        ("--format", "%k %v", "--encoding", "hex"),
        ("--format", "constant"),
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
    renders = []
    render = column_printing.render

    def watched(batch: pa.RecordBatch, layout: column_printing.Layout) -> memoryview:
        renders.append(batch.num_rows)
        return render(batch, layout)

    monkeypatch.setattr(column_printing, "render", watched)
    printed = headrace("consume", "one", "two", "--delimiter", "~\\n", *arguments).stdout_bytes
    assert not renders
    monkeypatch.setattr(column_printing, "_WORTHWHILE_MESSAGES", 0)
    fast = headrace("consume", "one", "two", "--delimiter", "~\\n", *arguments).stdout_bytes
    assert sorted(fast.split(b"~\n")) == sorted(printed.split(b"~\n"))
    is_plain = not {"--json", "%h", "--encoding", "constant"} & set(arguments)
    assert bool(renders) == is_plain


def test_a_count_ends_it(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_printing, "_WORTHWHILE_MESSAGES", 0)
    printed = Headrace(broker.bootstrap)("consume", "one", "--format", "%o", "-n", "5", "-p", "0").stdout
    assert printed.split() == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("setting", ["fetch.wait.max.ms=100", "isolation.level=read_uncommitted"])
def test_what_only_the_client_library_understands_is_left_to_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    monkeypatch.setattr(column_printing, "_WORTHWHILE_MESSAGES", 0)
    monkeypatch.setattr(column_printing, "render", lambda *_: pytest.fail("by columns"))
    printed = Headrace(broker.bootstrap)("consume", "one", "--format", "%o", "-p", "0", "-X", setting).stdout
    assert len(printed.split()) > 100
