"""Client settings in either of the two dialects people have files in: Kafka's Java names and librdkafka's.

Most names are the same. Those that are not are in one table; what only a Java program can use, or is for a Schema
Registry, is left out and named, so that nobody believes it is in force; what cannot be carried over is an error.
librdkafka's own names pass as they are, so a mixture is understood too. Knows nothing of files and connections.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from headrace.errors import ConfigError

# Settings of Java programs that have no meaning here.
_JAVA_ONLY: Final = {
    *("key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "partitioner.class"),
    *("interceptor.classes", "metric.reporters", "buffer.memory", "max.block.ms", "default.api.timeout.ms"),
    *("sasl.client.callback.handler.class", "sasl.login.callback.handler.class", "ssl.provider"),
    *("ssl.protocol", "ssl.enabled.protocols", "ssl.truststore.password"),
}
# Of another service, whose settings people keep in the same file, and of the serialisers that ask it.
_SCHEMA_REGISTRY: Final = (
    *("schema.registry.", "basic.auth.", "bearer.auth.", "auto.register.schemas", "use.latest.version"),
    *("use.schema.id", "specific.avro.reader", "key.subject.name.strategy", "value.subject.name.strategy"),
)
# A word, or one in quotes in which a backslash keeps the next character from meaning anything.
_JAAS_OPTION: Final = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""")
_ESCAPED: Final = re.compile(r"\\(.)")


def translate_java(java: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """The same settings under librdkafka's names, and the names that were left out."""
    settings: dict[str, str] = {}
    left_out: list[str] = []
    for key, value in java.items():
        if key in _JAVA_ONLY or key.startswith(_SCHEMA_REGISTRY):
            left_out.append(key)
        elif (translate := _TRANSLATIONS.get(key)) is not None:
            settings |= translate(value, java)
        else:
            settings[key] = value
    return settings, left_out


_Translate = Callable[[str, Mapping[str, str]], dict[str, str]]


def _jaas(value: str, _: Mapping[str, str]) -> dict[str, str]:
    options = {
        match[1]: match[4] or _ESCAPED.sub(r"\1", match[2] or match[3] or "") for match in _JAAS_OPTION.finditer(value)
    }
    if options.get("tokenauth", "false").lower() != "false":
        raise ConfigError("sasl.jaas.config: tokenauth: delegation tokens cannot be used here")
    if not {"username", "password"} <= options.keys():
        raise ConfigError("sasl.jaas.config: only username and password logins can be carried over")
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _truststore(value: str, java: Mapping[str, str]) -> dict[str, str]:
    _require_pem("ssl.truststore", value, java)
    return {"ssl.ca.location": value}


def _keystore(value: str, java: Mapping[str, str]) -> dict[str, str]:
    if java.get("ssl.keystore.type", "").upper() == "PKCS12" or value.endswith((".p12", ".pfx")):
        return {"ssl.keystore.location": value}
    _require_pem("ssl.keystore", value, java)
    return {"ssl.certificate.location": value, "ssl.key.location": value}


def _require_pem(prefix: str, path: str, java: Mapping[str, str]) -> None:
    if java.get(f"{prefix}.type", "").upper() != "PEM" and not path.endswith((".pem", ".crt")):
        raise ConfigError(
            f"{prefix}.location={path}: a Java keystore cannot be read here. Export it as PEM "
            f"(keytool -exportcert -rfc) and set {prefix}.type=PEM"
        )


def _renamed(name: str) -> _Translate:
    return lambda value, _: {name: value}


def _dropped(value: str, java: Mapping[str, str]) -> dict[str, str]:
    return {}


_TRANSLATIONS: Final[Mapping[str, _Translate]] = {
    "sasl.jaas.config": _jaas,
    "ssl.truststore.location": _truststore,
    "ssl.truststore.certificates": _renamed("ssl.ca.pem"),
    "ssl.truststore.type": _dropped,  # Read by the entry above.
    "ssl.keystore.location": _keystore,
    "ssl.keystore.type": _dropped,
    "ssl.keystore.certificate.chain": _renamed("ssl.certificate.pem"),
    "ssl.keystore.key": _renamed("ssl.key.pem"),
    "ssl.endpoint.identification.algorithm": lambda value, _: {
        "ssl.endpoint.identification.algorithm": value or "none"
    },
    "request.timeout.ms": _renamed("socket.timeout.ms"),
}
