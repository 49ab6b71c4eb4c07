"""Starting, stopping, killing; what stays and what goes."""

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from headrace.errors import ErrorCode
from headrace.testing import Broker, BrokerError, BrokerPool
from headrace.testing import broker as broker_module
from headrace.testing.ports import lasting_ports
from tests.embedded.conftest import MakeBroker, producing, send
from tests.waiting import wait_until


def connect(broker: Broker) -> socket.socket:
    return socket.create_connection(("127.0.0.1", broker.port), timeout=5)


def test_it_is_a_broker_on_a_real_socket(make_broker: MakeBroker) -> None:
    with make_broker() as broker, producing(broker) as producer:
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert send(producer, "orders", b"1", key=b"alice") is None
        (record,) = broker.log("orders", 0)
        assert (record.key, record.value, record.offset) == (b"alice", b"1", 0)


def test_nothing_is_left_of_one_with_temporary_data(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        data, port = broker.data, broker.port
        broker.create_topic("orders")
        assert (data / "orders-0").is_dir()
    assert not data.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    assert not broker.is_running
    with pytest.raises(BrokerError, match="not running"):
        broker.topics()


def test_data_of_ones_own_stay(make_broker: MakeBroker, tmp_path: Path) -> None:
    for expected in ([b"1"], [b"1", b"2"]):
        with make_broker(data=tmp_path / "data") as broker:
            broker.produce("orders", expected[-1])
            assert broker.log("orders").values == expected
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_async_with(make_broker: MakeBroker) -> None:
    async def use() -> Path:
        async with make_broker() as broker:
            broker.produce("orders", b"1")
            assert broker.log("orders").values == [b"1"]
            return broker.data

    assert not asyncio.run(use()).exists()


def test_settings_have_kafkas_names(make_broker: MakeBroker) -> None:
    with make_broker({"num.partitions": 3, "auto.create.topics.enable": True}) as broker:
        broker.produce("orders", b"1")
        assert broker.topics() == {"orders": 3}


def test_a_wrong_setting_is_said(make_broker: MakeBroker) -> None:
    broker = make_broker({"no.such.setting": 1})
    with pytest.raises(BrokerError, match=r"no\.such\.setting"):
        broker.start()
    assert not broker.is_running


@pytest.mark.parametrize("name", ["listeners", "log.dirs", "http.listen"])
def test_what_is_not_for_settings_to_say_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not for config to say"):
        Broker({name: "x"})


def test_a_setting_that_does_nothing_here_is_logged(pool: BrokerPool) -> None:
    with pool.broker({"num.network.threads": 3}) as broker:
        assert "setting without effect here name=num.network.threads" in broker.log_text()


def test_a_restart_keeps_port_and_data(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        address = broker.bootstrap
        broker.produce("orders", b"1")
        broker.restart()
        assert broker.bootstrap == address
        broker.produce("orders", b"2")
        assert broker.log("orders").values == [b"1", b"2"]
        assert broker.log("orders").leader_epoch == 0


def test_a_stop_says_whether_all_was_written(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        broker.produce("orders", b"1")
        assert broker.stop()
        broker.start()
        broker.faults.disk(errno.EIO, on="append")
        with pytest.raises(BrokerError):
            broker.produce("orders", b"2")
        assert not broker.stop()
        broker.start()
        assert broker.log("orders").values == [b"1"]


def test_a_killed_one_recovers(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        address = broker.bootstrap
        broker.produce("orders", b"1")
        broker.kill()
        assert not broker.is_running
        with pytest.raises(ConnectionRefusedError):
            connect(broker)
        broker.start()
        assert broker.bootstrap == address
        assert broker.log("orders").values == [b"1"]
        assert broker.log("orders").leader_epoch == 1  # As after any crash.


def test_killed_it_can_be_closed(make_broker: MakeBroker) -> None:
    with make_broker() as broker:
        data = broker.data
        broker.kill()
    assert not data.exists()


def test_a_closed_one_starts_as_new(make_broker: MakeBroker) -> None:
    broker = make_broker()
    for _ in range(2):
        with broker:
            assert broker.topics() == {}
            broker.create_topic("orders")


def test_two_at_once_know_nothing_of_each_other(make_broker: MakeBroker) -> None:
    with make_broker() as one, make_broker() as other:
        assert one.bootstrap != other.bootstrap
        one.produce("orders", b"1")
        assert other.topics() == {}


def test_a_port_can_be_asked_for() -> None:
    with Broker() as broker:
        port = broker.port
    with Broker(port=port) as broker:
        assert broker.port == port
        with pytest.raises(BrokerError, match="cannot listen"):
            Broker(port=port).start()


def test_one_that_died_says_so_and_what_it_logged(pool: BrokerPool) -> None:
    for broker in (Broker(), pool.broker()):
        with broker:
            os.kill(broker.pid, signal.SIGKILL)
            with pytest.raises(BrokerError, match=r"(?s)gone.*loaded"):
                broker.topics()


def test_data_in_use_are_refused(tmp_path: Path) -> None:
    with Broker(data=tmp_path), pytest.raises(BrokerError, match="in use"):
        Broker(data=tmp_path).start()


def test_a_command_that_is_refused_tells_kafkas_reason(broker: Broker) -> None:
    broker.create_topic("orders")
    with pytest.raises(BrokerError, match="already exists") as refused:
        broker.create_topic("orders")
    assert refused.value.code is ErrorCode.TOPIC_ALREADY_EXISTS


def test_any_thread_may_ask(broker: Broker) -> None:
    def produce_some() -> None:
        for _ in range(50):
            broker.produce("orders", b"1")

    broker.create_topic("orders")
    threads = [threading.Thread(target=produce_some) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [record.offset for record in broker.log("orders")] == list(range(200))


def test_a_thread_is_given_more_turns_while_there_is_a_broker_in_one() -> None:
    before_s = sys.getswitchinterval()
    with Broker(in_thread=True), Broker(in_thread=True):
        assert sys.getswitchinterval() < before_s
    assert sys.getswitchinterval() == before_s
    assert not [thread for thread in threading.enumerate() if thread.name == "headrace broker"]


# --- The test that dies ---------------------------------------------------------------------------------------

_DYING_TEST = textwrap.dedent(
    """
    import os, signal, sys
    from headrace.testing import Broker, BrokerPool
    broker = Broker() if sys.argv[1] == "process" else BrokerPool().broker()
    broker.start()
    broker.create_topic("orders")
    print(broker.pid, broker.data, broker.port, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    """
)


def has_ended(pid: int) -> bool:
    """A process that nobody reaps may stay as a zombie, in a container without an init."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.parametrize("kind", ["process", "fork"])
def test_when_the_test_is_killed_the_broker_ends_and_takes_its_data_with_it(kind: str) -> None:
    ran = subprocess.run([sys.executable, "-c", _DYING_TEST, kind], stdout=subprocess.PIPE, text=True, timeout=30)
    assert ran.returncode == -signal.SIGKILL
    pid, data, port = ran.stdout.split()
    wait_until(lambda: not Path(data).exists())
    wait_until(lambda: has_ended(int(pid)))
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)))


def test_a_port_that_was_taken_meanwhile_is_not_the_end(monkeypatch: pytest.MonkeyPatch, pool: BrokerPool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        free = lasting_ports(1)[0]
        monkeypatch.setattr(broker_module, "lasting_ports", lambda count: [taken.getsockname()[1], free])
        with pool.broker() as broker:
            assert broker.port == free


def test_a_pool_that_is_closed_closes_its_brokers_and_makes_no_more() -> None:
    with BrokerPool() as pool:
        brokers = [pool.broker() for _ in range(3)]
        for broker in brokers:
            broker.start()
    assert not any(broker.is_running for broker in brokers)
    with pytest.raises(BrokerError, match="pool is gone"):
        pool.broker().start()
