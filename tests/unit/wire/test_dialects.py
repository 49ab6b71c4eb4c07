"""Client settings in Java's dialect."""

import pytest

from headrace.errors import ConfigError
from headrace.wire.dialects import translate_java


def test_a_login_in_java_is_a_user_and_a_password_here() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="s=c ret";'
    assert translate_java({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}) == (
        {"sasl.mechanism": "PLAIN", "sasl.username": "al", "sasl.password": "s=c ret"},
        [],
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', "a\\b"),
        (r"'a\'b'", "a'b"),
        ('""', ""),
        ("plain", "plain"),
        ('"semi;colon"', "semi;colon"),
        ('"username=x"', "username=x"),
    ],
)
def test_quotes_in_a_login(written: str, meant: str) -> None:
    jaas = f"ScramLoginModule required username=al password={written};"
    settings, _ = translate_java({"sasl.jaas.config": jaas})
    assert settings == {"sasl.username": "al", "sasl.password": meant}


def test_a_delegation_token_is_no_password() -> None:
    jaas = 'ScramLoginModule required username="id" password="hmac" tokenauth="true";'
    with pytest.raises(ConfigError, match="tokenauth"):
        translate_java({"sasl.jaas.config": jaas})


def test_a_login_that_cannot_be_carried_over_is_an_error() -> None:
    with pytest.raises(ConfigError, match="username and password"):
        translate_java({"sasl.jaas.config": "Krb5LoginModule required useKeyTab=true;"})


def test_pem_stores_and_inline_certificates() -> None:
    java = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca",
        "ssl.truststore.password": "x",
        "ssl.keystore.location": "/me.pem",
        "ssl.keystore.key": "KEY",
        "ssl.endpoint.identification.algorithm": "",
    }
    assert translate_java(java) == (
        {
            "ssl.ca.location": "/ca",
            "ssl.certificate.location": "/me.pem",
            "ssl.key.location": "/me.pem",
            "ssl.key.pem": "KEY",
            "ssl.endpoint.identification.algorithm": "none",
        },
        ["ssl.truststore.password"],
    )


def test_a_pkcs12_keystore_is_read_as_it_is() -> None:
    assert translate_java({"ssl.keystore.location": "me.p12", "ssl.keystore.password": "x"}) == (
        {"ssl.keystore.location": "me.p12", "ssl.keystore.password": "x"},
        [],
    )


@pytest.mark.parametrize("store", ["ssl.truststore", "ssl.keystore"])
def test_a_java_keystore_is_an_error_that_says_what_to_do(store: str) -> None:
    with pytest.raises(ConfigError, match="keytool"):
        translate_java({f"{store}.location": "store.jks"})


def test_what_only_java_can_use_is_left_out_and_named() -> None:
    settings, left_out = translate_java({"key.serializer": "x", "buffer.memory": "1", "linger.ms": "5"})
    assert settings == {"linger.ms": "5"}
    assert left_out == ["key.serializer", "buffer.memory"]


def test_what_is_for_a_schema_registry_is_left_out_and_named() -> None:
    names = ["schema.registry.url", "basic.auth.credentials.source", "schema.registry.basic.auth.user.info"]
    assert translate_java(dict.fromkeys(names, "x")) == ({}, names)
