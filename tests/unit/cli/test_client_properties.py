"""Client settings in Java's dialect, and from single words."""

import pytest

from headrace.cli.client_properties import parse_pairs, translate_java
from headrace.errors import ConfigError


def test_words_of_the_command_line() -> None:
    assert parse_pairs(["a=b", "c=d=e", "f="], option="-X") == {"a": "b", "c": "d=e", "f": ""}


@pytest.mark.parametrize("word", ["a", "=b", ""])
def test_a_word_that_is_no_pair(word: str) -> None:
    with pytest.raises(ConfigError, match="-X"):
        parse_pairs([word], option="-X")


def test_a_login_in_java_is_a_user_and_a_password_here() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al" password="s=c ret";'
    assert translate_java({"sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}) == (
        {"sasl.mechanism": "PLAIN", "sasl.username": "al", "sasl.password": "s=c ret"},
        [],
    )


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
