"""kcat as one member of a group: `python -m tests.interop.kcat_member`, with lines in and out as for any other member.

kcat is told everything on its command line, prints records to standard output and says on standard error which
partitions come and go. It commits by itself. So there is no order that it could be given but to leave.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any, BinaryIO

from tests.clients.group_member import FETCH_WAIT_MS, REBALANCE_MS, RECONNECT_MS_MAX, say, tell_of
from tests.clients.scenario import Message
from tests.interop.clients import Kcat, kcat_program

# "... rebalanced (memberid M): assigned: t [0]", "... rebalanced: incremental revoke of 1 partition(s) (...): t [0]".
_REBALANCED = re.compile(rb"% Group .* rebalanced.* (assign|revoke)[a-z]*\b.*: (.*)")
_PARTITION = re.compile(rb"\[(\d+)\]")
_COMMIT_INTERVAL_MS = 100


def command(config: dict[str, Any]) -> list[str]:
    settings = {
        "client.id": config["name"],
        "partition.assignment.strategy": config["assignor"],
        "session.timeout.ms": config["session_ms"],
        "heartbeat.interval.ms": config["heartbeat_ms"],
        "max.poll.interval.ms": max(REBALANCE_MS, config["session_ms"]),
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": _COMMIT_INTERVAL_MS,
        "fetch.wait.max.ms": FETCH_WAIT_MS,
        "reconnect.backoff.max.ms": RECONNECT_MS_MAX,
    }
    if config["instance"] is not None:
        settings["group.instance.id"] = config["instance"]
    options = [word for name, value in settings.items() for word in ("-X", f"{name}={value}")]
    # Unbuffered, and not ending when no broker can be reached for a while.
    return [
        *(kcat_program(), "-b", config["bootstrap"], "-u", "-E", "-f", Kcat.FORMAT, *options),
        *("-G", config["group"], config["topic"]),
    ]


def tell_records(printed: BinaryIO) -> None:
    waiting = b""
    while data := os.read(printed.fileno(), 1 << 16):
        records, end = Kcat.parse(waiting + data)
        waiting = (waiting + data)[end:]
        tell_of(
            (one.partition, offset, Message(one.key, one.value, one.headers, one.timestamp_ms or 0))
            for offset, one in records
        )


def tell_ownership(said: BinaryIO) -> None:
    owned: set[int] = set()
    for line in said:
        if (rebalanced := _REBALANCED.match(line)) is None:
            sys.stderr.buffer.write(line)
            continue
        partitions = {int(number) for number in _PARTITION.findall(rebalanced[2])}
        owned = owned | partitions if rebalanced[1] == b"assign" else owned - partitions
        say(owned=sorted(owned))


def main() -> None:
    config = json.loads(sys.stdin.readline())
    with subprocess.Popen(command(config), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as kcat:
        assert kcat.stdout is not None
        assert kcat.stderr is not None
        readers = [
            threading.Thread(target=tell_records, args=(kcat.stdout,)),
            threading.Thread(target=tell_ownership, args=(kcat.stderr,)),
        ]
        for reader in readers:
            reader.start()

        def obey() -> None:
            order = json.loads(sys.stdin.readline() or '{"do": "leave"}')
            assert order["do"] == "leave", order
            kcat.send_signal(signal.SIGTERM)

        threading.Thread(target=obey, daemon=True).start()
        status = kcat.wait()
        for reader in readers:
            reader.join()
    sys.exit(status)


if __name__ == "__main__":
    main()
