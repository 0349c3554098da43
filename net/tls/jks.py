"""Reads Java's old key stores (JKS) into PEM.

A store consists of a magic number, a version, and the number of entries; the entries, each a
private key with its chain or a trusted certificate; and a SHA-1 digest over the password and
everything before it. A private key is XORed with a stream of SHA-1 digests of the password and a
salt. That protects little, and Java itself now writes PKCS12, even to files named `.jks`.
"""

from __future__ import annotations

import struct
from base64 import encodebytes
from hashlib import sha1
from hmac import compare_digest
from typing import Final

from msgspec import Struct, field

from pk.core.auth.der import DerError, element
from pk.core.structs import repr_without

MAGIC: Final = b"\xfe\xed\xfe\xed"
_DIGEST_SALT: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY, _CERTIFICATE = 1, 2
_SUN_KEY_PROTECTOR: Final = bytes.fromhex("060a2b060104012a02110101")
"""The OID of the only algorithm that protects keys in a JKS."""


class StoreError(ValueError):
    """A store that cannot be read; the message contains no password."""


class Entries(Struct):
    """The entries of a store, in PEM."""

    key: str | None = None
    """The first private key."""
    chain: list[str] = field(default_factory=list[str])
    """The certificates of that key, its own first."""
    trusted: list[str] = field(default_factory=list[str])

    def __repr__(self) -> str:
        return repr_without(self, "key")


def pem(der: bytes, what: str) -> str:
    """Return DER as PEM."""
    return f"-----BEGIN {what}-----\n{encodebytes(der).decode()}-----END {what}-----\n"


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes. Raises StoreError if there are fewer."""
        found = self._data[self.position : self.position + count]
        if count < 0 or len(found) < count:
            raise StoreError("it is truncated")
        self.position += count
        return found

    def int32(self) -> int:
        """Return the next four bytes as a number."""
        return struct.unpack(">i", self.take(4))[0]

    def text(self) -> bytes:
        """Return the text after its length of two bytes."""
        return self.take(struct.unpack(">H", self.take(2))[0])

    def long_bytes(self) -> bytes:
        """Return the bytes after their length of four bytes."""
        return self.take(self.int32())


def read_jks(data: bytes, password: str | None, key_password: str | None) -> Entries:
    """Return the entries of a store; without a password, only its certificates, unchecked.
    `key_password` is the password of the key if it differs from the store's. Raises StoreError."""
    reader = _Reader(data)
    if reader.take(4) != MAGIC:
        raise StoreError("it is not a JKS file")
    version = reader.int32()
    if version not in (1, 2):
        raise StoreError(f"it is a JKS file of version {version}, which pk cannot read")
    if password is not None:
        _check(data, password)
    entries = Entries()
    for _ in range(reader.int32()):
        kind = reader.int32()
        reader.text()  # alias
        reader.take(8)  # creation time
        if kind == _KEY:
            hidden = reader.long_bytes()
            chain = [_certificate(reader, version) for _ in range(reader.int32())]
            secret = key_password or password
            if entries.key is None and secret is not None:
                entries.key = pem(_key(hidden, secret), "PRIVATE KEY")
                entries.chain = chain
        elif kind == _CERTIFICATE:
            entries.trusted.append(_certificate(reader, version))
        else:
            raise StoreError(f"it has an entry of kind {kind}")
    return entries


def _certificate(reader: _Reader, version: int) -> str:
    if version == 2:
        reader.text()  # X.509
    return pem(reader.long_bytes(), "CERTIFICATE")


def _check(data: bytes, password: str) -> None:
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    found = sha1(password.encode("utf-16-be") + _DIGEST_SALT + body).digest()
    if not compare_digest(found, digest):
        raise StoreError("its password is wrong, or it is damaged")


def _key(hidden: bytes, password: str) -> bytes:
    """Decrypt a key (PKCS 8): EncryptedPrivateKeyInfo with salt, bytes and check."""
    try:
        _, info, _ = element(hidden)
        _, algorithm, position = element(info)
        _, sealed, _ = element(info, position)
    except DerError:
        raise StoreError("its key is damaged") from None
    if not algorithm.startswith(_SUN_KEY_PROTECTOR):
        raise StoreError("its key is encrypted with an algorithm that JKS does not have")
    salt, body, check = sealed[:20], sealed[20:-20], sealed[-20:]
    secret = password.encode("utf-16-be")
    stream, last = bytearray(), salt
    while len(stream) < len(body):
        last = sha1(secret + last).digest()
        stream += last
    key = bytes(a ^ b for a, b in zip(body, stream, strict=False))
    if not compare_digest(sha1(secret + key).digest(), check):
        raise StoreError("the password of its key is wrong (ssl.key.password)")
    return key
