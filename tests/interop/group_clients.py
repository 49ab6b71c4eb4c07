"""The clients outside Python as members of groups."""

import sys
from functools import partial

from tests.clients.group_clients import PYTHON_CLIENTS
from tests.clients.group_lives import GroupClient
from tests.interop.clients import franz_go_program, java_program, kafkajs_program, kcat_program


def _kcat_member() -> list[str]:
    kcat_program()  # Says so where it is missing.
    return [sys.executable, "-m", "tests.interop.kcat_member"]


_ALL_ASSIGNORS = ("range", "roundrobin", "sticky", "cooperative-sticky")

OTHER_CLIENTS: dict[str, GroupClient] = {
    client.name: client
    for client in (
        GroupClient("java", partial(java_program, "Member"), assignors=_ALL_ASSIGNORS, static="cooperative-sticky"),
        # A cooperative member that comes back has the group rebalance, its eager sticky assignor moves more than it
        # must, and a member whose heartbeat fails joins again: on Apache Kafka as well.
        GroupClient(
            "franz-go",
            partial(franz_go_program, "member"),
            assignors=_ALL_ASSIGNORS,
            static="sticky",
            keeping=frozenset({"cooperative-sticky"}),
            is_patient=False,
        ),
        # It has one assignor, and no static members. A connection that closes under a fetch has it forget the broker,
        # and if it makes fetchers before it has asked for metadata again there is "no broker available": it leaves the
        # group and joins again, whoever the broker is.
        GroupClient(
            "kafkajs",
            partial(kafkajs_program, "member.js"),
            assignors=("roundrobin",),
            static=None,
            gives_up="No broker available",
        ),
        # It does as its command line says, and takes no orders. A record that it has when it is told to leave, it
        # commits and does not print.
        GroupClient(
            "kcat",
            _kcat_member,
            assignors=("range", "roundrobin", "cooperative-sticky"),
            static="cooperative-sticky",
            positions=False,
            leaves_carelessly=True,
        ),
    )
}
ALL_CLIENTS = PYTHON_CLIENTS | OTHER_CLIENTS
