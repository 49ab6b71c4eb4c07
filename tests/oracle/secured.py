"""Apache Kafka behind TLS and SASL: one broker with a listener for each way of being secure, or badly secured.

Certificates are made anew for every run, by OpenSSL; users are made by Kafka's own tool.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headrace.testing.ports import lasting_ports
from tests.oracle.kafka import ApacheKafka, run_tool
from tests.oracle.toolbox import require_tool, run_checked

USER, PASSWORD = "alice", 'pass=w"ord; with, all \\ sorts'
SCRAM_USER, SCRAM_PASSWORD = "bob,=b", "scram secret"  # Kafka's tool has no way to write every password.
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS = 2000

_PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule"


class Listener(NamedTuple):
    protocol: str
    certificate: str | None = None
    mechanisms: tuple[str, ...] = ()
    more: Mapping[str, str] = {}


LISTENERS = {
    "SECURE": Listener("SASL_SSL", "server", MECHANISMS),
    "EXPIRED": Listener("SASL_SSL", "expired", MECHANISMS),
    "ELSEWHERE": Listener("SASL_SSL", "elsewhere", MECHANISMS),
    "ENCRYPTED": Listener("SSL", "server"),
    "MUTUAL": Listener("SSL", "server", more={"ssl.client.auth": "required"}),
    "PLAINLY": Listener("SASL_PLAINTEXT", None, ("PLAIN",), {"plain.connections.max.reauth.ms": str(SESSION_MS)}),
}


def jaas_quoted(text: str) -> str:
    """As a word of `sasl.jaas.config`."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def as_property(text: str) -> str:
    return text.replace("\\", "\\\\")


def jaas_config(mechanism: str, *, password: str | None = None) -> str:
    """The login of the user there is for a mechanism, in Java's words; with another password where told."""
    plain = mechanism == "PLAIN"
    user, right = (USER, PASSWORD) if plain else (SCRAM_USER, SCRAM_PASSWORD)
    login = _PLAIN_LOGIN if plain else _SCRAM_LOGIN
    word = jaas_quoted(right if password is None else password)
    return f"{login} required username={jaas_quoted(user)} password={word};"


class SecuredKafka(ApacheKafka):
    """Its plain listener is there too, for the broker itself and for making users."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ports = dict(zip(LISTENERS, lasting_ports(len(LISTENERS)), strict=True))
        self.certificates = directory / "certificates"

    def bootstrap_of(self, listener: str) -> str:
        return f"{self.host}:{self.ports[listener]}"

    def path_of(self, name: str) -> Path:
        return self.certificates / f"{name}.pem"

    def start(self) -> None:
        if not self.certificates.exists():
            self.certificates.mkdir(parents=True)
            make_certificates(self.certificates)
        super().start()
        for mechanism in MECHANISMS[1:]:
            run_tool(
                "kafka.admin.ConfigCommand",
                *("--bootstrap-server", self.bootstrap, "--alter", "--entity-type", "users"),
                *("--entity-name", SCRAM_USER, "--add-config", f"{mechanism}=[password={SCRAM_PASSWORD}]"),
            )

    def _all_properties(self) -> dict[str, str]:
        properties = super()._all_properties()
        for key in ("listeners", "advertised.listeners"):
            places = [f"{name}://{self.host}:{port}" for name, port in self.ports.items()]
            properties[key] = ",".join([properties[key], *places])
        protocols = [f"{name}:{listener.protocol}" for name, listener in LISTENERS.items()]
        properties["listener.security.protocol.map"] += "," + ",".join(protocols)
        for name, listener in LISTENERS.items():
            own = self._listener_properties(listener)
            properties |= {f"listener.name.{name.lower()}.{key}": as_property(value) for key, value in own.items()}
        return properties

    def _listener_properties(self, listener: Listener) -> dict[str, str]:
        own = dict(listener.more)
        if listener.certificate is not None:
            own |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.location": str(self.path_of(f"{listener.certificate}-both")),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(self.path_of("authority")),
            }
        if listener.mechanisms:
            own["sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
        for mechanism in listener.mechanisms:
            login = f"{_SCRAM_LOGIN} required;"
            if mechanism == "PLAIN":
                login = f"{_PLAIN_LOGIN} required user_{USER}={jaas_quoted(PASSWORD)};"
            own[f"{mechanism.lower()}.sasl.jaas.config"] = login
        return own


def make_certificates(into: Path) -> None:
    """An authority; what it signed for a server, in the wrong name, too long ago, and for a client; and a stranger."""
    for authority in ("authority", "stranger"):
        _openssl(into, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={authority}",
                 "-keyout", f"{authority}-key.pem", "-out", f"{authority}.pem")  # fmt: skip
    here = "IP:127.0.0.1,DNS:localhost"
    now = ("20200101000000Z", "21000101000000Z")
    for name, names, (start, end) in (
        ("server", here, now),
        ("elsewhere", "DNS:elsewhere.example", now),
        ("expired", here, ("20200101000000Z", "20210101000000Z")),
        ("client", "DNS:client", now),
    ):
        _openssl(into, "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
                 "-keyout", f"{name}-key.pem", "-out", f"{name}.csr")  # fmt: skip
        (into / "index.txt").write_text("")
        (into / "openssl.cnf").write_text(
            "[ca]\ndefault_ca=here\n[here]\ndatabase=index.txt\nrand_serial=yes\nnew_certs_dir=.\ndefault_md=sha256\n"
            f"policy=any\n[any]\ncommonName=supplied\n[names]\nsubjectAltName={names}\n"
        )
        _openssl(into, "ca", "-batch", "-notext", "-config", "openssl.cnf", "-extensions", "names",
                 "-cert", "authority.pem", "-keyfile", "authority-key.pem", "-startdate", start, "-enddate", end,
                 "-in", f"{name}.csr", "-out", f"{name}.pem")  # fmt: skip
        both = (into / f"{name}-key.pem").read_text() + (into / f"{name}.pem").read_text()
        (into / f"{name}-both.pem").write_text(both)


def _openssl(into: Path, *arguments: str) -> None:
    run_checked([require_tool("openssl", hint="the Debian package is openssl"), *arguments], cwd=into)
