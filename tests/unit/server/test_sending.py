"""Answers larger than a socket takes at once: all of them leave, in pieces, and hold up nobody."""

import pytest

from headrace.protocol.batch import whole_batches
from headrace.server import sending
from tests.unit.server.served_node import ServedNode, fetch_body, fill, records


def test_a_slow_reader_gets_every_byte(served: ServedNode) -> None:
    data = fill(served, 3_000_000)
    slow = served.connect(receive_buffer_bytes=4096)
    slow.ask("Fetch", 11, **fetch_body("t"))
    slow.ask("ApiVersions", 0)
    fetched, _ = slow.wait_answers(2)
    assert records(fetched) == data
    assert served.used_bytes == 0


def test_records_take_no_memory_while_they_wait(served: ServedNode) -> None:
    fill(served, 3_000_000)
    deaf = served.connect(receive_buffer_bytes=4096)
    for _ in range(50):
        deaf.ask("Fetch", 11, **fetch_body("t"))
    served.run_until(lambda: served.handled("Fetch") == 51)
    assert served.used_bytes < 10_000


def test_cold_records_are_warmed_first(served: ServedNode) -> None:
    data = fill(served, 1_000_000)
    served.disk.is_cold = True
    served.device.is_held = True
    client, other = served.connect(), served.connect()
    client.ask("Fetch", 11, **fetch_body("t"))
    served.run_until(lambda: served.device.warms == 1)
    other.call("ApiVersions", 0)
    assert client.poll() == 0
    served.disk.is_cold = False
    served.device.release()
    (fetched,) = client.wait_answers(1)
    assert records(fetched) == data
    assert served.device.warms == 1


def test_what_was_warmed_is_sent_though_the_kernel_does_not_vouch_for_it(served: ServedNode) -> None:
    data = fill(served, 1_000_000)
    served.disk.is_cold = True
    (fetched,) = [served.connect().call("Fetch", 11, **fetch_body("t"))]
    assert records(fetched) == data
    assert 1 <= served.device.warms <= 8


def test_short_cold_records_too(served: ServedNode) -> None:
    data = fill(served, 1000)
    served.disk.is_cold = True
    assert records(served.connect().call("Fetch", 11, **fetch_body("t"))) == data


def test_without_sendfile_it_is_the_same(served: ServedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "_HAS_SENDFILE", False)
    data = fill(served, 2_000_000)
    assert records(served.connect().call("Fetch", 11, **fetch_body("t"))) == data
    assert served.shell.statistics().sendfile_bytes == 0


def test_batches_leave_as_they_came(served: ServedNode) -> None:
    data = fill(served, 300_000)
    assert sum(header.record_count for _, header in whole_batches(data)) == 3
