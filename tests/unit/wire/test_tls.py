"""TLS as a client meets it: certificates that are trusted, and one sentence for each that is not.

`certificates/make.sh` made the files.
"""

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.errors import ConfigError, HeadraceError
from headrace.protocol.messages import list_groups, produce
from headrace.wire.connection import Connection
from headrace.wire.errors import ConnectionClosed, TlsRefused, Unreachable, WireError
from headrace.wire.settings import TLS_PROTOCOLS, TlsSettings
from headrace.wire.tls import tls_context
from tests.unit.wire.scripted import TIMEOUT_S, Peer, ScriptedBroker

HERE = Path(__file__).with_name("certificates")
TRUSTED = str(HERE / "trusted.pem")
STRANGER = str(HERE / "stranger.pem")


def path_of(name: str) -> str:
    return str(HERE / f"{name}.pem")


def text_of(name: str) -> str:
    return Path(path_of(name)).read_text()


def answers(peer: Peer) -> None:
    peer.greet()
    peer.answer(peer.read(), {"groups": [{"group_id": "one"}]})
    peer.wait_closed()


@contextmanager
def server(certificate: str, *, asks_for: str | None = None, speaks: str | None = None) -> Iterator[ScriptedBroker]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if speaks is not None:
        context.minimum_version = context.maximum_version = ssl.TLSVersion[speaks.replace(".", "_")]
    context.load_cert_chain(path_of(certificate), path_of(f"{certificate}-key"))
    if asks_for is not None:
        context.load_verify_locations(asks_for)
        context.verify_mode = ssl.CERT_REQUIRED
    with ScriptedBroker(answers, tls=context) as broker:
        yield broker


def answer_from(broker: ScriptedBroker, settings: TlsSettings) -> str:
    with Connection(broker.address, broker.settings(tls=settings)) as connection:
        group: str = connection.call(list_groups.API, {})["groups"][0]["group_id"]
        assert connection.usable  # Tickets for later sessions may lie about unread; they are no end.
        return group


@pytest.mark.parametrize("settings", [TlsSettings(ca_path=TRUSTED), TlsSettings(ca_pem=text_of("trusted"))])
def test_a_certificate_that_is_trusted(settings: TlsSettings) -> None:
    with server("server") as broker:
        assert answer_from(broker, settings) == "one"


@pytest.mark.parametrize("spoken", ["TLSv1.2", "TLSv1.3"])
def test_only_a_protocol_that_is_enabled_is_spoken(spoken: str) -> None:
    other = next(each for each in TLS_PROTOCOLS if each != spoken)
    with server("server", speaks=spoken) as broker:
        assert answer_from(broker, TlsSettings(ca_path=TRUSTED)) == "one"
        assert answer_from(broker, TlsSettings(ca_path=TRUSTED, protocols=(spoken,))) == "one"
        with pytest.raises(WireError, match="protocol version"):
            answer_from(broker, TlsSettings(ca_path=TRUSTED, protocols=(other,)))


@pytest.mark.parametrize(
    ("certificate", "settings", "match"),
    [
        ("expired", TlsSettings(ca_path=TRUSTED), r"the certificate of 127\.0\.0\.1:\d+ has expired"),
        ("early", TlsSettings(ca_path=TRUSTED), "is not valid yet"),
        ("elsewhere", TlsSettings(ca_path=TRUSTED), r"is for another host than '127\.0\.0\.1'"),
        ("server", TlsSettings(ca_path=STRANGER), r"signed by nobody we trust: see ssl\.ca\.location"),
        ("server", TlsSettings(), r"signed by nobody we trust: see ssl\.ca\.location"),
    ],
)
def test_a_certificate_that_is_not(certificate: str, settings: TlsSettings, match: str) -> None:
    with server(certificate) as broker, pytest.raises(TlsRefused, match=match):
        answer_from(broker, settings)


@pytest.mark.parametrize(
    ("certificate", "settings"),
    [
        ("elsewhere", TlsSettings(ca_path=TRUSTED, checks_host=False)),
        ("expired", TlsSettings(verifies=False)),
    ],
)
def test_what_one_was_told_not_to_look_at(certificate: str, settings: TlsSettings) -> None:
    with server(certificate) as broker:
        assert answer_from(broker, settings) == "one"


@pytest.mark.parametrize(
    "settings",
    [
        TlsSettings(ca_path=TRUSTED, certificate_path=path_of("client"), key_path=path_of("client-key")),
        TlsSettings(ca_path=TRUSTED, certificate_pem=text_of("client"), key_pem=text_of("client-key")),
        TlsSettings(ca_path=TRUSTED, certificate_pem=text_of("client") + text_of("client-key")),
        TlsSettings(
            ca_path=TRUSTED,
            certificate_path=path_of("client"),
            key_path=path_of("client-key-locked"),
            key_password="secret",
        ),
    ],
    ids=["paths", "inline", "together", "locked"],
)
def test_a_certificate_of_our_own(settings: TlsSettings) -> None:
    with server("server", asks_for=TRUSTED) as broker:
        assert answer_from(broker, settings) == "one"


# With TLS 1.3 a server refuses a certificate when the client is through with the handshake. If it then closes the
# connection before we have read why, all that can be told is what is likely.


def test_a_certificate_of_our_own_that_is_missing() -> None:
    with server("server", asks_for=TRUSTED) as broker, pytest.raises(WireError, match=r"ssl\.certificate\.location"):
        answer_from(broker, TlsSettings(ca_path=TRUSTED))


def test_a_certificate_of_our_own_that_is_not_trusted() -> None:
    shown = TlsSettings(ca_path=TRUSTED, certificate_path=path_of("client"), key_path=path_of("client-key"))
    told = r"does not trust our certificate|ssl\.certificate\.location"
    with server("server", asks_for=STRANGER) as broker, pytest.raises(WireError, match=told):
        answer_from(broker, shown)


@pytest.mark.parametrize(
    ("asks_for", "shown", "match"),
    [
        (TRUSTED, {}, r"wants another certificate than it was shown: see ssl\.certificate\.location"),
        (
            STRANGER,
            {"certificate_path": path_of("client"), "key_path": path_of("client-key")},
            "does not trust our certificate",
        ),
    ],
)
def test_with_tls_1_2_it_is_always_told(asks_for: str, shown: dict[str, str], match: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(path_of("server"), path_of("server-key"))
    context.load_verify_locations(asks_for)
    context.verify_mode = ssl.CERT_REQUIRED
    with ScriptedBroker(answers, tls=context) as broker, pytest.raises(TlsRefused, match=match):
        answer_from(broker, TlsSettings(ca_path=TRUSTED, **shown))


def test_no_tls_on_the_other_side() -> None:
    def script(peer: Peer) -> None:
        peer.socket.recv(1)
        peer.socket.sendall(b"\x00\x00\x00\x10 not a handshake")
        peer.wait_closed()

    told = r"does not speak TLS: is security\.protocol right\?"
    with ScriptedBroker(script) as broker, pytest.raises(TlsRefused, match=told):
        answer_from(broker, TlsSettings(ca_path=TRUSTED))


def test_a_broker_that_hangs_up_on_the_handshake() -> None:
    def script(peer: Peer) -> None:
        peer.socket.recv(1 << 16)

    with ScriptedBroker(script) as broker, pytest.raises(Unreachable, match="hung up on the TLS handshake"):
        answer_from(broker, TlsSettings(ca_path=TRUSTED))


def test_a_handshake_that_never_ends() -> None:
    with (
        ScriptedBroker(Peer.wait_closed) as broker,
        Connection(broker.address, broker.settings(tls=TlsSettings(), connect_timeout_s=0.05)) as connection,
        pytest.raises(Unreachable, match="did not finish the TLS handshake in time"),
    ):
        connection.open()


def test_plain_words_to_a_tls_listener() -> None:
    with (
        server("server") as broker,
        Connection(broker.address, broker.settings()) as connection,
        pytest.raises(HeadraceError, match=r"security\.protocol"),
    ):
        connection.open()


def test_more_than_one_tls_record_each_way() -> None:
    parts = [bytes([number]) * 100_000 for number in range(5)]
    received = []

    def script(peer: Peer) -> None:
        peer.greet()
        received.append(peer._exactly(int.from_bytes(peer._exactly(4), "big")))
        peer.answer(peer.read(), {"groups": [{"group_id": "x" * 30_000} for _ in range(20)]})
        peer.wait_closed()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path_of("server"), path_of("server-key"))
    with ScriptedBroker(script, tls=context) as broker:
        settings = broker.settings(tls=TlsSettings(ca_path=TRUSTED))
        with Connection(broker.address, settings) as connection:
            connection.send_encoded(produce.API, parts, version=9, answered=False)
            groups = connection.call(list_groups.API, {})["groups"]
    assert received[0].endswith(b"".join(parts))
    assert [len(one["group_id"]) for one in groups] == [30_000] * 20


def test_closing_wakes_whoever_waits() -> None:
    asked = threading.Event()

    def script(peer: Peer) -> None:
        peer.greet()
        peer.read()
        asked.set()
        peer.wait_closed()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path_of("server"), path_of("server-key"))
    with ScriptedBroker(script, tls=context) as broker:
        connection = Connection(broker.address, broker.settings(tls=TlsSettings(ca_path=TRUSTED)))
        closer = threading.Thread(target=lambda: asked.wait(TIMEOUT_S) and connection.close())
        closer.start()
        with pytest.raises(ConnectionClosed):
            connection.call(list_groups.API, {})
        closer.join()
        assert connection._socket is None


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        (TlsSettings(ca_path="/absent.pem"), r"ssl\.ca\.location=/absent\.pem cannot be read: No such file"),
        (TlsSettings(ca_path=__file__), r"ssl\.ca\.location=.*test_tls\.py cannot be used"),
        (TlsSettings(ca_pem="nonsense"), r"ssl\.ca\.pem cannot be used"),
        (TlsSettings(crl_path="/absent.pem"), r"ssl\.crl\.location=/absent\.pem cannot be read"),
        (TlsSettings(certificate_path="/absent.pem"), r"ssl\.certificate\.location=/absent\.pem cannot be read"),
        (
            TlsSettings(certificate_path=path_of("client"), key_path=path_of("server-key")),
            r"ssl\.certificate\.location=.*client\.pem cannot be used: key values mismatch",
        ),
        (
            TlsSettings(certificate_path=path_of("client"), key_path=path_of("client-key-locked")),
            r"ssl\.certificate\.location=.*client\.pem cannot be used",
        ),
        (TlsSettings(key_path=path_of("client-key")), r"set ssl\.certificate\.location"),
        (TlsSettings(ciphers="NO-SUCH-CIPHER"), r"ssl\.cipher\.suites=NO-SUCH-CIPHER cannot be used"),
    ],
)
def test_files_that_are_of_no_use(settings: TlsSettings, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        tls_context(settings)
