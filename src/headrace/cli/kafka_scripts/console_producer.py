"""kafka-console-producer: lines of standard input into a topic."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Final, NamedTuple

from headrace.cli.kafka_scripts.flags import Flag, Misused, Takes, Words
from headrace.cli.kafka_scripts.script import Script, cluster_of
from headrace.cli.message_text import Message
from headrace.cli.produce import Acks, line_messages
from headrace.cli.sending import deliver
from headrace.errors import ConfigError

_READERS: Final = {"org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader"}
_FILES: Final = ("command-config", "producer.config")

FLAGS: Final = (
    Flag("topic", Takes.VALUE, "REQUIRED: where to."),
    Flag("sync", help="Wait for each message's acknowledgement before the next is sent."),
    Flag("compression-codec", Takes.MAYBE, "none, gzip, snappy, lz4 or zstd; gzip if none is said."),
    Flag("batch-size", Takes.VALUE, "How many bytes of messages go together."),
    Flag("message-send-max-retries", Takes.VALUE, "How often to try again."),
    Flag("retry-backoff-ms", Takes.VALUE, "How long to wait before trying again."),
    Flag("timeout", Takes.VALUE, "How long a message may wait for company, in milliseconds."),
    Flag("request-required-acks", Takes.VALUE, "0, 1, -1 or all."),
    Flag("request-timeout-ms", Takes.VALUE, "How long the broker may take."),
    Flag("metadata-expiry-ms", Takes.VALUE, "How long to believe what is known of the cluster."),
    Flag("max-block-ms", Takes.VALUE, ignored="sending waits for room as long as it takes"),
    Flag("max-memory-bytes", Takes.VALUE, "How much may wait to be sent."),
    Flag("max-partition-memory-bytes", Takes.VALUE, "The same as --batch-size, and wins over it."),
    Flag("line-reader", Takes.VALUE, "Kafka's own reader of lines; no other can be loaded here."),
    Flag("socket-buffer-size", Takes.VALUE, "The socket's send buffer, in bytes."),
    Flag("property", Takes.VALUE, "How lines are read: parse.key=true, key.separator=:, ... May be repeated."),
    Flag("reader-property", Takes.VALUE, "The same as --property."),
    Flag("reader-config", Takes.VALUE, "A properties file of the same."),
    Flag("producer-property", Takes.VALUE, "A client setting, as NAME=VALUE. May be repeated."),
    Flag("command-property", Takes.VALUE, "The same as --producer-property."),
    Flag("producer.config", Takes.VALUE, "The same as --command-config."),
)
# Flags that are another name for one of librdkafka's settings.
_SETTINGS: Final = {
    "batch-size": "batch.size",
    "max-partition-memory-bytes": "batch.size",
    "message-send-max-retries": "message.send.max.retries",
    "retry-backoff-ms": "retry.backoff.ms",
    "timeout": "linger.ms",
    "request-timeout-ms": "request.timeout.ms",
    "metadata-expiry-ms": "metadata.max.age.ms",
    "socket-buffer-size": "socket.send.buffer.bytes",
}


class LineFormat(NamedTuple):
    """How a line is a message, in Kafka's terms."""

    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None


def run(words: Words) -> None:
    topic = words.required("topic")
    if (reader := words.one("line-reader")) is not None and reader not in _READERS:
        raise Misused(f"--line-reader {reader}: a Java class cannot be loaded here")
    properties: dict[str, str] = {}
    if (file := words.one("reader-config")) is not None:
        from headrace.properties import read_properties

        properties |= read_properties(Path(file))
    properties |= {**words.pairs("property"), **words.pairs("reader-property")}
    parse = line_parser(line_format(properties))
    java = {**words.pairs("producer-property"), **words.pairs("command-property")}
    cluster = cluster_of(words, files=_FILES, java=java)
    delivery = deliver(
        cluster,
        topic,
        line_messages(_prompted(sys.stdin.buffer), "standard input", parse),
        settings=_settings(words),
        one_by_one="sync" in words,
        is_shown=False,
    )
    delivery.check()


def _settings(words: Words) -> dict[str, object]:
    codec = words.one("compression-codec") or ("gzip" if "compression-codec" in words else "none")
    acks = words.one("request-required-acks") or "-1"
    if acks not in {*Acks, "-1"}:
        raise Misused(f"--request-required-acks {acks!r} is not 0, 1, -1 or all")
    settings: dict[str, object] = {"client.id": "console-producer", "compression.type": codec, "acks": acks}
    for flag, name in _SETTINGS.items():
        if (number := words.number(flag)) is not None:
            settings[name] = number
    if (memory_bytes := words.number("max-memory-bytes")) is not None:
        settings["queue.buffering.max.kbytes"] = max(1, memory_bytes >> 10)
    return settings


def _prompted(source: IO[bytes]) -> Iterable[bytes]:
    """A person at a terminal is asked for each line."""
    return _asking(source) if source.isatty() else source


def _asking(source: Iterable[bytes]) -> Iterator[bytes]:
    lines = iter(source)
    while True:
        print(">", end="", flush=True)
        line = next(lines, None)
        if line is None:
            return
        yield line


def line_format(properties: Mapping[str, str]) -> LineFormat:
    """Kafka's reader properties; one that it does not know is an error, where Kafka would say nothing."""
    known: dict[str, Callable[[str], bool | bytes]] = {
        **dict.fromkeys(("parse.key", "parse.headers", "ignore.error"), _is_true),
        **dict.fromkeys(("key.separator", "headers.delimiter", "headers.separator"), str.encode),
        **dict.fromkeys(("headers.key.separator", "null.marker"), str.encode),
    }
    if strange := sorted(properties.keys() - known.keys()):
        raise Misused(f"--property {strange[0]} is not supported here, only {', '.join(sorted(known))}")
    how = LineFormat(**{name.replace(".", "_"): known[name](text) for name, text in properties.items()})  # type: ignore[arg-type]
    separators = {
        "headers.delimiter": how.headers_delimiter,
        "headers.separator": how.headers_separator,
        "headers.key.separator": how.headers_key_separator,
        "null.marker": how.null_marker,
    }
    names = list(separators)
    for number, one in enumerate(names):
        for other in names[number + 1 :]:
            if separators[one] == separators[other]:
                raise Misused(f"{one} and {other} may not be equal")
    if how.key_separator == how.null_marker:
        raise Misused("null.marker and key.separator may not be equal")
    return how


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"


def line_parser(how: LineFormat) -> Callable[[bytes], Message]:
    def cut(line: bytes, separator: bytes, name: str) -> tuple[bytes | None, bytes]:
        first, found, rest = line.partition(separator)
        if found:
            return first, rest
        if how.ignore_error:
            return None, line
        raise ConfigError(f"no {name} found in {line[:60]!r}")

    def marked(data: bytes | None) -> bytes | None:
        return None if data == how.null_marker else data

    def header(pair: bytes) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(how.headers_key_separator)
        if not found and not how.ignore_error:
            raise ConfigError(f"no header key separator found in pair {pair[:60]!r}")
        if name == how.null_marker:
            raise ConfigError(f"a header's name is {name!r}, which stands for null")
        return name.decode(errors="surrogateescape"), marked(value) if found else None

    def parse(line: bytes) -> Message:
        headers: bytes | None = None
        key: bytes | None = None
        value = line.removesuffix(b"\r")  # Kafka's reader takes either way of ending a line.
        if how.parse_headers:
            headers, value = cut(value, how.headers_delimiter, "headers delimiter")
        if how.parse_key:
            key, value = cut(value, how.key_separator, "key separator")
        pairs = marked(headers)
        return Message(
            marked(key),
            marked(value),
            [] if pairs is None else [header(pair) for pair in pairs.split(how.headers_separator)],
        )

    return parse


SCRIPT: Final = Script("kafka-console-producer", "send lines of standard input to a topic", FLAGS, run)
