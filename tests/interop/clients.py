"""The clients outside Python, each behind the same few calls.

Three of them are small programs that read a scenario and print what they saw (`drivers/README.md`), built once
and kept in the cache. kcat is driven through its command line.
"""

import contextlib
import itertools
import json
import re
import subprocess
import threading
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from tests.interop.records import Record, Scenario, hashes, without_timestamps
from tests.oracle.kafka import java_command
from tests.oracle.toolbox import ToolMissing, cached_build, require_tool, run_checked

Step = dict[str, Any]
Report = dict[str, Any]

_DRIVERS = Path(__file__).with_name("drivers")
_RUN_TIMEOUT_S = 120


class Client(Protocol):
    name: str
    stamps: bool  # Whether it can set timestamps.
    administers: bool

    def prepare(self) -> None:
        """Build what is needed once; `ToolMissing` where this machine lacks a tool for it."""
        ...

    def able(self, records: Sequence[Record]) -> list[Record]:
        """The records as far as this client can say them."""
        ...

    def produce(self, bootstrap: str, topics: dict[str, Scenario]) -> None: ...

    def produce_slowly(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, pause_ms: int, begun: Callable[[], None]
    ) -> None:
        """Send one by one; call `begun` when the first was taken. All must have been taken at the end."""
        ...

    def consume(self, bootstrap: str, topics: Sequence[str], *, timestamps: bool) -> list[Report]: ...

    def consume_from(self, bootstrap: str, topic: str, *, partition: int, offset: int) -> Report: ...

    def offsets(self, bootstrap: str, topic: str, *, partition: int, timestamps_ms: Sequence[int]) -> Report: ...

    def offset_after_the_last(self, *, end: int) -> int:
        """What it answers when asked for a time after every record."""
        ...

    def administer(self, bootstrap: str, steps: Sequence[Step]) -> list[Report]: ...


class Driven:
    """A client with a driver program."""

    administers = True
    stamps = True

    def __init__(
        self, name: str, build: Callable[[], list[str]], *, finds_end: bool = False, null_headers: bool = True
    ) -> None:
        self.name = name
        self._build = build
        self._finds_end = finds_end
        self._null_headers = null_headers

    @cached_property
    def _command(self) -> list[str]:
        return self._build()

    def prepare(self) -> None:
        self._command  # noqa: B018  # Built on first use.

    def able(self, records: Sequence[Record]) -> list[Record]:
        return [
            record for record in records if self._null_headers or all(value is not None for _, value in record.headers)
        ]

    def produce(self, bootstrap: str, topics: dict[str, Scenario]) -> None:
        steps = [_produce_step(topic, scenario) for topic, scenario in topics.items()]
        for report, scenario in zip(self.administer(bootstrap, steps), topics.values(), strict=True):
            assert report == {"produced": len(scenario.records)}

    def produce_slowly(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, pause_ms: int, begun: Callable[[], None]
    ) -> None:
        step = _produce_step(topic, Scenario(records=records)) | {"pause_ms": pause_ms}
        with subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(_document(bootstrap, [step]))
            process.stdin.close()
            process.stdin = None
            first = process.stdout.readline()
            begun()
            rest, errors = process.communicate(timeout=_RUN_TIMEOUT_S)
        assert process.returncode == 0, errors.decode(errors="replace")[-3000:]
        assert json.loads(first) == {"first": True}
        assert json.loads(rest) == {"produced": len(records)}

    def consume(self, bootstrap: str, topics: Sequence[str], *, timestamps: bool) -> list[Report]:
        steps = [{"do": "consume", "topic": topic, "timestamps": timestamps} for topic in topics]
        return self.administer(bootstrap, steps)

    def consume_from(self, bootstrap: str, topic: str, *, partition: int, offset: int) -> Report:
        step = {"do": "consume", "topic": topic, "timestamps": True, "from": {str(partition): offset}}
        report: Report = self.administer(bootstrap, [step])[0][str(partition)]
        return report

    def offsets(self, bootstrap: str, topic: str, *, partition: int, timestamps_ms: Sequence[int]) -> Report:
        step = {"do": "offsets", "topic": topic, "partition": partition, "timestamps": list(timestamps_ms)}
        return self.administer(bootstrap, [step])[0]

    def offset_after_the_last(self, *, end: int) -> int:
        return end if self._finds_end else -1

    def administer(self, bootstrap: str, steps: Sequence[Step]) -> list[Report]:
        printed = run_checked(self._command, stdin=_document(bootstrap, steps), timeout_s=_RUN_TIMEOUT_S)
        return [json.loads(line) for line in printed.splitlines()]


def _produce_step(topic: str, scenario: Scenario) -> Step:
    return {
        "do": "produce",
        "topic": topic,
        "codec": scenario.codec,
        "acks": scenario.acks,
        "records": [record.to_json() for record in scenario.records],
    }


def _document(bootstrap: str, steps: Sequence[Step]) -> bytes:
    return json.dumps({"bootstrap": bootstrap, "steps": list(steps)}).encode()


def java_program(main_class: str) -> list[str]:
    sources = sorted((_DRIVERS / "java").glob("*.java"))
    class_path = java_command()[-1]

    def build(into: Path) -> None:
        compiler = require_tool("javac", hint="the Debian package is default-jdk-headless")
        run_checked([compiler, "-Xlint:all", "-Werror", "-d", into, "-cp", class_path, *sources], timeout_s=120)

    return [*java_command(class_path=[cached_build("java-driver", sources, build)]), main_class]


def kafkajs_program(script: str) -> list[str]:
    node = require_tool("node", hint="the Debian package is nodejs")
    sources = sorted(path for path in (_DRIVERS / "javascript").iterdir() if path.suffix in (".js", ".json"))

    def build(into: Path) -> None:
        npm = require_tool("npm", hint="the Debian package is npm")
        for source in sources:
            (into / source.name).write_bytes(source.read_bytes())
        run_checked([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=into, timeout_s=300)

    return [node, str(cached_build("kafkajs-driver", sources, build) / script)]


def franz_go_program(*arguments: str) -> list[str]:
    sources = sorted(path for path in (_DRIVERS / "go").iterdir() if path.suffix in (".go", ".mod", ".sum"))

    def build(into: Path) -> None:
        go = require_tool("go", hint="the Debian package is golang-go")
        for source in sources:
            (into / source.name).write_bytes(source.read_bytes())
        run_checked([go, "build", "-trimpath", "-o", "driver", "."], cwd=into, timeout_s=300)

    return [str(cached_build("franz-go-driver", sources, build) / "driver"), *arguments]


def kcat_program() -> str:
    return require_tool("kcat", hint="the Debian package is kcat")


class Kcat:
    """kcat sends lines and prints lines; lengths in its output format make that safe for any bytes."""

    name = "kcat"
    stamps = False
    administers = False

    _MESSAGE_END, _KEY_END = "<|end|>", "<|key|>"
    FORMAT = "%p %o %T %K %S %h\\n%k%s\\n"
    _LINE = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+) (-?\d+) (.*)\n")

    @cached_property
    def _command(self) -> str:
        return kcat_program()

    def prepare(self) -> None:
        self._command  # noqa: B018  # Found on first use.

    def able(self, records: Sequence[Record]) -> list[Record]:
        """No timestamps, no null header values, and nothing whose line would be empty.

        One flag makes empty keys and values null, so an empty key beside a null value cannot be said either.
        """
        return [
            record
            for record in without_timestamps(records)
            if not (record.value is None and record.key == b"")
            and not (record.key is None and not record.value)
            and not any(value is None or not value.isascii() for _, value in record.headers)
        ]

    def produce(self, bootstrap: str, topics: dict[str, Scenario]) -> None:
        for topic, scenario in topics.items():
            in_order = sorted(scenario.records, key=lambda record: record.partition)
            for alike, group in itertools.groupby(in_order, self._one_call):
                arguments = self._producing(bootstrap, topic, *alike, codec=scenario.codec, acks=scenario.acks)
                run_checked(arguments, stdin=b"".join(map(self._message, group)), timeout_s=60)

    def produce_slowly(
        self, bootstrap: str, topic: str, records: Sequence[Record], *, pause_ms: int, begun: Callable[[], None]
    ) -> None:
        alike = {self._one_call(record) for record in records}
        assert len(alike) == 1, "one call of kcat sends to one partition"
        arguments = self._producing(bootstrap, topic, *alike.pop(), codec="none", acks="all")
        pause = threading.Event()
        with subprocess.Popen(arguments, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdin is not None
            for index, record in enumerate(records):
                process.stdin.write(self._message(record))
                process.stdin.flush()
                if index == 20:
                    begun()
                pause.wait(pause_ms / 1000)
            process.stdin.close()
            process.stdin = None
            _, errors = process.communicate(timeout=_RUN_TIMEOUT_S)
        assert process.returncode == 0, errors.decode(errors="replace")[-3000:]

    @staticmethod
    def _one_call(record: Record) -> tuple[int, tuple[tuple[str, bytes | None], ...], bool]:
        """What all messages of one call share."""
        return record.partition, record.headers, record.value is None

    def _producing(
        self,
        bootstrap: str,
        topic: str,
        partition: int,
        headers: Sequence[tuple[str, bytes | None]],
        null_values: bool,
        *,
        codec: str,
        acks: str,
    ) -> list[str]:
        # Without -E kcat gives up as soon as no broker can be reached, which is what a restart looks like.
        arguments = [self._command, "-P", "-E", "-b", bootstrap, "-t", topic, "-p", str(partition), "-z", codec]
        arguments += ["-D", self._MESSAGE_END, "-K", self._KEY_END, "-X", f"acks={acks}", "-X", "linger.ms=5"]
        arguments += ["-X", f"enable.idempotence={str(acks == 'all').lower()}", "-X", "message.max.bytes=2000000"]
        arguments += ["-X", "retry.backoff.ms=100", "-X", "reconnect.backoff.max.ms=500"]
        for name, value in headers:
            assert value is not None
            arguments += ["-H", f"{name}={value.decode('ascii')}"]
        return [*arguments, "-Z"] if null_values else arguments

    def _message(self, record: Record) -> bytes:
        key = b"" if record.key is None else record.key + self._KEY_END.encode()
        return key + (record.value or b"") + self._MESSAGE_END.encode()

    def consume(self, bootstrap: str, topics: Sequence[str], *, timestamps: bool) -> list[Report]:
        reports = []
        for topic in topics:
            records = self._consumed(bootstrap, topic, "-o", "beginning")
            reports.append(hashes([record for _, record in records], timestamps=timestamps))
            _check_offsets(records)
        return reports

    def consume_from(self, bootstrap: str, topic: str, *, partition: int, offset: int) -> Report:
        records = self._consumed(bootstrap, topic, "-p", str(partition), "-o", str(offset))
        report = hashes([record for _, record in records], timestamps=True)[str(partition)]
        return report | {"first": records[0][0], "last": records[-1][0]}

    def _consumed(self, bootstrap: str, topic: str, *where: str) -> list[tuple[int, Record]]:
        arguments = [self._command, "-C", "-b", bootstrap, "-t", topic, *where, "-e", "-q", "-f", self.FORMAT]
        printed = run_checked([*arguments, "-X", "fetch.wait.max.ms=20"], timeout_s=60)
        records, position = self.parse(printed)
        assert position == len(printed), printed[position : position + 200]
        return records

    @classmethod
    def parse(cls, printed: bytes) -> tuple[list[tuple[int, Record]], int]:
        """Offsets and records in what it prints by `FORMAT`, and where the first one that is not whole begins."""
        found, position = [], 0
        while (line := cls._LINE.match(printed, position)) is not None:
            partition, offset, timestamp_ms, key_bytes, value_bytes = map(int, line.groups()[:5])
            key_end = line.end() + max(key_bytes, 0)
            value_end = key_end + max(value_bytes, 0)
            if value_end >= len(printed):
                break
            record = Record(
                partition=partition,
                key=None if key_bytes < 0 else printed[line.end() : key_end],
                value=None if value_bytes < 0 else printed[key_end:value_end],
                headers=_parse_headers(line[6]),
                timestamp_ms=timestamp_ms,
            )
            found.append((offset, record))
            position = value_end + 1
        return found, position

    def offsets(self, bootstrap: str, topic: str, *, partition: int, timestamps_ms: Sequence[int]) -> Report:
        return {
            "begin": self._query(bootstrap, topic, partition, -2),
            "end": self._query(bootstrap, topic, partition, -1),
            "at": [self._query(bootstrap, topic, partition, timestamp_ms) for timestamp_ms in timestamps_ms],
        }

    def _query(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int:
        asked = f"{topic}:{partition}:{timestamp_ms}"
        printed = run_checked([self._command, "-Q", "-b", bootstrap, "-t", asked], timeout_s=60)
        return int(printed.decode().split()[-1])

    def offset_after_the_last(self, *, end: int) -> int:
        return -1

    def administer(self, bootstrap: str, steps: Sequence[Step]) -> list[Report]:
        raise NotImplementedError("kcat has no admin commands")


def _parse_headers(text: bytes) -> tuple[tuple[str, bytes | None], ...]:
    """kcat prints a=1,b=2; a header's own commas and equal signs would be ambiguous, so no scenario has them."""
    pairs = [pair.partition(b"=") for pair in text.split(b",")] if text else []
    return tuple((name.decode(), None if value == b"NULL" else value) for name, _, value in pairs)


def _check_offsets(records: Sequence[tuple[int, Record]]) -> None:
    """`hashes` assumes offsets without gaps from zero; here they are known."""
    next_offset: dict[int, int] = {}
    for offset, record in records:
        assert offset == next_offset.get(record.partition, 0), (offset, record)
        next_offset[record.partition] = offset + 1


def usable_clients() -> list[Client]:
    """The clients whose tools are here."""
    found = []
    for client in CLIENTS.values():
        with contextlib.suppress(ToolMissing):
            client.prepare()
            found.append(client)
    return found


CLIENTS: dict[str, Client] = {
    client.name: client
    for client in (
        Driven("java", partial(java_program, "Driver")),
        Driven("kafkajs", partial(kafkajs_program, "driver.js"), finds_end=True, null_headers=False),
        Driven("franz-go", franz_go_program, finds_end=True),
        Kcat(),
    )
}
