"""The doors of the scripts. Each loads its own module only."""

import sys
from importlib import import_module
from typing import NoReturn


def _run(module: str) -> NoReturn:
    from headrace.cli.kafka_scripts.script import Script, status_of

    script: Script = import_module(f"headrace.cli.kafka_scripts.{module}").SCRIPT
    sys.exit(status_of(script, sys.argv[1:]))


def topics() -> NoReturn:
    _run("topics")


def consumer_groups() -> NoReturn:
    _run("groups")


def configs() -> NoReturn:
    _run("configs")


def console_producer() -> NoReturn:
    _run("console_producer")


def console_consumer() -> NoReturn:
    _run("console_consumer")


def producer_perf_test() -> NoReturn:
    _run("producer_perf")


def consumer_perf_test() -> NoReturn:
    _run("consumer_perf")


def e2e_latency() -> NoReturn:
    _run("e2e_latency")
