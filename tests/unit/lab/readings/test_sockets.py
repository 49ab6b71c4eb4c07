"""Sockets as /proc/net tells of them, and real ones."""

import os
import socket

from headrace.lab.readings import process_tree, sockets
from headrace.lab.readings.brokers import local_brokers
from headrace.lab.readings.sockets import TcpSocket, Waiting, parse_tcp, waiting

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2384 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 4711 1 0 100 0 0 10 0
   1: 0100007F:2384 0100007F:D431 01 00000010:00000A00 00:00000000 00000000     0        0 4712 1 0 20 4 30 10 -1
   2: 0100007F:D431 0100007F:2384 06 00000000:00000000 03:00000AAA 00000000     0        0 0 3 0
"""


def test_connected_and_listening_sockets_are_told() -> None:
    assert list(parse_tcp(TABLE)) == [
        TcpSocket(inode=4711, local_port=9092, is_listening=True, unsent_bytes=0, unread_bytes=3),
        TcpSocket(inode=4712, local_port=9092, is_listening=False, unsent_bytes=16, unread_bytes=2560),
    ]


def test_what_waits_is_that_of_ones_own_connections() -> None:
    found = list(parse_tcp(TABLE))
    assert waiting(found, {4711, 4712}) == Waiting(16, 2560)  # Of one that listens it counts clients, not bytes.
    assert waiting(found, {4713}) == Waiting(0, 0)


def test_bytes_that_nobody_reads_are_seen() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as served,
    ):
        client.sendall(b"x" * 1000)
        assert served.recv(1, socket.MSG_PEEK)  # They have arrived.
        ours = process_tree.sockets(os.getpid())
        assert waiting(sockets.now(), ours).unread_bytes >= 1000
        assert waiting(sockets.in_namespaces_of([os.getpid(), 1]), ours).unread_bytes >= 1000


def test_who_listens_on_a_port_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert os.getpid() in sockets.listeners("127.0.0.1", port)
        assert local_brokers(f"127.0.0.1:{port}") == (os.getpid(),)
        assert local_brokers("127.0.0.1:1", metrics=[f"http://localhost:{port}/metrics"]) == (os.getpid(),)
    assert sockets.listeners("127.0.0.1", port) == []


def test_another_machine_is_not_here() -> None:
    assert sockets.is_here("localhost")
    assert not sockets.is_here("203.0.113.1")
    assert local_brokers("203.0.113.1:9092,PLAINTEXT://203.0.113.2") == ()
