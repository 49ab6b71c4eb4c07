"""SASL from the client's side: PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512. Who moves the bytes is not known here.

`authenticate` holds the conversation in Kafka's messages; an `Exchange` knows what a mechanism says, and no messages.
SCRAM (RFC 5802) is mutual: a server that does not know the password cannot sign, and an exchange is not done before
its signature was checked. User names are taken as they are, as Kafka takes them, without SASLprep.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from headrace.errors import ErrorCode
from headrace.protocol.messages import sasl_authenticate, sasl_handshake
from headrace.protocol.schema import ApiMessages, Value
from headrace.wire.errors import AuthenticationRefused, refusal
from headrace.wire.settings import Mechanism, SaslSettings

# Below, the password could be guessed from what a false server is sent (RFC 7677); above, a server could keep us busy.
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 1_000_000
_NONCE_BYTES: Final = 24
_NO_CHANNEL_BINDING: Final = b"n,,"


class Exchange(Protocol):
    done: bool  # Nothing is left to say, and we believe the server.

    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """What to say next, if anything; AuthenticationRefused where the server is not what it says."""
        ...


def authenticate(
    settings: SaslSettings, where: str, ask: Callable[[ApiMessages, Mapping[str, Any]], Value]
) -> float | None:
    """Say who we are, at `where`. Returns for how many seconds the broker believes it, where it does not for ever."""
    mechanism = settings.mechanism.value
    answer = ask(sasl_handshake.API, {"mechanism": mechanism})
    if answer["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        taken = ", ".join(answer["mechanisms"]) or "none"
        raise AuthenticationRefused(f"{where} does not take {mechanism}, but {taken}")
    if answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationRefused(f"{where} does not ask who we are: security.protocol should be without SASL")
    if answer["error_code"] != ErrorCode.NONE:
        raise AuthenticationRefused(str(refusal(answer["error_code"], f"{where} does not take {mechanism}")))
    exchange = start_exchange(settings)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = ask(sasl_authenticate.API, {"auth_bytes": token})
        if answer["error_code"] != ErrorCode.NONE:
            why = answer["error_message"] or refusal(answer["error_code"], "error")
            raise AuthenticationRefused(f"{where} refused user {settings.username!r} by {mechanism}: {why}")
        try:
            token = exchange.answer(answer["auth_bytes"])
        except AuthenticationRefused as error:
            raise AuthenticationRefused(f"{where} is not to be trusted with {mechanism}: {error}") from error
    assert exchange.done
    lifetime_ms: int = answer["session_lifetime_ms"]
    return lifetime_ms / 1000 if lifetime_ms > 0 else None


def start_exchange(settings: SaslSettings) -> Exchange:
    if settings.mechanism is Mechanism.PLAIN:
        return Plain(settings.username, settings.password)
    digest = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}[settings.mechanism]
    nonce = base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
    return Scram(settings.username, settings.password, digest=digest, nonce=nonce)


class Plain:
    """User and password as they are (RFC 4616)."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join([b"", username.encode(), password.encode()])
        self.done = False

    def first(self) -> bytes:
        self.done = True  # Whether they are right, the broker says by an error code.
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class Scram:
    """The nonce is an argument so that a test can replay an exchange; it must never be used twice."""

    def __init__(self, username: str, password: str, *, digest: str, nonce: str) -> None:
        self.done = False
        self._password = password.encode()
        self._digest = digest
        self._nonce = nonce
        self._bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return _NO_CHANNEL_BINDING + self._bare.encode()

    def answer(self, challenge: bytes) -> bytes | None:
        assert not self.done
        fields = _fields(challenge)
        if "e" in fields:
            raise AuthenticationRefused(f"the server says {fields['e']}")
        if self._server_signature is None:
            return self._prove(challenge.decode(), fields)
        signature = _bytes(fields, "v")
        if not hmac.compare_digest(signature, self._server_signature):
            raise AuthenticationRefused("the server does not know the password itself: its signature is wrong")
        self.done = True
        return None

    def _prove(self, server_first: str, fields: dict[str, str]) -> bytes:
        nonce, salt = fields.get("r", ""), _bytes(fields, "s")
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise AuthenticationRefused("the server's nonce does not continue ours")
        if "m" in fields:
            raise AuthenticationRefused(f"the server wants an extension that is not known here: {fields['m']}")
        iterations = _iterations(fields.get("i", ""))
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._digest, client_key).digest()
        final = f"c={base64.b64encode(_NO_CHANNEL_BINDING).decode()},r={nonce}"
        said = f"{self._bare},{server_first},{final}".encode()
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), said)
        signature = self._hmac(stored_key, said)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return f"{final},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _fields(message: bytes) -> dict[str, str]:
    """`a=b,c=d`; the values of ours hold no comma."""
    try:
        words = message.decode().split(",")
    except UnicodeDecodeError:
        words = [""]
    if not all(len(word) > 1 and word[1] == "=" for word in words):
        raise AuthenticationRefused("the server's part of the exchange makes no sense")
    return {word[0]: word[2:] for word in words}


def _bytes(fields: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(fields.get(name, "?"), validate=True)
    except binascii.Error:
        raise AuthenticationRefused(f"the server's part of the exchange has no good {name!r}") from None


def _iterations(text: str) -> int:
    iterations = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise AuthenticationRefused(
            f"the server asks for {text or 'no'} iterations, outside {ITERATIONS_MIN}..{ITERATIONS_MAX}"
        )
    return iterations
