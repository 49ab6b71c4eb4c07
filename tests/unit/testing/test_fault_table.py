import errno

from headrace.testing.inside.fault_table import FaultTable, is_log_of
from headrace.testing.messages import FaultSpec


def test_a_fault_is_laid_out_until_it_is_spent_or_removed() -> None:
    table = FaultTable()
    twice = table.add(FaultSpec(kind="drop", times=2))
    always = table.add(FaultSpec(kind="drop", times=None))
    assert len(table.of_requests) == 2
    for fault in [table.of_requests[0]] * 2:
        table.meet(fault)
    assert (table.hits(twice), len(table.of_requests)) == (2, 1)
    table.meet(table.of_requests[0])
    assert table.remove(always) == 1
    assert table.of_requests == ()
    assert table.remove(twice) == 2
    assert (table.remove(twice), table.hits(twice)) == (0, 0)


def test_faults_of_the_disk_are_for_logs_alone() -> None:
    table = FaultTable()
    table.add(FaultSpec(kind="disk", operation="append", errno=errno.EIO, topic="a-b"))
    assert table.of_requests == ()
    for path in ("headrace.journal", "a-b-0/0.index", "a-0/0.log", "a-b-c-0/0.log"):
        assert table.disk_errno("append", path) is None
    assert table.disk_errno("sync", "a-b-0/0.log") is None
    assert table.disk_errno("append", "a-b-0/0.log") == errno.EIO
    assert table.disk_errno("append", "a-b-0/0.log") is None


def test_which_files_are_logs() -> None:
    assert is_log_of("orders-12/00000000000000000000.log", None)
    assert is_log_of("orders-12/00000000000000000000.log", "orders")
    assert not is_log_of("orders-12/00000000000000000000.timeindex", None)
    assert not is_log_of("orders-12/00000000000000000000.log", "order")
