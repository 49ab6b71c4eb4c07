"""Which connections are hastened, on real sockets."""

import socket
import sys

import pytest

from headrace.loopback import hasten

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux lets a socket choose its congestion control"
)


def congestion_control(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


def connected(source: str) -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), source_address=(source, 0))
        accepted, _ = server.accept()
    return client, accepted


def test_both_ends_of_one_address_are_hastened() -> None:
    client, accepted = connected("127.0.0.1")
    with client, accepted:
        for end in (client, accepted):
            hasten(end)
            assert congestion_control(end) == b"reno"


def test_ends_of_two_addresses_are_left_as_they_are() -> None:
    client, accepted = connected("127.0.0.2")
    with client, accepted:
        before = congestion_control(accepted)
        if before == b"reno":
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
            before = congestion_control(accepted)
        hasten(accepted)
        assert congestion_control(accepted) == before != b"reno"


def test_a_connection_that_is_gone_is_nothing_to_complain_of_here() -> None:
    client, accepted = connected("127.0.0.1")
    client.close()
    accepted.close()
    hasten(accepted)


def test_other_kinds_of_socket_are_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        hasten(one)
