"""Client settings from either dialect, and from a file."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.wire.settings import (
    Address,
    ClientSettings,
    Mechanism,
    SaslSettings,
    TlsSettings,
    client_settings,
    librdkafka_config,
    parse_bootstrap,
)

# As the benchmark paper prints it.
CLOUD_FILE = """\
# Kafka
bootstrap.servers=pkc-12345.us-west-2.aws.devel.cpdev.cloud:9092
security.protocol=SASL_SSL
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="REDACTED" password="redacted";
ssl.endpoint.identification.algorithm=https
sasl.mechanism=PLAIN
# Confluent Cloud Schema Registry
schema.registry.url=https://example.com
basic.auth.credentials.source=USER_INFO
"""
PLACE = (Address("h", 1),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1", [("a", 1)]),
        ("a:1, b:2,", [("a", 1), ("b", 2)]),
        (["a:1", "b:2,c:3"], [("a", 1), ("b", 2), ("c", 3)]),
        ("a", [("a", 9092)]),
        ("[::1]:7", [("::1", 7)]),
        ("[::1]", [("::1", 9092)]),
        ("SASL_SSL://a:1", [("a", 1)]),
    ],
)
def test_where_the_cluster_is(text: str | list[str], expected: list[tuple[str, int]]) -> None:
    assert list(parse_bootstrap(text)) == expected


@pytest.mark.parametrize("text", ["", " , ", "a:", "a:0", "a:65536", "a:b", ":9092", "a:-1"])
def test_an_address_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers"):
        parse_bootstrap(text)


def test_an_address_is_written_as_it_is_read() -> None:
    assert [str(one) for one in parse_bootstrap("a:1,[::1]:2")] == ["a:1", "[::1]:2"]


def test_an_address_alone() -> None:
    assert client_settings("h:1") == ClientSettings(bootstrap=PLACE)


def test_a_file_of_java_s(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(CLOUD_FILE)
    assert client_settings(config=file) == ClientSettings(
        bootstrap=(Address("pkc-12345.us-west-2.aws.devel.cpdev.cloud", 9092),),
        tls=TlsSettings(),
        sasl=SaslSettings(mechanism=Mechanism.PLAIN, username="REDACTED", password="redacted"),
        not_in_force=("basic.auth.credentials.source", "schema.registry.url"),
    )
    assert client_settings("h:1", str(file)).bootstrap == PLACE  # What is said beside the file wins.


def test_the_same_in_librdkafkas_words() -> None:
    config = {
        "bootstrap.servers": "h:1",
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "al",
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "enable.ssl.certificate.verification": False,
        "socket.timeout.ms": 1500,
        "client.id": "me",
    }
    assert client_settings(config=config) == ClientSettings(
        bootstrap=PLACE,
        client_id="me",
        request_timeout_s=1.5,
        tls=TlsSettings(ca_path="/ca.pem", verifies=False),
        sasl=SaslSettings(mechanism=Mechanism.SCRAM_SHA_512, username="al", password="secret"),
    )


def test_times_in_java_s_words() -> None:
    settings = client_settings("h:1", {"request.timeout.ms": "100", "default.api.timeout.ms": "200"})
    assert (settings.request_timeout_s, settings.api_timeout_s, settings.not_in_force) == (0.1, 0.2, ())


def test_secrets_are_not_shown() -> None:
    config = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "al",
        "sasl.password": "hush",
        "ssl.key.pem": "hush",
        "ssl.key.password": "hush",
    }
    assert "hush" not in repr(client_settings("h:1", config))


def test_what_is_not_in_force_is_named() -> None:
    config = {
        "group.id": "g",
        "error_cb": print,
        "key.serializer": "X",
        "auto.offset.reset": None,
        "ssl.ca.location": "/ca.pem",
        "sasl.kerberos.service.name": "kafka",
    }
    assert client_settings("h:1", config).not_in_force == (
        *("error_cb", "group.id", "key.serializer"),
        *("sasl.kerberos.service.name", "ssl.ca.location"),
    )


@pytest.mark.parametrize(
    ("config", "match"),
    [
        ({"security.protocol": "TLS"}, "none of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"security.protocol": "SASL_SSL"}, r"sasl\.mechanism is not set"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "none of PLAIN, SCRAM-SHA-256"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, r"sasl\.username and sasl\.password"),
        ({"security.protocol": "SSL", "enable.ssl.certificate.verification": "no"}, "neither true nor false"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "neither https nor none"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "me.p12"}, "openssl pkcs12"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "t.jks"}, "keytool"),
        ({"socket.timeout.ms": "soon"}, "not a number"),
        ({"socket.timeout.ms": "-1"}, "not a number"),
        ({"sasl.pasword": "x"}, r"is sasl\.password meant"),
        ({"secuirty.protocol": "SSL"}, r"is security\.protocol meant"),
        ({"ssl.pinned.key": "x"}, "would not be safe"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.3,TLSv2"}, "TLSv2 is none of"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "enables nothing that is spoken here"),
    ],
)
def test_what_cannot_be_used_is_an_error(config: dict[str, str], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        client_settings("h:1", config)


def test_nowhere_to_go() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is not set"):
        client_settings(config={"client.id": "x"})
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is not set"):
        librdkafka_config(config={"client.id": "x"})


def test_for_librdkafka_itself(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(CLOUD_FILE)
    made = librdkafka_config(["h:1", "h:2"], file)
    assert made["bootstrap.servers"] == "h:1,h:2"
    assert (made["sasl.username"], made["sasl.password"]) == ("REDACTED", "redacted")
    assert librdkafka_config("h:1", {"error_cb": print, "key.serializer": "X", "linger.ms": 5}) == {
        "bootstrap.servers": "h:1",
        "error_cb": print,
        "linger.ms": "5",
    }


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("TLSv1.2", ("TLSv1.2",)),
        ("TLSv1.3, TLSv1.2", ("TLSv1.2", "TLSv1.3")),
        ("TLSv1.1,TLSv1.3", ("TLSv1.3",)),
    ],
)
def test_protocols_that_are_enabled(text: str, spoken: tuple[str, ...]) -> None:
    settings = client_settings("h:1", {"security.protocol": "SSL", "ssl.enabled.protocols": text})
    assert settings.tls == TlsSettings(protocols=spoken)
    assert settings.not_in_force == ()
    assert client_settings("h:1", {"ssl.enabled.protocols": text}).not_in_force == ("ssl.enabled.protocols",)
