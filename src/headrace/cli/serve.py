"""`headrace serve`: the words that start a node, and nothing of what they start.

Parsed with argparse, which costs a few milliseconds. Typer and rich would cost a tenth of a second and over
ten megabytes, which the node would carry for its whole life.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

from headrace.errors import ConfigError
from headrace.server.options import LOG_LEVELS, ServeOptions, parse_host_port

_Parsed = TypeVar("_Parsed")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _reported(parse: Callable[[str], _Parsed]) -> Callable[[str], _Parsed]:
    """Let argparse name the option whose value a parser of ours refused."""

    def parse_argument(text: str) -> _Parsed:
        try:
            return parse(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parse_argument


def _parse_override(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise ConfigError(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def _argument_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headrace serve",
        usage="headrace serve [OPTIONS]",
        description="Run one node until it is told to stop (SIGTERM or Ctrl-C).\n"
        "Prints one line, 'headrace ready on HOST:PORT', once it accepts clients.",
        epilog="example:\n  headrace serve --data ./kafka-data -o num.partitions=4 -o log.retention.hours=24",
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    host_port = _reported(parse_host_port)
    add = parser.add_argument
    add(
        "--listen",
        type=host_port,
        metavar="HOST:PORT",
        help="where clients connect; port 0 picks a free one (default: 127.0.0.1:9092)",
    )
    add(
        "--advertise",
        type=host_port,
        metavar="HOST:PORT",
        help="the address given to clients, where it differs from --listen",
    )
    add("--data", type=Path, metavar="DIR", help="where the log is kept, in Kafka's own format")
    add(
        "--config", type=Path, metavar="FILE", dest="config_file", help="a properties file with Kafka's broker settings"
    )
    add(
        "-o",
        type=_reported(_parse_override),
        metavar="KEY=VALUE",
        action="append",
        default=[],
        dest="overrides",
        help="one setting, over the file's; may be repeated",
    )
    add("--http", type=host_port, metavar="HOST:PORT", help="also serve /metrics (Prometheus) and /healthz here")
    add("--log-level", choices=LOG_LEVELS, default="info",
        help="what to log, to standard error (default: %(default)s)")  # fmt: skip
    return parser


def parse_arguments(arguments: Sequence[str]) -> ServeOptions:
    """What `arguments` ask for. A wrong word ends the process with status 2 and one line saying which."""
    parsed = vars(_argument_parser().parse_args(arguments))
    return ServeOptions(**{**parsed, "overrides": dict(parsed["overrides"])})


def main(arguments: Sequence[str]) -> int:
    options = parse_arguments(arguments)

    from headrace.server.main import serve

    return serve(options)
