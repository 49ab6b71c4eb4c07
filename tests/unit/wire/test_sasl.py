"""What SASL mechanisms say, against the examples of their RFCs and against servers that lie."""

import base64
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.errors import ErrorCode
from headrace.protocol.messages import sasl_authenticate, sasl_handshake
from headrace.protocol.schema import ApiMessages, Value
from headrace.wire.errors import AuthenticationRefused
from headrace.wire.sasl import Plain, Scram, authenticate
from headrace.wire.settings import Mechanism, SaslSettings

# RFC 7677 section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = NONCE + "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SERVER_FIRST = f"r={SERVER_NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = f"c=biws,r={SERVER_NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(username: str = "user", nonce: str = NONCE) -> Scram:
    return Scram(username, "pencil", digest="sha256", nonce=nonce)


def test_plain() -> None:
    exchange = Plain("al", "pässword")
    assert exchange.first() == b"\0al\0p\xc3\xa4ssword"
    assert exchange.done


def test_scram_as_the_rfc_has_it() -> None:
    exchange = scram()
    assert exchange.first() == f"n,,n=user,r={NONCE}".encode()
    assert exchange.answer(SERVER_FIRST.encode()) == CLIENT_FINAL.encode()
    assert not exchange.done
    assert exchange.answer(SERVER_FINAL.encode()) is None
    assert exchange.done


def test_commas_and_equals_signs_in_a_user_name() -> None:
    assert scram("a,b=c").first() == f"n,,n=a=2Cb=3Dc,r={NONCE}".encode()


def test_a_server_that_does_not_know_the_password() -> None:
    exchange = scram()
    exchange.first()
    exchange.answer(SERVER_FIRST.encode())
    with pytest.raises(AuthenticationRefused, match="signature"):
        exchange.answer(b"v=" + base64.b64encode(bytes(32)))
    assert not exchange.done


@pytest.mark.parametrize(
    ("challenge", "match"),
    [
        ("r=other,s=AAAA,i=4096", "nonce"),
        (f"r={NONCE},s=AAAA,i=4096", "nonce"),
        (f"r={SERVER_NONCE},s=AAAA,i=4095", "4095 iterations"),
        (f"r={SERVER_NONCE},s=AAAA,i=1000001", "1000001 iterations"),
        (f"r={SERVER_NONCE},s=AAAA,i=99999999999999999999", "iterations"),
        (f"r={SERVER_NONCE},s=AAAA,i=-1", "iterations"),
        (f"r={SERVER_NONCE},s=AAAA", "no iterations"),
        (f"r={SERVER_NONCE},s=?,i=4096", "'s'"),
        (f"r={SERVER_NONCE},i=4096", "'s'"),
        (f"m=x,r={SERVER_NONCE},s=AAAA,i=4096", "extension"),
        ("e=other-error", "other-error"),
        ("", "no sense"),
        ("nonsense", "no sense"),
        ("\xff", "no sense"),
    ],
)
def test_a_challenge_that_is_refused(challenge: str, match: str) -> None:
    exchange = scram()
    exchange.first()
    with pytest.raises(AuthenticationRefused, match=match):
        exchange.answer(challenge.encode("latin-1"))
    assert not exchange.done


# --- The conversation -----------------------------------------------------------------------------------------

SETTINGS = SaslSettings(mechanism=Mechanism.PLAIN, username="al", password="secret")


class Asked:
    def __init__(self, *answers: Mapping[str, Any]) -> None:
        self.said: list[tuple[ApiMessages, Mapping[str, Any]]] = []
        self._answers = list(answers)

    def __call__(self, api: ApiMessages, body: Mapping[str, Any]) -> Value:
        self.said.append((api, body))
        return {**api.response.struct.default(), **self._answers.pop(0)}


def test_a_conversation_in_plain() -> None:
    asked = Asked({}, {"session_lifetime_ms": 1500})
    assert authenticate(SETTINGS, "there", asked) == 1.5
    assert asked.said == [
        (sasl_handshake.API, {"mechanism": "PLAIN"}),
        (sasl_authenticate.API, {"auth_bytes": b"\0al\0secret"}),
    ]


def test_a_session_without_end() -> None:
    assert authenticate(SETTINGS, "there", Asked({}, {})) is None


def test_a_mechanism_that_is_not_taken_names_those_that_are() -> None:
    refused = {"error_code": ErrorCode.UNSUPPORTED_SASL_MECHANISM, "mechanisms": ["SCRAM-SHA-256", "GSSAPI"]}
    with pytest.raises(AuthenticationRefused, match=r"there does not take PLAIN, but SCRAM-SHA-256, GSSAPI"):
        authenticate(SETTINGS, "there", Asked(refused))


def test_a_listener_without_sasl() -> None:
    with pytest.raises(AuthenticationRefused, match=r"security\.protocol should be without SASL"):
        authenticate(SETTINGS, "there", Asked({"error_code": ErrorCode.ILLEGAL_SASL_STATE}))


def test_a_wrong_password() -> None:
    refused = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": "Invalid username or password"}
    with pytest.raises(AuthenticationRefused, match=r"there refused user 'al' by PLAIN: Invalid username or password"):
        authenticate(SETTINGS, "there", Asked({}, refused))


def test_a_server_that_calls_it_done_without_a_signature() -> None:
    settings = SaslSettings(mechanism=Mechanism.SCRAM_SHA_512, username="al", password="secret")
    with pytest.raises(AuthenticationRefused, match="not to be trusted with SCRAM-SHA-512"):
        authenticate(settings, "there", Asked({}, {"auth_bytes": b""}))
