"""How a command reaches a cluster, any cluster: the options that all share, and clients made from them.

`@connected` gives a command its `Connection` and the options that make one. The client library is imported
when a client is made, so that `--help` does not wait for it.
"""

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from headrace.cli.output import CommandError, note
from headrace.cli.pairs import parse_pairs
from headrace.errors import ConfigError
from headrace.wire.dialects import translate_java

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient, ClusterMetadata

    from headrace.protocol.schema import ApiMessages, Value
    from headrace.wire.settings import Address, ClientSettings

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_METADATA_STEP_S: Final = 1.0
# By default a consumer whose queue is full fetches nothing for a whole second, however soon the queue is empty.
FETCH_STEADILY: Final = {"fetch.queue.backoff.ms": 20}

P = ParamSpec("P")


@dataclass(slots=True)
class Connection:
    """What librdkafka is told about a cluster, and the last trouble that it told of."""

    settings: dict[str, str]
    timeout_s: float
    _trouble: "KafkaError | None" = field(default=None, init=False)
    _admin: "AdminClient | None" = field(default=None, init=False)

    @property
    def bootstrap(self) -> str:
        return self.settings["bootstrap.servers"]

    def admin(self) -> "AdminClient":
        """One for the life of the connection: answers of a client that was let go of never come."""
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            self._admin = AdminClient(self._settings({}))
            self.cluster_metadata(self._admin)
        return self._admin

    def producer(self, more: Mapping[str, Any]) -> "Producer":
        from confluent_kafka import Producer

        return Producer(self._settings(more))

    def consumer(self, more: Mapping[str, Any]) -> "Consumer":
        from confluent_kafka import Consumer

        return Consumer(self._settings(more))

    def ask(self, address: "Address", api: "ApiMessages", body: Mapping[str, Any]) -> "Value":
        """One request to one broker, for what librdkafka has no words for."""
        from headrace.wire.connection import Connection as WireConnection

        with WireConnection(address, self.wire_settings()) as broker:
            return broker.call(api, body, timeout_s=self.timeout_s)

    def ask_one_of(self, addresses: Sequence["Address"], api: "ApiMessages", body: Mapping[str, Any]) -> "Value":
        """One request to the first of these brokers that can be reached."""
        from headrace.wire.errors import Unreachable

        for address in addresses[:-1]:
            with suppress(Unreachable):
                return self.ask(address, api, body)
        return self.ask(addresses[-1], api, body)

    def wire_settings(self) -> "ClientSettings":
        """The same for our own client."""
        from headrace.wire.settings import client_settings

        return client_settings(config=self.settings)

    def columnar_settings(self) -> "ClientSettings":
        """The same for a command that uses nothing else, and says so of settings that it has no use for."""
        settings = self.wire_settings()
        if settings.not_in_force:
            note(f"not used here: {', '.join(settings.not_in_force)}")
        return settings

    def cluster_metadata(
        self, client: "AdminClient | Producer | Consumer", topic: str | None = None, *, timeout_s: float | None = None
    ) -> "ClusterMetadata":
        """What the cluster is, asked until the timeout; at once an error where nobody listens."""
        from confluent_kafka import KafkaError, KafkaException

        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                asked = {} if topic is None else {"topic": topic}
                return client.list_topics(timeout=min(timeout_s, _METADATA_STEP_S), **asked)
            except KafkaException as error:
                code = error.args[0].code()
                if code not in {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}:
                    raise
            client.poll(0)  # Troubles are told from in here.
            if self._trouble is not None or time.monotonic() >= deadline_s:
                raise CommandError(f"cannot reach {self.bootstrap}: {self._trouble_text()}")

    def _settings(self, more: Mapping[str, Any]) -> dict[str, Any]:
        # What the user said wins over what the command wants.
        return {"log_level": 0, "error_cb": self._note_trouble, **more, **self.settings}

    def _note_trouble(self, error: "KafkaError") -> None:
        self._trouble = error

    def _trouble_text(self) -> str:
        if self._trouble is None:
            return f"no answer within {self.timeout_s:g} s"
        # "host:port/bootstrap: Connect to ... failed: Connection refused (after 0ms in state CONNECT)"
        return self._trouble.str().split(" (after ")[0].rpartition("/bootstrap: ")[2]


_PANEL: Final = "Connection"
_BOOTSTRAP = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="HEADRACE_BOOTSTRAP",
        metavar="HOST:PORT,...",
        help="Where the cluster is; any Kafka will do.",
        rich_help_panel=_PANEL,
    ),
]
_COMMAND_CONFIG = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        metavar="FILE",
        help="A properties file of client settings, such as Kafka's own tools take.",
        rich_help_panel=_PANEL,
    ),
]
_PROPERTIES = Annotated[
    list[str],
    typer.Option("-X", metavar="KEY=VALUE", help="One librdkafka setting. May be repeated.", rich_help_panel=_PANEL),
]
_TIMEOUT = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", help="How long to wait for an answer.", rich_help_panel=_PANEL),
]
_NAMED_ONLY = inspect.Parameter.KEYWORD_ONLY
_PARAMETERS: Final = (
    inspect.Parameter("bootstrap", _NAMED_ONLY, default=DEFAULT_BOOTSTRAP, annotation=_BOOTSTRAP),
    inspect.Parameter("command_config", _NAMED_ONLY, default=None, annotation=_COMMAND_CONFIG),
    inspect.Parameter("properties", _NAMED_ONLY, default=[], annotation=_PROPERTIES),
    inspect.Parameter("timeout_s", _NAMED_ONLY, default=10.0, annotation=_TIMEOUT),
)


def connect(*, bootstrap: str, command_config: Path | None, properties: list[str], timeout_s: float) -> Connection:
    """The file first, then the bootstrap address, then single settings: the more particular wins."""
    settings: dict[str, str] = {}
    if command_config is not None:
        from headrace.properties import read_properties

        java = read_properties(command_config)
        try:
            settings, left_out = translate_java(java)
        except ConfigError as error:
            raise CommandError(f"{command_config}: {error}") from error
        if left_out:
            note(f"{command_config}: not used here: {', '.join(left_out)}")
    if bootstrap != DEFAULT_BOOTSTRAP or "bootstrap.servers" not in settings:
        settings["bootstrap.servers"] = bootstrap
    return Connection(settings | parse_pairs(properties, option="-X"), timeout_s)


def connected(command: Callable[Concatenate[Connection, P], None]) -> Callable[..., None]:
    """A command for typer, with the connection options after its own."""
    own = list(inspect.signature(command).parameters.values())[1:]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        shared = {parameter.name: values.pop(parameter.name) for parameter in _PARAMETERS}
        command(connect(**shared), **values)  # type: ignore[call-arg]  # Typer fills them by name.

    parameters = [*(one.replace(kind=_NAMED_ONLY) for one in own), *_PARAMETERS]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
