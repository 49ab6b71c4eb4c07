"""One connection over a real socket: order, pieces, limits, and that what it took is given back on every way out."""

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from headrace.node.apis import Client
from headrace.server.connection import PENDING_MAX, Connection
from tests.unit.server.served_node import (
    Message,
    Serve,
    ServedNode,
    WireClient,
    fetch_body,
    fill,
    is_given_back,
    produce_body,
    records,
)


class TestPieces:
    """However bytes are cut on the way, the same requests come out."""

    def frames(self, client: WireClient) -> bytes:
        return (
            client.request("ApiVersions", 0, {})
            + client.request("Produce", 9, produce_body("t", b"a" * 50))
            + client.request("Metadata", 4, {"topics": None, "allow_auto_topic_creation": False})
        )

    def check(self, served: ServedNode, client: WireClient, at: int) -> None:
        _, produced, metadata = client.wait_answers(3)
        assert produced["responses"][0]["partition_responses"][0]["base_offset"] == at
        assert [topic["name"] for topic in metadata["topics"]] == ["t"]
        served.run_until(lambda: served.used_bytes == 0)  # More may have come than was asked for here.

    def test_byte_by_byte(self, served: ServedNode) -> None:
        client = served.connect()
        for byte in self.frames(client):
            client.send(bytes([byte]))
            served.turn(2)
        self.check(served, client, at=0)

    def test_cut_anywhere(self, served: ServedNode) -> None:
        client = served.connect()
        cuts = len(self.frames(served.connect()))
        for cut in range(cuts):
            data = self.frames(client)
            client.send(data[:cut])
            served.turn(3)
            client.send(data[cut:])
            self.check(served, client, at=cut)

    def test_all_in_one(self, served: ServedNode) -> None:
        client = served.connect()
        client.send(b"".join(self.frames(client) for _ in range(20)))
        for number in range(20):
            self.check(served, client, at=number)

    def test_frames_larger_than_the_scratch_buffer(self, serve: Serve) -> None:
        served = serve(message_max_bytes="8000000")
        served.create("t")
        client = served.connect()
        client.call("ApiVersions", 0)
        value = bytes(range(256)) * 12_000
        client.ask("Produce", 9, **produce_body("t", value))
        client.ask("ApiVersions", 0)
        produced, _ = client.wait_answers(2)
        assert produced["responses"][0]["partition_responses"][0]["error_code"] == 0
        assert value in records(client.call("Fetch", 11, **fetch_body("t")))
        assert served.used_bytes == 0


class TestOrder:
    def test_answers_come_in_the_order_of_the_requests(self, served: ServedNode) -> None:
        """Among requests that wait for data, for the disk, or for nothing at all."""
        served.create("flushed", flush_messages="1")
        client = served.connect()
        sent = 0
        for number in range(100):
            client.ask("Produce", 9, **produce_body("flushed", b"%d" % number))
            client.ask("Fetch", 11, **fetch_body("t", wait_ms=20))
            client.ask("ApiVersions", 0)
            client.ask("Produce", 9, **produce_body("flushed", b"nobody answers", acks=0))
            client._sent_ids.pop()
            sent += 3
        client.wait_answers(sent)
        assert served.used_bytes == 0

    def test_an_answer_waits_for_those_before_it(self, served: ServedNode) -> None:
        client, writer = served.connect(), served.connect()
        client.ask("Fetch", 11, **fetch_body("t", wait_ms=60_000))
        client.ask("ApiVersions", 0)
        served.run_until(lambda: served.handled("ApiVersions") == 1)
        served.turn()
        assert client.poll() == 0
        writer.call("Produce", 9, **produce_body("t", b"here"))
        fetched, _ = client.wait_answers(2)
        assert b"here" in records(fetched)

    def test_a_slow_first_does_not_change_the_order_of_the_rest(self, served: ServedNode) -> None:
        """The second of three waits is over first."""
        served.create("u")
        client, writer = served.connect(), served.connect()
        client.ask("Fetch", 11, **fetch_body("t", wait_ms=60_000))
        client.ask("Fetch", 11, **fetch_body("u", wait_ms=60_000))
        client.ask("Fetch", 11, **fetch_body("t", wait_ms=60_000))
        writer.call("Produce", 9, **produce_body("u", b"second"))
        served.turn()
        assert client.poll() == 0
        writer.call("Produce", 9, **produce_body("t", b"first and third"))
        assert [b"second" in records(answer) for answer in client.wait_answers(3)] == [False, True, False]


class TestLimits:
    def test_a_client_with_much_in_flight_is_not_read(self, served: ServedNode) -> None:
        client, writer = served.connect(), served.connect()
        count = 3 * PENDING_MAX
        for _ in range(count):
            client.ask("Fetch", 11, **fetch_body("t", wait_ms=60_000))
        served.run_until(lambda: served.handled("Fetch") >= PENDING_MAX)
        served.turn(100)
        assert served.handled("Fetch") == PENDING_MAX
        writer.call("Produce", 9, **produce_body("t", b"here"))
        for answer in client.wait_answers(count):
            assert b"here" in records(answer)
        assert served.used_bytes == 0

    def test_one_clients_flood_does_not_hold_up_another(self, served: ServedNode) -> None:
        flood, other = served.connect(), served.connect()
        count = 8000
        body: Message = {"topics": None, "allow_auto_topic_creation": False}
        flood.send(b"".join(flood.request("Metadata", 4, body) for _ in range(count)))
        other.call("ApiVersions", 0)
        assert served.handled("Metadata") < count
        served.run_until(lambda: flood.poll() == count)
        assert served.used_bytes == 0

    def test_answers_that_nobody_takes_stop_the_reading(self, serve: Serve) -> None:
        """A flood of requests with large answers, of which the client reads none."""
        served = serve(connection_memory_bytes_max=str(1 << 20))
        for number in range(20):
            served.create(f"a-topic-with-a-rather-long-name-{number:0100}")
        deaf = served.connect(receive_buffer_bytes=4096)
        body: Message = {"topics": None, "allow_auto_topic_creation": False}
        count = 4000
        deaf.send(b"".join(deaf.request("Metadata", 4, body) for _ in range(count)))
        served.run_until(lambda: served.used_bytes > 1 << 20)
        served.turn(300)
        assert served.handled("Metadata") < count / 2
        assert served.used_bytes < 3 << 20
        served.run_until(lambda: deaf.poll() == count)
        assert served.used_bytes == 0

    def test_what_a_parked_request_holds_is_counted(self, serve: Serve) -> None:
        """A fetch of thousands of partitions takes megabytes for as long as it waits."""
        served = serve()
        served.create("t")
        client = served.connect()
        client.call("ApiVersions", 0)
        many = [{"partition": n, "fetch_offset": 0, "partition_max_bytes": 1} for n in range(20_000)]
        body = {**fetch_body("t", wait_ms=60_000), "topics": [{"topic": "t", "partitions": many}]}
        client.ask("Fetch", 11, **body)
        served.run_until(lambda: served.handled("Fetch") == 1)
        assert served.used_bytes > 20_000 * 300
        client.close()
        served.run_until(lambda: is_given_back(served))

    def test_a_stranger_may_send_little(self, serve: Serve) -> None:
        served = serve(connection_first_frame_bytes_max="2000")
        stranger, known = served.connect(), served.connect()
        stranger.send(struct.pack(">i", 2001))
        stranger.wait_end()
        known.call("ApiVersions", 0)
        known.send(struct.pack(">i", 2001) + b"\0")
        served.turn(50)
        assert not known.is_ended

    @pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
    def test_a_frame_of_an_impossible_size_ends_it(self, served: ServedNode, size: int) -> None:
        client = served.connect()
        client.ask("ApiVersions", 0)
        client.send(struct.pack(">i", size))
        client.wait_answers(1)  # What came before is answered.
        client.wait_end()
        assert len(served.events("connection refused further service")) == 1
        served.run_until(lambda: is_given_back(served))


class TestHalfClosed:
    """A peer that says it will send no more may still read."""

    def test_what_it_asked_for_is_answered(self, served: ServedNode) -> None:
        data = fill(served, 2_000_000)
        client = served.connect(receive_buffer_bytes=4096)
        client.ask("Fetch", 11, **fetch_body("t"))
        client.ask("ApiVersions", 0)
        client.socket.shutdown(socket.SHUT_WR)
        fetched, _ = client.wait_answers(2)
        assert records(fetched) == data
        client.wait_end()
        served.run_until(lambda: is_given_back(served))

    def test_the_end_is_noticed_once(self, served: ServedNode, monkeypatch: pytest.MonkeyPatch) -> None:
        """A socket at its end is readable for ever: a loop that goes on asking would do nothing else."""
        ends: list[Connection] = []
        on_end = Connection._on_end

        def counted(connection: Connection) -> None:
            ends.append(connection)
            on_end(connection)

        monkeypatch.setattr(Connection, "_on_end", counted)
        fill(served, 5_000_000)
        ends.clear()
        client = served.connect(receive_buffer_bytes=4096)
        client.ask("Fetch", 11, **fetch_body("t"))
        client.socket.shutdown(socket.SHUT_WR)
        served.run_until(lambda: bool(ends))
        served.turn(100)
        assert len(ends) == 1
        assert served.shell.statistics().connections == 1

    def test_a_flush_is_waited_for(self, served: ServedNode) -> None:
        served.create("flushed", flush_messages="1")
        served.device.is_held = True
        client = served.connect()
        client.ask("Produce", 9, **produce_body("flushed", b"value"))
        client.socket.shutdown(socket.SHUT_WR)
        served.run_until(lambda: served.handled("Produce") == 1)
        served.turn()
        assert client.poll() == 0
        served.device.release()
        (produced,) = client.wait_answers(1)
        assert produced["responses"][0]["partition_responses"][0]["error_code"] == 0
        client.wait_end()

    def test_data_is_not(self, served: ServedNode) -> None:
        client = served.connect()
        client.ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
        client.ask("ApiVersions", 0)
        client.socket.shutdown(socket.SHUT_WR)
        fetched, _ = client.wait_answers(2)
        assert records(fetched) == b""
        client.wait_end()
        served.run_until(lambda: is_given_back(served))

    def test_half_a_frame_is_nothing(self, served: ServedNode) -> None:
        client = served.connect()
        client.send(client.request("ApiVersions", 0, {})[:-1])
        client.socket.shutdown(socket.SHUT_WR)
        client.wait_end()
        assert client.poll() == 0
        served.run_until(lambda: is_given_back(served))


def abort(client: WireClient) -> None:
    """Go away with a reset, so that nothing more can be sent."""
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.parametrize("leave", [WireClient.close, abort], ids=["closing", "reset"])
class TestGone:
    """A client that goes away at any moment leaves nothing behind."""

    def test_in_the_middle_of_a_length(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        client = served.connect()
        client.send(b"\0\0")
        served.turn()
        leave(client)
        served.run_until(lambda: is_given_back(served))

    def test_in_the_middle_of_a_frame(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        client = served.connect()
        client.send(struct.pack(">i", 1_500_000) + b"x" * 700_000)
        served.run_until(lambda: client.has_sent_all and served.used_bytes > 500_000)
        leave(client)
        served.run_until(lambda: is_given_back(served))

    def test_with_an_answer_half_sent(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        fill(served, 5_000_000)
        client = served.connect(receive_buffer_bytes=4096)
        client.ask("Fetch", 11, **fetch_body("t"))
        client.ask("ApiVersions", 0)
        served.run_until(lambda: served.handled("ApiVersions") == 1)
        leave(client)
        served.run_until(lambda: is_given_back(served))

    def test_with_a_fetch_that_waits(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        client = served.connect()
        client.ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
        partition = served.node.topics.partition("t", 0)
        served.run_until(lambda: len(partition.watchers) == 1)
        leave(client)
        served.run_until(lambda: is_given_back(served))
        assert not partition.watchers

    def test_with_a_flush_under_way(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        served.create("flushed", flush_messages="1")
        served.device.is_held = True
        client = served.connect()
        client.ask("Produce", 9, **produce_body("flushed", b"value"))
        served.run_until(lambda: served.handled("Produce") == 1)
        leave(client)
        served.turn()
        served.device.release()
        served.run_until(lambda: is_given_back(served))

    def test_while_its_answer_is_being_warmed(self, served: ServedNode, leave: Callable[[WireClient], None]) -> None:
        fill(served, 1_000_000)
        served.disk.is_cold = True
        served.device.is_held = True
        client = served.connect()
        client.ask("Fetch", 11, **fetch_body("t"))
        served.run_until(lambda: served.device.warms == 1)
        leave(client)
        served.turn()
        served.device.release()
        served.run_until(lambda: is_given_back(served))

    def test_with_frames_that_wait_for_their_turn(
        self, served: ServedNode, leave: Callable[[WireClient], None]
    ) -> None:
        client = served.connect()
        for _ in range(3 * PENDING_MAX):
            client.ask("Fetch", 11, **fetch_body("t", wait_ms=2**31 - 1))
        served.run_until(lambda: served.handled("Fetch") == PENDING_MAX)
        leave(client)
        # Nobody reads it, so nobody notices until something is to be sent.
        served.turn()
        served.connect().call("Produce", 9, **produce_body("t", b"here"))
        served.run_until(lambda: served.shell.statistics().connections == 1)
        assert served.used_bytes == 0


class TestFaults:
    """What goes wrong on one connection costs that connection; a broken assertion is everybody's."""

    def break_handler(self, served: ServedNode, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
        handle = served.node.take

        def broken(frame: memoryview, client: Client) -> Any:
            if b"broken" in bytes(frame):
                raise error
            return handle(frame, client)

        monkeypatch.setattr(served.node, "take", broken)

    def test_an_unexpected_error(self, served: ServedNode, monkeypatch: pytest.MonkeyPatch) -> None:
        self.break_handler(served, monkeypatch, KeyError("unexpected"))
        unlucky, other = served.connect(), served.connect()
        unlucky.ask("ApiVersions", 0)
        unlucky.ask("Metadata", 4, topics=[{"name": "broken"}], allow_auto_topic_creation=False)
        unlucky.wait_end()
        other.call("ApiVersions", 0)
        (event,) = served.events("connection failed")
        assert "broken" in str(event["trace"])  # It names the function.
        served.run_until(lambda: served.shell.statistics().connections == 1)
        assert served.used_bytes == 0

    def test_a_broken_assertion(self, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
        served = serve()
        self.break_handler(served, monkeypatch, AssertionError("never"))
        client = served.connect()
        client.ask("Metadata", 4, topics=[{"name": "broken"}], allow_auto_topic_creation=False)
        served.run_until(lambda: bool(served.faults))
        assert [str(fault) for fault in served.faults] == ["never"]
        served.faults.clear()

    def test_a_file_that_is_gone(self, served: ServedNode) -> None:
        """The records of an answer were deleted before it was sent."""
        fill(served, 3_000_000)
        slow, other = served.connect(receive_buffer_bytes=4096), served.connect()
        slow.ask("Fetch", 11, **fetch_body("t"))
        served.run_until(lambda: served.handled("Fetch") == 2)
        served.turn()
        assert other.call("DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)["responses"][0]["error_code"] == 0
        slow.wait_end()
        assert len(served.events("answer not sent")) == 1
        other.call("ApiVersions", 0)
        served.run_until(lambda: served.shell.statistics().connections == 1)
        assert served.used_bytes == 0

    def test_readers_woken_in_one_turn_do_not_share_one_bad_luck(
        self, served: ServedNode, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        readers = [served.connect() for _ in range(5)]
        for reader in readers:
            reader.ask("Fetch", 11, **fetch_body("t", wait_ms=60_000))
        served.run_until(lambda: served.handled("Fetch") == 5)
        abort(readers[2])
        served.connect().call("Produce", 9, **produce_body("t", b"here"))
        for number in (0, 1, 3, 4):
            (answer,) = readers[number].wait_answers(1)
            assert b"here" in records(answer)

    def test_an_unacknowledged_write_that_failed(self, served: ServedNode) -> None:
        client = served.connect()
        client.ask("Produce", 9, **produce_body("nowhere", b"value", acks=0))
        client.wait_end()
