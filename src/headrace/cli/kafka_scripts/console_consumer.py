"""kafka-console-consumer: what topics hold, and what comes.

Without a group Kafka's own makes one up and leaves it behind; this one reads the partitions directly, those that come
later, too.
"""

import re
import struct
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final

from headrace.cli.connection import Connection
from headrace.cli.group_member import print_as_member
from headrace.cli.kafka_scripts.arrivals import Arrivals, Look, look_for_pattern, look_for_topic, wait_for
from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of
from headrace.cli.message_text import Message, Render
from headrace.cli.output import CommandError, note
from headrace.cli.reading import (
    AtOffset,
    Earliest,
    Latest,
    Printer,
    Start,
    find_bounds,
    print_all,
    read_between,
    until_quiet,
)

_FORMATTERS: Final = {
    "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "kafka.tools.DefaultMessageFormatter",
}
_FILES: Final = ("command-config", "consumer.config")
_SERIALIZATION: Final = "org.apache.kafka.common.serialization."


def _number(code: str) -> Callable[[bytes], bytes]:
    packed = struct.Struct(code)

    def text(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise CommandError(f"{data[:20]!r} is not a number of {packed.size} bytes")
        (number,) = packed.unpack(data)
        return str(number).encode()

    return text


_DESERIALIZERS: Final[Mapping[str, Callable[[bytes], bytes]]] = {
    f"{_SERIALIZATION}StringDeserializer": bytes,
    f"{_SERIALIZATION}LongDeserializer": _number(">q"),
    f"{_SERIALIZATION}IntegerDeserializer": _number(">i"),
    f"{_SERIALIZATION}ShortDeserializer": _number(">h"),
}

FLAGS: Final = (
    Flag("topic", Takes.VALUE, "The topic."),
    Flag("include", Takes.VALUE, "A regular expression for topics, in place of --topic."),
    Flag("partition", Takes.VALUE, "Only this partition."),
    Flag("offset", Takes.VALUE, "Where to begin in --partition: a number, earliest or latest."),
    Flag("consumer-property", Takes.VALUE, "A client setting, as NAME=VALUE. May be repeated."),
    Flag("command-property", Takes.VALUE, "The same as --consumer-property."),
    Flag("consumer.config", Takes.VALUE, "The same as --command-config."),
    Flag("formatter", Takes.VALUE, "Kafka's default formatter; no other can be loaded here."),
    Flag("property", Takes.VALUE, "How messages are printed: print.key=true, key.separator=:, ... May be repeated."),
    Flag("formatter-property", Takes.VALUE, "The same as --property."),
    Flag("formatter-config", Takes.VALUE, "A properties file of the same."),
    Flag("from-beginning", help="Begin with the first message where nothing is committed."),
    Flag("max-messages", Takes.VALUE, "Stop after so many messages."),
    Flag("timeout-ms", Takes.VALUE, "Stop when nothing has come for so long."),
    Flag("skip-message-on-error", help="Leave out what cannot be printed."),
    Flag("key-deserializer", Takes.VALUE, "How keys are printed: a String, Long, Integer or ShortDeserializer."),
    Flag("value-deserializer", Takes.VALUE, "How values are printed."),
    Flag("isolation-level", Takes.VALUE, "read_committed leaves out messages of open and aborted transactions."),
    Flag("group", Takes.VALUE, "Join this group, begin where it is, and commit what was printed."),
    Flag("enable-systest-events", refused="it is for Kafka's own tests"),
)


def run(words: Words) -> None:
    words.only("topic", "include")
    java = {**words.pairs("consumer-property"), **words.pairs("command-property")}
    cluster = cluster_of(words, files=_FILES, java=java)
    properties: dict[str, str] = {}
    if (file := words.one("formatter-config")) is not None:
        from headrace.properties import read_properties

        properties |= read_properties(Path(file))
    for flag in ("key-deserializer", "value-deserializer"):
        if (name := words.one(flag)) is not None:
            properties[flag.replace("-", ".")] = name
    properties |= {**words.pairs("property"), **words.pairs("formatter-property")}
    if (formatter := words.one("formatter")) is not None and formatter not in _FORMATTERS:
        raise Misused(f"--formatter {formatter}: a Java class cannot be loaded here")
    render = message_renderer(properties)
    if "skip-message-on-error" in words:
        render = _skipping(render)
    printer = Printer(render, ending=b"", count=words.number("max-messages"))
    try:
        _read(cluster, words, printer)
    finally:
        note(f"Processed a total of {printer.printed} messages")


def _read(cluster: Connection, words: Words, printer: Printer) -> None:
    reset = cluster.settings.pop("auto.offset.reset", None)
    if reset not in {None, "earliest"} and "from-beginning" in words:
        raise Misused(f"--from-beginning and auto.offset.reset={reset} exclude each other")
    reset = "earliest" if "from-beginning" in words else reset or "latest"
    settings = {
        "client.id": "console-consumer",
        "isolation.level": words.one("isolation-level") or "read_uncommitted",
        "auto.offset.reset": reset,
    }
    timeout_ms = words.number("timeout-ms")
    quiet_s = None if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
    group = _group(cluster, words)
    if group is not None and "partition" in words:
        raise Misused("--group and --partition exclude each other")
    begin = _start(words, reset)
    what, look = _wanted(cluster, words)
    known = look(cluster.timeout_s)
    if not known:
        note(f"WARN: {what} is not there yet; waiting for it")
    if group is not None:
        # The client library would fail. A pattern goes on matching topics that are created later.
        if known or wait_for(look, quiet_s=quiet_s):
            topics = [words.one("topic") or f"^({words.required('include')})$"]
            print_as_member(cluster, group, topics, printer, follow=True, settings=settings, quiet_s=quiet_s)
        return
    bounds = find_bounds(cluster, cluster.admin(), sorted(known), begin)
    arrivals = Arrivals(look, known, offset=begin.offset if isinstance(begin, AtOffset) else None)
    with closing(read_between(cluster, bounds, follow=True, settings=settings, arrivals=arrivals)) as brought:
        print_all(brought if quiet_s is None else until_quiet(brought, quiet_s), printer)


def _group(cluster: Connection, words: Words) -> str | None:
    """Said by a flag or as a setting; not two different ones."""
    said = {name for name in (words.one("group"), cluster.settings.pop("group.id", None)) if name is not None}
    if len(said) > 1:
        raise Misused(f"the groups said in different places do not match: {', '.join(sorted(said))}")
    return next(iter(said), None)


def _start(words: Words, reset: str) -> Start:
    offset = words.one("offset")
    if offset is None:
        return Earliest() if reset == "earliest" else Latest()
    if "partition" not in words:
        raise Misused("--offset needs --partition")
    if "from-beginning" in words:
        raise Misused("--from-beginning and --offset exclude each other")
    if offset.lower() in {"earliest", "latest"}:
        return Earliest() if offset.lower() == "earliest" else Latest()
    if not offset.isdecimal():
        raise Misused(f"--offset {offset!r} is not earliest, latest or a number that is not negative")
    return AtOffset(int(offset))


def _wanted(cluster: Connection, words: Words) -> tuple[str, Look]:
    """What shall be read, in words, and how to see whether it is there."""
    partition = words.number("partition")
    text = words.one("include")
    if text is None:
        topic = words.required("topic")
        what = f"topic {topic!r}" if partition is None else f"partition {partition} of topic {topic!r}"
        return what, partial(look_for_topic, cluster, topic, partition)
    if partition is not None:
        raise Misused("--partition goes with --topic")
    try:
        pattern = re.compile(text)
    except re.error as error:
        raise Misused(f"--include {text!r} is not a regular expression: {error}") from error
    return f"a topic that matches {text!r}", partial(look_for_pattern, cluster, pattern)


# --- How messages are printed -----------------------------------------------------------------------------------


def message_renderer(properties: Mapping[str, str]) -> Render:
    """Kafka's default formatter: what to print in which order, what stands between, and what ends a message."""
    known = {
        *(f"print.{name}" for name in _PARTS),
        *("key.separator", "line.separator", "headers.separator", "null.literal"),
        *("key.deserializer", "value.deserializer", "headers.deserializer"),
    }
    if strange := sorted(properties.keys() - known):
        raise Misused(f"--property {strange[0]} is not supported here, only {', '.join(sorted(known))}")
    texts = {name: text.encode() for name, text in properties.items()}
    separator = texts.get("key.separator", b"\t")
    ending = texts.get("line.separator", b"\n")
    between_headers = texts.get("headers.separator", b",")
    null = texts.get("null.literal", b"null")
    shown = {
        name: properties.get(f"print.{name}", "true" if name == "value" else "false").strip().lower() == "true"
        for name in _PARTS
    }

    def content(deserializer: str) -> Callable[[bytes | None], bytes]:
        decode = _deserializer(properties.get(deserializer))
        return lambda data: null if data is None else decode(data)

    key, value, header = content("key.deserializer"), content("value.deserializer"), content("headers.deserializer")

    def headers(message: Message) -> bytes:
        pairs = [f"{name}:".encode(errors="surrogateescape") + header(data) for name, data in message.headers]
        return between_headers.join(pairs) or b"NO_HEADERS"

    writers: dict[str, Render] = {
        **_PARTS,
        "headers": headers,
        "key": lambda message: key(message.key),
        "value": lambda message: value(message.value),
    }
    parts = [writers[name] for name in _PARTS if shown[name]]
    # As in Kafka, a line without a value is ended by the last thing on it; nothing at all is not even a line.
    return lambda message: separator.join([part(message) for part in parts]) + ending if parts else b""


def _timestamp(message: Message) -> bytes:
    if message.timestamp_ms is None:
        return b"NO_TIMESTAMP"
    return b"%s:%d" % (b"LogAppendTime" if message.is_stamped_by_broker else b"CreateTime", message.timestamp_ms)


def _not_known(message: Message) -> bytes:
    raise AssertionError("filled in by message_renderer")


# In the order in which Kafka prints them. The library does not tell a message's leader epoch, nor is it a share.
_PARTS: Final[Mapping[str, Render]] = {
    "timestamp": _timestamp,
    "partition": lambda message: b"Partition:%d" % (message.partition or 0),
    "offset": lambda message: b"Offset:%d" % (message.offset or 0),
    "delivery": lambda message: b"Delivery:NOT_PRESENT",
    "epoch": lambda message: b"Epoch:NOT_PRESENT",
    "headers": _not_known,
    "key": _not_known,
    "value": _not_known,
}


def _deserializer(name: str | None) -> Callable[[bytes], bytes]:
    if name is None:
        return bytes
    if name not in _DESERIALIZERS:
        raise Misused(f"{name} is not supported here, only {', '.join(_DESERIALIZERS)}")
    return _DESERIALIZERS[name]


def _skipping(render: Render) -> Render:
    def skip(message: Message) -> bytes:
        try:
            return render(message)
        except CommandError as error:
            note(f"left out: {error}")
            return b""

    return skip


SCRIPT: Final = Script("kafka-console-consumer", "print what topics hold and what comes", FLAGS, run)
