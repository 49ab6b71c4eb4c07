"""One connection against brokers that do as told, well and badly. Real sockets on loopback, nobody sleeps."""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headrace.errors import ApiError, ErrorCode, HeadraceError, ProtocolError
from headrace.protocol.frames import frame
from headrace.protocol.messages import api_versions, delete_groups, list_groups, metadata, produce
from headrace.wire.connection import Connection
from headrace.wire.errors import AuthenticationRefused, ConnectionClosed, ConnectionLost, Unreachable
from headrace.wire.settings import Address, ClientSettings, Mechanism, SaslSettings
from tests.unit.wire.scripted import EVERYTHING, TIMEOUT_S, Peer, Script, ScriptedBroker

GROUPS = list_groups.API


@contextmanager
def connected(*scripts: Script, **settings: object) -> Iterator[Connection]:
    with ScriptedBroker(*scripts) as broker, Connection(broker.address, broker.settings(**settings)) as connection:
        yield connection


def groups_of(connection: Connection) -> list[str]:
    return [one["group_id"] for one in connection.call(GROUPS, {})["groups"]]


def named(*names: str) -> dict[str, object]:
    return {"groups": [{"group_id": name} for name in names]}


def answers_once(peer: Peer) -> None:
    peer.greet()
    peer.answer(peer.read(), named("one"))
    peer.wait_closed()


# --- Going well -----------------------------------------------------------------------------------------------


def test_a_question_and_its_answer() -> None:
    with connected(answers_once, request_timeout_s=3600.0) as connection:
        assert groups_of(connection) == ["one"]
        assert connection.usable  # To find out takes no time.


def test_the_highest_version_that_both_know() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.greet({**EVERYTHING, GROUPS.key: (0, 3)})
        request = peer.read()
        seen.append((request.version, request.client_id))
        peer.answer(request, {})

    with connected(script, client_id="me") as connection:
        connection.call(GROUPS, {})
    assert seen == [(3, "me")]


def test_a_version_of_ones_own_choice() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        seen.append(request.version)
        peer.answer(request, {})

    with connected(script) as connection:
        connection.call(GROUPS, {}, version=1)
    assert seen == [1]


def test_a_broker_that_knows_only_older_api_versions() -> None:
    def script(peer: Peer) -> None:
        request = peer.read()
        ranges = [{"api_key": 18, "min_version": 0, "max_version": 1}]
        refusal = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": ranges}
        peer.socket.sendall(peer.encoded(request, refusal, version=0))
        request = peer.read()
        assert request.version == 1
        keys = [{"api_key": GROUPS.key, "min_version": 0, "max_version": 0}]
        peer.answer(request, {"api_keys": keys})
        peer.answer(peer.read(), named("old"))

    with connected(script) as connection:
        assert groups_of(connection) == ["old"]


def test_an_api_that_the_broker_does_not_have_costs_only_that_request() -> None:
    def script(peer: Peer) -> None:
        peer.greet({GROUPS.key: (0, 3), delete_groups.API.key: (90, 99)})
        peer.answer(peer.read(), named("one"))

    with connected(script) as connection:
        with pytest.raises(ApiError, match="no version of Metadata") as refused:
            connection.call(metadata.API, {})
        assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
        with pytest.raises(ApiError, match=r"versions 90 to 99 of DeleteGroups, this client 0 to 2"):
            connection.call(delete_groups.API, {})
        assert groups_of(connection) == ["one"]


def test_many_under_way_and_received_in_any_order() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        requests = [peer.read() for _ in range(3)]
        for number, request in enumerate(requests):
            peer.answer(request, named(str(number)))
        peer.wait_closed()

    with connected(script) as connection:
        tickets = [connection.send(GROUPS, {}) for _ in range(3)]
        assert connection.in_flight == 3
        received = {number: connection.receive(tickets[number])["groups"][0]["group_id"] for number in (1, 2, 0)}
        assert received == {0: "0", 1: "1", 2: "2"}
        assert connection.in_flight == 0


def test_whether_an_answer_has_begun_is_known_without_waiting_for_it() -> None:
    go_on = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        assert go_on.wait(TIMEOUT_S)
        peer.answer(request, named("one"))
        peer.wait_closed()

    with connected(script) as connection:
        ticket = connection.send(GROUPS, {})
        assert not connection.is_answering()
        go_on.set()
        assert select.select([connection], [], [], TIMEOUT_S)[0] == [connection]
        assert connection.is_answering()
        assert connection.receive(ticket)["groups"][0]["group_id"] == "one"
        assert not connection.is_answering()
    assert connection.is_answering()  # That it is over, which `receive` would tell.
    with pytest.raises(ConnectionClosed):
        connection.fileno()


def test_an_answer_that_comes_byte_by_byte() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        for byte in peer.encoded(peer.read(), named("slow")):
            peer.socket.sendall(bytes([byte]))
        peer.wait_closed()

    with connected(script) as connection:
        assert groups_of(connection) == ["slow"]


def test_a_frame_is_received_into_a_buffer_of_the_callers() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        for _ in range(2):
            peer.answer(peer.read(), named("one"))
        peer.wait_closed()

    with connected(script) as connection:
        asked = []

        def give(size: int) -> bytearray:
            asked.append(size)
            return large

        large = bytearray(1000)
        for is_given in (True, False):
            ticket = connection.send(GROUPS, {})
            view, position = connection.receive_frame(ticket, **({"buffer_for": give} if is_given else {}))
            assert (view.obj is large) is is_given
            assert asked == [len(view)]
            assert GROUPS.response.decode(view, ticket.version, position)["groups"][0]["group_id"] == "one"


def test_parts_larger_than_what_the_kernel_takes_at_once() -> None:
    parts = [bytes([number]) * (1 << 16) for number in range(100)]
    received = []

    def script(peer: Peer) -> None:
        peer.greet()
        size = int.from_bytes(peer._exactly(4), "big")
        received.append(peer._exactly(size))

    with connected(script) as connection:
        connection.send_encoded(produce.API, parts, version=9, answered=False)
        assert connection.in_flight == 0
    assert received[0].endswith(b"".join(parts))


# --- Going badly ----------------------------------------------------------------------------------------------


def refuses(script: Script, error: type[HeadraceError], match: str, **settings: object) -> None:
    """The error, and the same one again from then on."""
    with connected(script, **settings) as connection:
        for _ in range(2):
            with pytest.raises(error, match=match):
                connection.call(GROUPS, {})
            assert not connection.usable


def test_nobody_listens() -> None:
    with ScriptedBroker(answers_once) as broker:
        address = broker.address
    with (
        Connection(address, ClientSettings(bootstrap=(address,))) as connection,
        pytest.raises(Unreachable, match=f"cannot reach {address}: connection refused"),
    ):
        connection.open()


def test_a_host_that_does_not_exist() -> None:
    address = Address("does-not-exist.invalid", 9092)
    with (
        Connection(address, ClientSettings(bootstrap=(address,))) as connection,
        pytest.raises(Unreachable, match=r"cannot find does-not-exist\.invalid"),
    ):
        connection.open()


def test_no_answer_in_time() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.wait_closed()

    refuses(script, ConnectionLost, "did not answer ListGroups in time", request_timeout_s=0.05)


def test_an_answer_that_stops_half_way() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.socket.sendall(peer.encoded(peer.read(), named("one"))[:-1])
        peer.wait_closed()

    refuses(script, ConnectionLost, "did not answer ListGroups in time", request_timeout_s=0.05)


def test_a_broker_that_never_greets() -> None:
    refuses(Peer.wait_closed, ConnectionLost, "did not answer ApiVersions in time", connect_timeout_s=0.3)


def test_a_broker_that_hangs_up() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.read()

    refuses(script, ConnectionLost, r"closed the connection instead of answering ListGroups: is security\.protocol")


def test_an_answer_to_another_question() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        peer.answer(request._replace(correlation_id=request.correlation_id + 7), {})
        peer.wait_closed()

    refuses(script, ProtocolError, r"answered request \d+ where \d+ was due")


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", r"speaks TLS: security\.protocol should be SSL"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "speaks HTTP"),
        (b"\x7f\xff\xff\xff", "2147483647 bytes, outside 4..1000000"),
        (b"\xff\xff\xff\xff", "-1 bytes"),
        (b"\x00\x00\x00\x03abc", "3 bytes"),
    ],
)
def test_what_is_not_kafka(raw: bytes, match: str) -> None:
    def script(peer: Peer) -> None:
        peer.read()
        peer.socket.sendall(raw)
        peer.wait_closed()

    refuses(script, ProtocolError, match, answer_bytes_max=1_000_000)


def test_a_broker_that_does_not_say_what_it_speaks() -> None:
    def script(peer: Peer) -> None:
        peer.answer(peer.read(), {"error_code": ErrorCode.UNKNOWN_SERVER_ERROR})
        peer.wait_closed()

    refuses(script, HeadraceError, "does not say what it speaks: error -1")


def test_a_body_that_makes_no_sense() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        request = peer.read()
        peer.socket.sendall(frame([request.correlation_id.to_bytes(4, "big"), b"\0"]))
        peer.wait_closed()

    with connected(script) as connection, pytest.raises(ProtocolError, match="ListGroups response"):
        connection.call(GROUPS, {})


# --- Closing --------------------------------------------------------------------------------------------------


def test_closing_wakes_whoever_waits() -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.read()
        asked.set()
        peer.wait_closed()

    with connected(script) as connection:
        outcomes: list[BaseException] = []

        def wait() -> None:
            try:
                connection.call(GROUPS, {})
            except BaseException as error:
                outcomes.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        assert asked.wait(TIMEOUT_S)
        connection.close()
        waiter.join(TIMEOUT_S)
        assert [type(outcome) for outcome in outcomes] == [ConnectionClosed]
        with pytest.raises(ConnectionClosed):
            connection.call(GROUPS, {})


def test_closing_twice_and_before_opening() -> None:
    with ScriptedBroker(answers_once) as broker:
        connection = Connection(broker.address, broker.settings())
        connection.close()
        connection.close()
        with pytest.raises(ConnectionClosed):
            connection.open()
        assert broker.connections == 0


def test_closing_while_its_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """When there is no socket yet whose end would wake anybody."""
    look_up = socket.getaddrinfo
    with ScriptedBroker(answers_once) as broker:
        connection = Connection(broker.address, broker.settings())

        def closed_meanwhile(*arguments: Any, **named: Any) -> Any:
            connection.close()
            return look_up(*arguments, **named)

        monkeypatch.setattr(socket, "getaddrinfo", closed_meanwhile)
        with pytest.raises(ConnectionClosed):
            connection.open()
        assert broker.connections == 0


def ask_for_ever(connection: Connection) -> None:
    while True:
        connection.call(GROUPS, {})


def test_closing_at_any_moment_of_opening_and_asking() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        while True:
            peer.answer(peer.read(), named("one"))

    with ScriptedBroker(script) as broker:
        for number in range(60):
            connection = Connection(broker.address, broker.settings())
            closer = threading.Timer(number * 0.00005, connection.close)
            closer.start()
            with pytest.raises(ConnectionClosed):
                ask_for_ever(connection)
            closer.join()
            assert connection._socket is None


def test_a_connection_that_the_broker_closed_meanwhile_is_known_to_be_of_no_use() -> None:
    closed = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.answer(peer.read(), {})
        peer.socket.close()
        closed.set()

    with connected(script) as connection:
        connection.call(GROUPS, {})
        assert closed.wait(TIMEOUT_S)
        assert not connection.usable


# --- Saying who we are ----------------------------------------------------------------------------------------

SASL = SaslSettings(mechanism=Mechanism.PLAIN, username="al", password="secret")


def authenticates(peer: Peer, *, lifetime_ms: int = 0, error: ErrorCode = ErrorCode.NONE) -> None:
    handshake = peer.read()
    assert (handshake.api.name, handshake.version, handshake.body) == ("SaslHandshake", 1, {"mechanism": "PLAIN"})
    peer.answer(handshake, {"mechanisms": ["PLAIN"]})
    request = peer.read()
    assert request.body == {"auth_bytes": b"\0al\0secret"}
    why = "wrong" if error else None
    peer.answer(request, {"error_code": error, "error_message": why, "session_lifetime_ms": lifetime_ms})


def test_a_login() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        authenticates(peer)
        peer.answer(peer.read(), named("one"))

    with connected(script, sasl=SASL) as connection:
        assert groups_of(connection) == ["one"]


def test_a_login_that_is_refused() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        authenticates(peer, error=ErrorCode.SASL_AUTHENTICATION_FAILED)

    refuses(script, AuthenticationRefused, "refused user 'al' by PLAIN: wrong", sasl=SASL)


def test_a_login_is_renewed_before_it_ends_and_answers_that_come_between_are_kept() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        authenticates(peer, lifetime_ms=1)  # Over by the time of the next request.
        first = peer.read()
        if first.api is not GROUPS:
            raise AssertionError(first)
        peer.answer(first, named("first"))
        authenticates(peer)
        peer.answer(peer.read(), named("second"))

    with connected(script, sasl=SASL) as connection:
        connection.open()
        connection._renewal_s = None  # The first request goes out before the end of the session.
        first = connection.send(GROUPS, {})
        connection._renewal_s = 0.0  # The second one after it.
        second = connection.send(GROUPS, {})
        assert connection.receive(first)["groups"][0]["group_id"] == "first"
        assert connection.receive(second)["groups"][0]["group_id"] == "second"


def test_api_versions_can_be_asked_again() -> None:
    def script(peer: Peer) -> None:
        peer.greet()
        peer.greet()

    with connected(script) as connection:
        assert connection.call(api_versions.API, {})["api_keys"]
