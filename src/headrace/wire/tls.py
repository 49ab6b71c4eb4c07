"""TLS on a connection that stands, and what went wrong with it in one sentence each.

Python's `ssl` does the work: TLS 1.2 and 1.3, the chain verified, the host name checked unless told otherwise. Files
are read anew for every connection, so that a certificate that was renewed is shown without a restart.
"""

import os
import socket
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headrace.errors import ConfigError
from headrace.wire.errors import TlsRefused, Unreachable
from headrace.wire.settings import Address, TlsSettings

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
# OpenSSL's numbers of what it finds wrong with a certificate.
_NOT_YET_VALID: Final = 9
_EXPIRED: Final = 10
_REVOKED: Final = 23
_OF_NOBODY_KNOWN: Final = frozenset({2, 18, 19, 20, 21})
_OF_ANOTHER_HOST: Final = frozenset({62, 64})


def tls_context(settings: TlsSettings) -> ssl.SSLContext:
    """Whom to trust and what to show; ConfigError names the setting whose file is of no use."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _VERSIONS[settings.protocols[0]]
    context.maximum_version = _VERSIONS[settings.protocols[-1]]
    context.check_hostname = settings.verifies and settings.checks_host
    context.verify_mode = ssl.CERT_REQUIRED if settings.verifies else ssl.CERT_NONE
    _trust(context, settings)
    if settings.ciphers is not None:
        with _blaming("ssl.cipher.suites", settings.ciphers):
            context.set_ciphers(settings.ciphers.replace(",", ":"))
    _show(context, settings)
    return context


def wrap(plain: socket.socket, address: Address, settings: TlsSettings) -> ssl.SSLSocket:
    """The same connection, to be secured: the plain socket is of no use any more, and hands are not shaken yet."""
    context = tls_context(settings)
    return context.wrap_socket(plain, server_hostname=address.host, do_handshake_on_connect=False)


def shake_hands(secured: ssl.SSLSocket, address: Address) -> None:
    try:
        secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        raise TlsRefused(_distrust(error, address)) from error
    except (ssl.SSLEOFError, ConnectionResetError, BrokenPipeError) as error:
        # Also what a broker does that is going down, so it may pass.
        raise Unreachable(f"{address} hung up on the TLS handshake: is security.protocol right?") from error
    except ssl.SSLError as error:
        raise TlsRefused(tls_trouble(error, address)) from error


def alert_of(secured: ssl.SSLSocket, error: OSError) -> ssl.SSLError | None:
    """The alert by which the other side ended a connection, if it said one.

    With TLS 1.3 a client may be talking before the server has looked at its certificate. Then the first that fails is
    our own sending, and why is still there to be read.
    """
    if isinstance(error, ssl.SSLError) and "ALERT" in _reason(error):
        return error
    try:
        secured.settimeout(0)
        secured.recv(1)
    except ssl.SSLError as later:
        return later if "ALERT" in _reason(later) else None
    except (OSError, ValueError):  # Nothing to be read, or nobody to read from.
        return None
    return None


def tls_trouble(error: ssl.SSLError, address: Address) -> str:
    """What an alert of the other side comes from, or its lack of sense. It may come as late as the first answer."""
    reason = _reason(error)
    if reason in {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"}:
        return f"{address} does not speak TLS: is security.protocol right?"
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason or "BAD_CERTIFICATE" in reason:
        return f"{address} wants another certificate than it was shown: see ssl.certificate.location ({reason})"
    if "UNKNOWN_CA" in reason or "CERTIFICATE_UNKNOWN" in reason:
        return f"{address} does not trust our certificate: see ssl.certificate.location"
    return f"no TLS with {address}: {_words(error)}"


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's own name for it, such as `KEY_VALUES_MISMATCH`. Some of Python's have only words, and no such field."""
    return getattr(error, "reason", None) or str(error)


def _words(error: ssl.SSLError) -> str:
    return _reason(error).lower().replace("_", " ")


def _distrust(error: ssl.SSLCertVerificationError, address: Address) -> str:
    code = error.verify_code
    if code == _EXPIRED:
        return f"the certificate of {address} has expired"
    if code == _NOT_YET_VALID:
        return f"the certificate of {address} is not valid yet"
    if code == _REVOKED:
        return f"the certificate of {address} was revoked"
    if code in _OF_ANOTHER_HOST:
        return (
            f"the certificate of {address} is for another host than {address.host!r} "
            "(ssl.endpoint.identification.algorithm=none would accept it)"
        )
    if code in _OF_NOBODY_KNOWN:
        return f"the certificate of {address} is signed by nobody we trust: see ssl.ca.location"
    return f"the certificate of {address} is not trusted: {error.verify_message}"


def _trust(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.ca_path is None and settings.ca_pem is None:
        context.load_default_certs()
    if settings.ca_path is not None:
        with _blaming("ssl.ca.location", settings.ca_path):
            is_directory = Path(settings.ca_path).is_dir()
            context.load_verify_locations(**{"capath" if is_directory else "cafile": settings.ca_path})
    if settings.ca_pem is not None:
        with _blaming("ssl.ca.pem"):
            context.load_verify_locations(cadata=settings.ca_pem)
    if settings.crl_path is not None:
        with _blaming("ssl.crl.location", settings.crl_path):
            context.load_verify_locations(cafile=settings.crl_path)
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF


def _show(context: ssl.SSLContext, settings: TlsSettings) -> None:
    with _as_file(settings.certificate_pem) as inline_chain, _as_file(settings.key_pem) as inline_key:
        chain = inline_chain or settings.certificate_path
        key = inline_key or settings.key_path
        if chain is None:
            if key is not None:
                raise ConfigError("there is a key to show, and no certificate: set ssl.certificate.location")
            return
        # An empty answer rather than none: without one OpenSSL would ask for the password on the terminal.
        password = settings.key_password or ""
        with _blaming("ssl.certificate.location", settings.certificate_path or "inline"):
            context.load_cert_chain(chain, key, password=lambda: password)


@contextmanager
def _as_file(pem: str | None) -> Iterator[str | None]:
    """A text as a file that nobody else may read and that is gone soon: OpenSSL takes chain and key from files only."""
    if pem is None:
        yield None
        return
    descriptor, path = tempfile.mkstemp(suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(pem)
        yield path
    finally:
        os.unlink(path)


@contextmanager
def _blaming(name: str, value: str | None = None) -> Iterator[None]:
    setting = name if value is None else f"{name}={value}"
    try:
        yield
    except ssl.SSLError as error:  # Also an OSError, with words for programmers.
        raise ConfigError(f"{setting} cannot be used: {_words(error)}") from error
    except OSError as error:
        raise ConfigError(f"{setting} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{setting} cannot be used: {error}") from error
