from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.server.config import ListenerConfig, load_config, parse_connection_limits
from headrace.server.options import HostPort, ServeOptions


def options(**given: object) -> ServeOptions:
    return ServeOptions(**given)  # type: ignore[arg-type]


def with_settings(**settings: str) -> ServeOptions:
    return options(overrides={name.replace("_", "."): text for name, text in settings.items()})


class TestMerging:
    def test_nothing_said_means_the_defaults(self) -> None:
        config = load_config(options())
        assert config.listeners == (ListenerConfig("PLAINTEXT", HostPort("127.0.0.1", 9092), None),)
        assert (config.data, config.http, config.broker.num_partitions) == (Path("headrace-data"), None, 1)

    def test_the_later_wins(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text(
            "num.partitions=2\nlog.retention.hours=5\nlog.dirs=/from/the/file\n"
            "listeners=INTERNAL://:1,EXTERNAL://:2\nadvertised.listeners=EXTERNAL://example.org:2\n"
            "listener.security.protocol.map=INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
        )
        config = load_config(
            options(
                config_file=file,
                overrides={"num.partitions": "3"},
                data=Path("/from/the/flag"),
                listen=HostPort("::1", 7),
                http=HostPort("127.0.0.1", 8),
            )
        )
        assert (config.broker.num_partitions, config.broker.log_retention_hours) == (3, 5)
        assert config.data == Path("/from/the/flag")
        assert config.listeners == (ListenerConfig("PLAINTEXT", HostPort("::1", 7), None),)
        assert config.http == HostPort("127.0.0.1", 8)

    def test_a_file_of_apache_kafkas_serves(self, tmp_path: Path) -> None:
        file = tmp_path / "server.properties"
        file.write_text(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.bootstrap.servers=localhost:9093\n"
            "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\ninter.broker.listener.name=PLAINTEXT\n"
            "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL\n"
            "num.network.threads=3\nlog.dirs=/tmp/kraft-combined-logs\nnum.partitions=1\n"
            "offsets.topic.replication.factor=1\nlog.segment.bytes=1073741824\n"
        )
        config = load_config(options(config_file=file))
        assert config.listeners == (ListenerConfig("PLAINTEXT", HostPort("", 9092), HostPort("localhost", 9092)),)
        assert "num.network.threads" in config.broker.names_without_effect()

    def test_an_unreadable_file_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"cannot read .*missing.properties: No such file"):
            load_config(options(config_file=tmp_path / "missing.properties"))
        broken = tmp_path / "broken.properties"
        broken.write_bytes(b"a=\xff\xfe")
        with pytest.raises(ConfigError, match=r"broken\.properties: .*utf-8"):
            load_config(options(config_file=broken))
        broken.write_text("a=\\u1")
        with pytest.raises(ConfigError, match=r"broken\.properties: malformed"):
            load_config(options(config_file=broken))


class TestListeners:
    def test_several_each_with_its_own_address(self) -> None:
        config = load_config(
            options(
                overrides={
                    "listeners": "inside://127.0.0.1:0, OUTSIDE://[::]:9094",
                    "advertised.listeners": "OUTSIDE://kafka.example.org:19094",
                    "listener.security.protocol.map": "INSIDE:PLAINTEXT,outside:plaintext",
                }
            )
        )
        assert config.listeners == (
            ListenerConfig("INSIDE", HostPort("127.0.0.1", 0), None),
            ListenerConfig("OUTSIDE", HostPort("::", 9094), HostPort("kafka.example.org", 19094)),
        )

    def test_the_flag_advertises_for_the_one_listener(self) -> None:
        named = {"listeners": "IN://:1", "listener.security.protocol.map": "IN:PLAINTEXT"}
        config = load_config(options(overrides=named, advertise=HostPort("example.org", 5)))
        assert config.listeners == (ListenerConfig("IN", HostPort("", 1), HostPort("example.org", 5)),)
        config = load_config(options(advertise=HostPort("example.org", 5)))
        assert config.listeners[0].advertise == HostPort("example.org", 5)
        two = {"listeners": "IN://:1,OUT://:2"}
        with pytest.raises(ConfigError, match="--advertise names one address"):
            load_config(options(overrides=two, advertise=HostPort("example.org", 5)))

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"listeners": "127.0.0.1:9092"}, "listeners: '127.0.0.1:9092' is not NAME://HOST:PORT"),
            ({"listeners": "PLAINTEXT://h:x"}, "listeners: 'h:x' is not HOST:PORT with a port from 0 to 65535"),
            ({"listeners": "PLAINTEXT://h:-1"}, "listeners: 'h:-1' is not HOST:PORT with a port from 0 to 65535"),
            ({"listeners": ""}, "listeners names no place for clients to connect to"),
            ({"listeners": "FOO://:1"}, "No security protocol defined for listener FOO"),
            ({"listeners": "SSL://:1"}, "listener SSL is SSL, and only PLAINTEXT is served yet"),
            (
                {"listeners": "PLAINTEXT://:1,plaintext://:2"},
                "Each listener must have a different name, listeners: PLAINTEXT://:1,plaintext://:2",
            ),
            (
                {"listeners": "A://:1,B://127.0.0.1:1", "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"},
                "Each listener must have a different port, but A and B share 1",
            ),
            (
                {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
                "advertised.listeners: clients cannot connect to PLAINTEXT://0.0.0.0:1; name an address they can reach",
            ),
            (
                {"advertised.listeners": "OTHER://h:1"},
                "advertised.listeners has OTHER, which is not in listeners",
            ),
            (
                {"listener.security.protocol.map": "A:QUIC"},
                "listener.security.protocol.map: 'A:QUIC' is not NAME:PROTOCOL, "
                "with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
            ),
            ({"http.listen": "nowhere"}, "http.listen: 'nowhere' is not HOST:PORT with a port from 0 to 65535"),
            ({"log.dirs": "/a,/b"}, "log.dirs has 2 directories; a node keeps its logs in one"),
        ],
    )
    def test_what_cannot_be_served_is_refused_in_one_line(self, settings: dict[str, str], words: str) -> None:
        with pytest.raises(ConfigError) as refused:
            load_config(options(overrides=settings))
        assert str(refused.value) == words

    def test_one_port_on_two_addresses(self) -> None:
        names = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
        load_config(options(overrides=names | {"listeners": "A://127.0.0.1:1,B://127.0.0.2:1"}))
        load_config(options(overrides=names | {"listeners": "A://127.0.0.1:0,B://127.0.0.1:0"}))


def test_connection_limits() -> None:
    assert parse_connection_limits("") == {}
    assert parse_connection_limits("127.0.0.1:5, [::1]:6,host.example:0") == {
        "127.0.0.1": 5,
        "::1": 6,
        "host.example": 0,
    }
    for text in ("127.0.0.1", "127.0.0.1:x", ":5", "h:-1"):
        with pytest.raises(ConfigError, match="is not ADDRESS:COUNT"):
            parse_connection_limits(text)
