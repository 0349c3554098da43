"""Reads the key and trust stores that Kafka's keys name: PEM (in a file or in the key itself),
PKCS12 and JKS. All are converted to PEM, which OpenSSL reads."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Final

from pk.net.tls.jks import MAGIC, Entries, StoreError, pem, read_jks

_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
STORE_BYTES_MAX: Final = 16 << 20


def entries_of_pem(text: str) -> Entries:
    """Return the keys and certificates in PEM, in order. Text around them is ignored."""
    entries = Entries()
    for match in _PEM.finditer(text):
        block = match[0] + "\n"
        if match[1].endswith("PRIVATE KEY"):
            entries.key = entries.key or block
        elif match[1] in ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE"):
            entries.chain.append(block)
    entries.trusted = list(entries.chain)
    return entries


def read_store(
    path: str, kind: str, password: str | None, key_password: str | None = None
) -> Entries:
    """Return the entries of a file. `kind` is PEM, PKCS12 or JKS; as in Java, the last two are
    distinguished by the content of the file. Raises StoreError, which names the file but no
    password."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as e:
        raise StoreError(f"{path} cannot be read: {e.strerror}") from None
    if len(data) > STORE_BYTES_MAX:
        raise StoreError(f"{path} is too large for a store")
    kind = kind.upper()
    if kind not in ("PEM", "PKCS12", "JKS"):
        raise StoreError(f"{path}: pk reads stores of type PEM, PKCS12 and JKS, not {kind}")
    try:
        if kind == "PEM":
            with contextlib.suppress(UnicodeDecodeError):
                return entries_of_pem(data.decode())
            raise StoreError("it is not PEM")
        if data.startswith(MAGIC):
            return read_jks(data, password, key_password)
        if b"-----BEGIN " in data:
            raise StoreError(
                f"it is PEM, not {kind}: set its type (ssl.truststore.type or ssl.keystore.type) "
                "to PEM"
            )
        return _read_pkcs12(data, password)
    except StoreError as e:
        raise StoreError(f"{path}: {e}") from None


def _read_pkcs12(data: bytes, password: str | None) -> Entries:
    # Import it only for such a store, since the import takes long.
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        pkcs12,
    )

    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError:
        raise StoreError("its password is wrong, or it is not a PKCS12 file") from None
    entries = Entries()
    others = [one.certificate.public_bytes(Encoding.DER) for one in store.additional_certs]
    if store.key is not None and store.cert is not None:
        entries.key = store.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()
        own = store.cert.certificate.public_bytes(Encoding.DER)
        entries.chain = [pem(der, "CERTIFICATE") for der in (own, *others)]
    entries.trusted = [pem(der, "CERTIFICATE") for der in others]
    return entries
