"""The shell: who is let in, who is let go, and how memory is shared when there is too little."""

import asyncio
import errno
import os
import socket
import struct
from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.node.node import Node
from headrace.server import shell as shell_module
from headrace.server.config import ListenerConfig
from headrace.server.options import HostPort
from tests.unit.server.served_node import Disk, Serve, ServedNode, fetch_body, produce_body, records


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at once in a while is looked at often."""
    monkeypatch.setattr(shell_module, "_MEMORY_STALL_S", 0.01)
    monkeypatch.setattr(shell_module, "_SWEEP_S", 0.01)
    monkeypatch.setattr(shell_module, "_ACCEPT_RETRY_S", 0.01)


class TestLettingIn:
    def test_no_more_than_there_may_be(self, serve: Serve) -> None:
        served = serve(max_connections="2")
        first, second, third = (served.connect() for _ in range(3))
        third.wait_end()
        first.call("ApiVersions", 0)
        second.close()
        served.run_until(lambda: served.shell.statistics().connections == 1)
        served.connect().call("ApiVersions", 0)
        assert served.shell.statistics().connections_refused == 1

    def test_no_more_than_one_address_may_have(self, serve: Serve) -> None:
        served = serve(max_connections_per_ip="1")
        first = served.connect()
        for _ in range(3):
            served.connect().wait_end()
            first.call("ApiVersions", 0)
        first.close()
        served.run_until(lambda: served.shell.statistics().connections == 0)
        served.connect().call("ApiVersions", 0)

    def test_a_crowd_at_once(self, serve: Serve) -> None:
        served = serve(socket_listen_backlog_size="512")
        crowd = [socket.socket() for _ in range(300)]
        for sock in crowd:
            sock.setblocking(False)
            assert sock.connect_ex(served.address) in (0, errno.EINPROGRESS)
        served.run_until(lambda: served.shell.statistics().connections == 300)
        for sock in crowd:
            sock.close()
        served.run_until(lambda: served.shell.statistics().connections == 0)

    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.EPERM])
    def test_when_the_system_refuses_newcomers_the_others_go_on(self, serve: Serve, number: int) -> None:
        served = serve()
        client = served.connect()
        real = served.shell._listening[0]

        class Refusing:
            failures = 3

            def fileno(self) -> int:
                return real.fileno()

            def accept(self) -> tuple[socket.socket, object]:
                if Refusing.failures:
                    Refusing.failures -= 1
                    raise OSError(number, "refused")
                return real.accept()

            def close(self) -> None:
                real.close()

        served.loop.remove_reader(real)
        refusing = Refusing()
        served.shell._listening[0] = refusing  # type: ignore[call-overload]
        served.shell._accept_again(refusing, "PLAINTEXT")  # type: ignore[arg-type]
        newcomer = served.connect()
        client.call("ApiVersions", 0)
        newcomer.call("ApiVersions", 0)
        assert len(served.events("cannot accept")) == 3

    def test_one_that_went_away_in_the_backlog_does_not_keep_others_out(self, serve: Serve) -> None:
        served = serve()
        gone = socket.create_connection(served.address)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        gone.close()
        served.connect().call("ApiVersions", 0)


def pass_minutes(served: ServedNode, minutes: int) -> None:
    """So long nothing has come or gone, and the node has looked for silent ones."""
    for connection in served.shell._connections:
        connection.last_progress_us -= minutes * 60_000_000
    served.loop.run_until_complete(asyncio.sleep(0.05))


class TestLettingGo:
    def test_the_silent_are_closed(self, serve: Serve) -> None:
        served = serve(connections_max_idle_ms="600000")
        silent = served.connect()
        silent.call("ApiVersions", 0)
        pass_minutes(served, 9)
        silent.call("ApiVersions", 0)
        pass_minutes(served, 11)
        silent.wait_end()
        assert served.shell.statistics().connections_idled == 1

    def test_but_not_those_that_wait_for_us(self, serve: Serve) -> None:
        served = serve(connections_max_idle_ms="600000")
        served.create("t")
        reader, writer = served.connect(), served.connect()
        reader.ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
        served.run_until(lambda: served.handled("Fetch") == 1)
        pass_minutes(served, 11)
        writer.wait_end()
        served.connect().call("Produce", 9, **produce_body("t", b"value"))
        (fetched,) = reader.wait_answers(1)
        assert records(fetched) != b""

    def test_nor_those_that_are_busy_reading(self, serve: Serve) -> None:
        served = serve()
        served.create("t")
        writer = served.connect()
        for _ in range(12):
            writer.call("Produce", 9, **produce_body("t", b"x" * 1_000_000))
        writer.close()
        slow = served.connect(receive_buffer_bytes=4096)
        slow.ask("Fetch", 11, **fetch_body("t"))
        served.run_until(lambda: served.handled("Fetch") == 1 and served.shell.statistics().connections == 1)
        served.turn()
        (connection,) = served.shell._connections
        asked_us = connection.last_progress_us
        # It sends nothing more, but it takes what it asked for.
        served.run_until(lambda: slow.poll() == 0 and connection.last_progress_us > asked_us)
        slow.wait_answers(1)

    def test_nobody_where_silence_is_allowed(self, serve: Serve) -> None:
        served = serve(connections_max_idle_ms="-1")
        client = served.connect()
        pass_minutes(served, 60)
        client.call("ApiVersions", 0)


class TestSharingMemory:
    BUDGET = 8 << 20

    def serve_little(self, serve: Serve) -> ServedNode:
        served = serve(memory_budget_bytes=str(self.BUDGET), connection_memory_bytes_max=str(2 << 20))
        served.create("t")
        return served

    def test_frames_that_never_end_give_way(self, serve: Serve) -> None:
        served = self.serve_little(serve)
        greedy = [served.connect() for _ in range(12)]
        for client in greedy:
            client.call("ApiVersions", 0)
            client.send(struct.pack(">i", 50 << 20) + b"x" * (1 << 20))
        honest = served.connect()
        honest.call("Produce", 9, **produce_body("t", b"x" * 900_000))
        served.run_until(lambda: served.shell.statistics().connections_shed > 0)
        honest.call("Produce", 9, **produce_body("t", b"x" * 900_000))
        statistics = served.shell.statistics()
        assert statistics.memory_peak_bytes < self.BUDGET + (2 << 20)
        for client in greedy:
            client.close()
        served.run_until(lambda: served.shell.statistics().connections == 1)
        assert served.used_bytes == 0

    def test_answers_that_nobody_takes_give_way(self, serve: Serve) -> None:
        served = self.serve_little(serve)
        for number in range(20):
            served.create(f"a-topic-with-a-rather-long-name-{number:0100}")
        body = {"topics": None, "allow_auto_topic_creation": False}
        deaf = [served.connect(receive_buffer_bytes=4096) for _ in range(6)]
        flood = b"".join(deaf[0].request("Metadata", 4, body) for _ in range(3000))
        for client in deaf:
            client.send(flood)
        served.run_until(lambda: served.shell.statistics().connections_shed > 0)
        # A frame that does not fit the scratch buffer needs some of the budget.
        honest = served.connect()
        answer = honest.call("Produce", 9, **produce_body("t", b"x" * 900_000))
        assert answer["responses"][0]["partition_responses"][0]["error_code"] == 0

    def test_waits_that_nobody_ends_give_way(self, serve: Serve) -> None:
        served = self.serve_little(serve)
        many = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1} for n in range(6000)]
        body = {**fetch_body("t", wait_ms=2**31 - 1), "topics": [{"topic": "t", "partitions": many}]}
        waiting = [served.connect() for _ in range(4)]
        for client in waiting:
            client.ask("Fetch", 11, **body)
        served.run_until(lambda: served.shell.statistics().connections_shed > 0)
        assert served.shell.statistics().connections < 4
        honest = served.connect()
        honest.call("Produce", 9, **produce_body("t", b"x" * 900_000))

    def test_who_holds_nothing_is_served_meanwhile(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        served = self.serve_little(serve)
        served.shell.budget.claim(2 * self.BUDGET)  # By somebody who is not going to be shed.
        client = served.connect()
        for _ in range(10):
            client.call("Produce", 9, **produce_body("t", b"small"))
        large = served.connect()
        large.ask("Produce", 9, **produce_body("t", b"x" * 900_000))
        served.run_until(lambda: served.shell.statistics().memory_waiting == 1)
        client.call("ApiVersions", 0)
        large.close()
        served.shell.budget.give_back(2 * self.BUDGET)

    def test_who_waited_goes_on_when_somebody_gives_back(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shell_module, "_MEMORY_STALL_S", 60.0)  # Nobody is shed.
        served = self.serve_little(serve)
        served.shell.budget.claim(self.BUDGET)
        clients = [served.connect() for _ in range(3)]
        for client in clients:
            client.ask("Produce", 9, **produce_body("t", b"x" * 900_000))
        served.run_until(lambda: served.shell.statistics().memory_waiting == 3)
        served.shell.budget.give_back(self.BUDGET)
        for client in clients:
            client.wait_answers(1)
        assert served.shell.statistics().memory_waiting == 0
        assert served.used_bytes == 0


class TestListening:
    def test_an_address_that_is_taken_is_named(self, serve: Serve) -> None:
        served = serve()
        taken = ListenerConfig("PLAINTEXT", served.address, None)
        with pytest.raises(ConfigError, match=f"cannot listen on {served.address}: .*in use"):
            served.shell.listen([taken])

    def test_every_listener_is_told_its_own_address(self, serve: Serve) -> None:
        served = serve()
        listeners = [
            ListenerConfig("PLAINTEXT", HostPort("127.0.0.1", 0), None),
            ListenerConfig("OUTSIDE", HostPort("127.0.0.1", 0), HostPort("broker.example", 0)),
            ListenerConfig("NAT", HostPort("127.0.0.1", 0), HostPort("broker.example", 1234)),
        ]
        bound = served.shell.listen(listeners)
        endpoints = served.node.endpoints
        assert endpoints["PLAINTEXT"] == ("127.0.0.1", bound[0].port)
        assert endpoints["OUTSIDE"] == ("broker.example", bound[1].port)
        assert endpoints["NAT"] == ("broker.example", 1234)


def test_a_sync_that_closing_overtook_is_no_failure(serve: Serve) -> None:
    """The disk helper gives up what it was asked for when it ends; by then everything is on disk."""
    served = serve()
    served.create("flushed", flush_messages="1")
    served.device.is_held = True
    client = served.connect()
    client.ask("Produce", 9, **produce_body("flushed", b"value"))
    served.run_until(lambda: served.handled("Produce") == 1)
    served.shell.close()
    assert served.node.close()
    served.device.release(OSError(errno.ECANCELED, "the disk helper was stopped"))
    served.turn()
    assert served.events("log offline") == []


def test_closing_ends_what_is_under_way(serve: Serve) -> None:
    served = serve()
    served.create("t")
    clients = [served.connect() for _ in range(3)]
    clients[0].ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
    clients[1].send(struct.pack(">i", 1_000_000) + b"x" * 600_000)
    served.run_until(lambda: served.handled("Fetch") == 1 and served.used_bytes > 100_000)
    served.shell.close()
    for client in clients:
        client.wait_end()
    assert served.used_bytes == 0
    assert not served.node.topics.partition("t", 0).watchers


def test_another_node_takes_over_and_clients_stay_connected(serve: Serve, tmp_path: Path) -> None:
    served = serve()
    served.create("t")
    served.create("flushed", flush_messages="1")
    served.device.is_held = True
    idle, reader, writer = (served.connect() for _ in range(3))
    reader.ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
    writer.ask("Produce", 9, **produce_body("flushed", b"value"))
    served.run_until(lambda: served.handled("Fetch") == served.handled("Produce") == 1)
    (tmp_path / "other").mkdir()
    made: list[Node] = []

    def make_node() -> Node:
        other = Node(
            config=served.node.config,
            clock=served.node.clock,
            timers=served.timers,
            disk=Disk(str(tmp_path / "other"), helper=served.device, descriptors_max=64),
            random_bytes=os.urandom,
            events=served.told,
        )
        made.append(other)
        return other

    served.shell.go_on_with(make_node)
    assert served.shell.node is made[0]
    reader.wait_answers(1)  # Who can be answered is: there was nothing to read.
    writer.wait_end()  # Who cannot, is cut off.
    for client in (idle, reader):
        found = client.call("Metadata", 12, topics=None, allow_auto_topic_creation=False)
        assert found["topics"] == []
        assert (found["brokers"][0]["host"], found["brokers"][0]["port"]) == tuple(served.address)
    # What the one before still hears of concerns nobody.
    served.device.release()
    served.turn()
    assert served.faults == []
