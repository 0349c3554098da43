"""A certificate authority for development, and the certificates of nodes that it signs: PEM files
with keys that only the user can read. The certificates are valid only for this machine's names and
addresses."""

import datetime
import os
import platform
from ipaddress import ip_address
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pk.cli.exits import CommandError
from pk.cli.up.private_files import write_private

AUTHORITY_DAYS: Final = 3650
NODE_DAYS: Final = 397
"""The limit of Apple and of browsers, which some TLS libraries enforce."""
RENEWED_DAYS: Final = 30
"""A certificate that expires sooner is replaced at the next start."""
_SUBJECT: Final = "pk development CA"


class Authority:
    """The authority whose key and certificate are in a directory."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def in_directory(cls, directory: str) -> "Authority":
        """The authority in `directory` (`ca.pem`, `ca-key.pem`), created if it is missing or about
        to expire. Raises CommandError."""
        certificate, key = os.path.join(directory, "ca.pem"), os.path.join(directory, "ca-key.pem")
        found = _read(certificate, key)
        if found is None:
            found = _new_authority()
            write_private(key, _key_pem(found[0]))
            write_private(certificate, found[1].public_bytes(Encoding.PEM))
        return cls(*found)

    def give(self, path: str, name: str) -> None:
        """Make sure that `path` contains a key and a certificate for the node `name` on this
        machine, signed by this authority. Raises CommandError."""
        found = _read(path, path)
        if found is not None and self._signed(found[1]):
            return
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName(_names_of_this_machine())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            _builder(_common_name(name), self._certificate.subject, key, NODE_DAYS)
            .add_extension(names, critical=False)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(_usage(authority=False), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        certificate = builder.sign(self._key, hashes.SHA256())
        write_private(path, _key_pem(key) + certificate.public_bytes(Encoding.PEM))

    def _signed(self, certificate: x509.Certificate) -> bool:
        try:
            certificate.verify_directly_issued_by(self._certificate)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True


def _new_authority() -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = _common_name(_SUBJECT)
    builder = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(authority=True), critical=True)
    )
    return key, builder.sign(key, hashes.SHA256())


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _names_of_this_machine() -> list[x509.GeneralName]:
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    host = platform.node()
    if host and host != "localhost" and host.isascii():
        names.append(x509.DNSName(host))
    return [*names, *(x509.IPAddress(ip_address(text)) for text in ("127.0.0.1", "::1"))]


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _read(certificate: str, key: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate] | None:
    """The key and the certificate in two files; None if one is missing or the certificate is about
    to expire."""
    try:
        with open(key, "rb") as file:
            found = load_pem_private_key(file.read(), password=None)
        with open(certificate, "rb") as file:
            signed = x509.load_pem_x509_certificate(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is not PEM"
        raise CommandError(f"{key} or {certificate} cannot be read: {why}.") from None
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise CommandError(f"{key} was not made by `pk up --secure`.")
    left = signed.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return None if left < datetime.timedelta(days=RENEWED_DAYS) else (found, signed)
