"""OpenSSL contexts, created from `ssl.*` keys and cached until the keys or the files change.

New connections use the new certificate; existing ones continue with the old one. An invalid change
is logged, and the old context stays in use, so that an operator's mistake does not close a
listener.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
from base64 import b64decode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from time import monotonic
from typing import Final

import trio

from pk.core.auth.certificate import validity_of
from pk.net.tls.jks import Entries, StoreError
from pk.net.tls.settings import TlsSettings
from pk.net.tls.stores import entries_of_pem, read_store

logger = logging.getLogger("pk.server")

FILES_CHECKED_S: Final = 1.0
"""How often to check files for changes."""

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_1_3: Final[frozenset[str]] = frozenset(
    {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"}
)
_VERIFY: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
KEY_PASSWORD_BYTES_MAX: Final = 1024
"""Python's limit for passing a password to OpenSSL."""
_OTHER_KEY: Final = "the private key does not belong to the certificate"
_NOT_LOADED: Final = {
    "KEY_VALUES_MISMATCH": _OTHER_KEY,
    "KEY_TYPE_MISMATCH": _OTHER_KEY,
    "NO_CERTIFICATE_ASSIGNED": _OTHER_KEY,
    "CA_MD_TOO_WEAK": (
        "a certificate of the key store is signed with a digest that is too weak, such as SHA-1: "
        "sign it with SHA-256"
    ),
    "CA_KEY_TOO_SMALL": (
        "the key of an authority in the key store is too short: RSA needs 2048 bits"
    ),
    "EE_KEY_TOO_SMALL": "the private key is too short: RSA needs 2048 bits",
    "UNKNOWN_CERTIFICATE_TYPE": "the private key is of a type that cannot sign",
}
"""OpenSSL's reasons for rejecting a key with its certificates."""
_DATE: Final = "%Y-%m-%d %H:%M:%S UTC"
_SUITE: Final = re.compile(r"TLS_(?:(\w+?)_)?WITH_(\w+)|(TLS_\w+)")


class TlsError(ValueError):
    """TLS cannot be used as configured. The message names a key or a file, and no secret."""


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a listener. Raises TlsError. Reads files, so call it in a thread."""
    if not settings.has_keystore:
        raise TlsError(
            "ssl.keystore.location (or ssl.keystore.key) is missing: a TLS listener needs a key"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = _VERIFY[settings.client_auth]
    if settings.client_auth != "none" and not settings.has_truststore:
        raise TlsError(
            f"ssl.client.auth={settings.client_auth} needs ssl.truststore.location, with the "
            "authorities of clients' certificates"
        )
    context.num_tickets = 0
    _configure(context, settings)
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client. Raises TlsError. Reads files, so call it in a thread."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    algorithm = settings.endpoint_identification_algorithm.strip().lower()
    if algorithm not in ("", "https"):
        raise TlsError(
            "ssl.endpoint.identification.algorithm must be https, or empty to check no host names"
        )
    context.check_hostname = algorithm == "https"
    if not settings.has_truststore:
        context.load_default_certs()
    _configure(context, settings)
    return context


def _configure(context: ssl.SSLContext, settings: TlsSettings) -> None:
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        _set_versions(context, settings)
        if settings.has_truststore:
            _load_trusted(context, settings)
        if settings.has_keystore:
            _load_key(context, settings)
    except StoreError as e:
        raise TlsError(str(e)) from None


def _load_trusted(context: ssl.SSLContext, settings: TlsSettings) -> None:
    try:
        context.load_verify_locations(cadata="".join(_trusted(settings)))
    except ssl.SSLError:
        raise TlsError("a certificate of the trust store is damaged") from None


def _trusted(settings: TlsSettings) -> list[str]:
    if settings.truststore_certificates:
        _only_pem(
            "ssl.truststore.certificates", settings.truststore_type, settings.truststore_location
        )
        entries, where = (
            entries_of_pem(settings.truststore_certificates),
            "ssl.truststore.certificates",
        )
    else:
        where = settings.truststore_location or ""
        entries = read_store(where, settings.truststore_type, settings.truststore_password)
    if not entries.trusted:
        raise TlsError(f"{where} has no trusted certificate")
    return entries.trusted


def certificate_date_problem(
    settings: TlsSettings, option: str = "ssl.keystore.location"
) -> str | None:
    """Return why peers do not accept our certificate now: it has expired, or is not valid yet. None
    if its dates are valid. `option` is the option by which the user named its file. Raises
    TlsError. Reads files, so call it in a thread.

    The other certificates of the chain are not checked: a chain may end in an authority that has
    expired, and peers then use another one.
    """
    try:
        own = _keys(settings).chain[0]
    except StoreError as e:
        raise TlsError(str(e)) from None
    if settings.keystore_location:
        where = f"{settings.keystore_location} ({option})"
    else:
        where = "ssl.keystore.certificate.chain"
    try:
        validity = validity_of(b64decode("".join(own.split("\n")[1:-2])))
    except ValueError:
        return f"the dates of the certificate in {where} cannot be read"
    now = datetime.now(UTC)
    if now > validity.end:
        return f"the certificate in {where} expired on {validity.end:{_DATE}}"
    if now < validity.begin:
        return f"the certificate in {where} is not valid before {validity.begin:{_DATE}}"
    return None


def _keys(settings: TlsSettings) -> Entries:
    if settings.keystore_key:
        _only_pem("ssl.keystore.key", settings.keystore_type, settings.keystore_location)
        entries = entries_of_pem(settings.keystore_key)
        entries.chain = entries_of_pem(settings.keystore_certificate_chain or "").chain
        where = "ssl.keystore.key with ssl.keystore.certificate.chain"
    else:
        where = settings.keystore_location or ""
        entries = read_store(
            where, settings.keystore_type, settings.keystore_password, settings.key_password
        )
    if entries.key is None or not entries.chain:
        raise TlsError(f"{where} has no private key with a certificate")
    return entries


def _only_pem(key: str, kind: str, location: str | None) -> None:
    if kind.upper() != "PEM":
        raise TlsError(f"{key} is only for stores of type PEM, not {kind}")
    if location:
        raise TlsError(f"{key} and a location are both given")


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    entries, asked = _keys(settings), False
    assert entries.key is not None

    def password() -> str:
        nonlocal asked
        asked = True
        if settings.key_password is None:
            raise TlsError("the private key is encrypted: ssl.key.password is missing")
        if len(settings.key_password.encode()) > KEY_PASSWORD_BYTES_MAX:
            raise TlsError(f"ssl.key.password is longer than {KEY_PASSWORD_BYTES_MAX} bytes")
        return settings.key_password

    with _as_file(entries.key + "".join(entries.chain)) as path:
        try:
            context.load_cert_chain(path, password=password)
        except ssl.SSLError as e:
            raise TlsError(_why_not_loaded(e, entries, asked_for_password=asked)) from None


def _why_not_loaded(error: ssl.SSLError, entries: Entries, *, asked_for_password: bool) -> str:
    """Return why OpenSSL rejects a key with its certificates. For unreadable ones, OpenSSL only
    reports "PEM lib"."""
    if error.reason in _NOT_LOADED:
        return _NOT_LOADED[error.reason]
    if error.reason:
        return f"OpenSSL refuses the key and its certificates: {reason_of(error)}"
    if not all(map(_is_certificate, entries.chain)):
        return "a certificate of the key store is damaged"
    if asked_for_password:
        return "the private key cannot be read: is ssl.key.password right?"
    return "the private key is damaged, or of a type that OpenSSL does not support"


def _is_certificate(text: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except ssl.SSLError:
        return False
    return True


@contextmanager
def _as_file(text: str) -> Generator[str]:
    """Write `text` to a file that no other user can read, because OpenSSL loads keys only from
    files. The file is in memory if the system supports that."""
    data = text.encode()
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pk-key")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    import tempfile

    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        yield file.name


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    named = settings.enabled_protocols
    versions = [_VERSIONS[name] for name in named if name in _VERSIONS]
    if not versions or len(versions) < len(named):
        raise TlsError("ssl.enabled.protocols must name TLSv1.2, TLSv1.3 or both")
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if not settings.cipher_suites:
        return
    suites = set(settings.cipher_suites)
    newest, older = suites & _SUITES_OF_1_3, suites - _SUITES_OF_1_3
    if newest and newest < _SUITES_OF_1_3 and ssl.TLSVersion.TLSv1_3 in versions:
        raise TlsError(
            "ssl.cipher.suites must name all suites of TLS 1.3 or none:"
            f" {', '.join(sorted(_SUITES_OF_1_3))}"
        )
    if not newest:
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    if not older:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    else:
        try:
            context.set_ciphers(":".join(map(_openssl_name, sorted(older))))
        except ssl.SSLError:
            raise TlsError("ssl.cipher.suites names no suite that OpenSSL supports here") from None
    if context.minimum_version > context.maximum_version:
        raise TlsError("ssl.cipher.suites has no suite for the ssl.enabled.protocols")


def _openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a cipher: `ECDHE-RSA-AES128-GCM-SHA256` for
    `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`. OpenSSL's own names are returned unchanged."""
    match = _SUITE.fullmatch(suite)
    if match is None:
        return suite
    exchange, cipher, other = match.groups()
    if other is not None:
        raise TlsError(f"ssl.cipher.suites: OpenSSL has no {suite}")
    cipher = cipher.replace("AES_128", "AES128").replace("AES_256", "AES256")
    cipher = cipher.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305").replace("_CBC_", "_")
    parts = [cipher] if exchange in (None, "RSA") else [exchange, cipher]
    return "-".join(parts).replace("_", "-")


def reason_of(error: ssl.SSLError) -> str:
    """Return the reason why a handshake failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or str(error)).replace("_", " ").lower()


class CurrentContext:
    """The context for settings and files, which may change."""

    def __init__(
        self,
        settings: Callable[[], TlsSettings],
        make: Callable[[TlsSettings], ssl.SSLContext],
        what: str,
    ) -> None:
        """Initialize the context. `what` is its name in the log."""
        self._settings = settings
        self._make = make
        self._what = what
        self._made_of: object = None
        self._tried: object = None
        self._context: ssl.SSLContext | None = None
        self._checked_at = -FILES_CHECKED_S
        self._stamps: tuple[object, ...] = ()
        self._lock = trio.Lock()

    async def get(self) -> ssl.SSLContext:
        """Return the newest context that could be created. Raises TlsError if none ever could."""
        settings = self._settings()
        if monotonic() - self._checked_at >= FILES_CHECKED_S:
            self._checked_at = monotonic()
            self._stamps = tuple(map(_stamp, settings.files))
        wanted = (settings, self._stamps)
        if self._context is not None and wanted in (self._made_of, self._tried):
            return self._context
        async with self._lock:
            if self._context is not None and wanted in (self._made_of, self._tried):
                return self._context
            self._tried = wanted
            try:
                context = await trio.to_thread.run_sync(self._make, settings)
            except TlsError as e:
                if self._context is None:
                    raise
                logger.error("%s: TLS files not reloaded: %s", self._what, e)
                return self._context
            if self._context is not None:
                logger.info("%s: TLS files reloaded", self._what)
            self._context, self._made_of = context, wanted
            return context


def _stamp(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError as e:
        return e.errno
    return found.st_mtime_ns, found.st_size, found.st_ino
