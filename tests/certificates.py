"""Certificates for tests: an authority and the certificates that it signs, as files."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
NOW = datetime.datetime.now(datetime.UTC)


def name_of(text: str) -> x509.Name:
    """The name that is written `CN=alice,O=example`."""
    known = {
        "CN": NameOID.COMMON_NAME,
        "O": NameOID.ORGANIZATION_NAME,
        "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
        "C": NameOID.COUNTRY_NAME,
    }
    pairs = [one.split("=", 1) for one in text.split(",")]
    return x509.Name([x509.NameAttribute(known[key], value) for key, value in reversed(pairs)])


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key and, if another certificate signed it, its issuer."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    issuer: Certificate | None = None

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        hidden = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, hidden).decode()

    def write(self, path: Path, password: str | None = None) -> Path:
        """Writes the key and the certificate to one PEM file, as Kafka wants them."""
        path.write_text(self.key_pem(password) + self.pem)
        return path

    def write_trust(self, path: Path) -> Path:
        """Writes the certificate to a PEM file of trusted certificates."""
        path.write_text(self.pem)
        return path

    def write_pkcs12(self, path: Path, password: str) -> Path:
        """Key and chain as PKCS12."""
        others = [self.issuer.certificate] if self.issuer else None
        data = pkcs12.serialize_key_and_certificates(
            b"key", self.key, self.certificate, others, BestAvailableEncryption(password.encode())
        )
        path.write_bytes(data)
        return path

    def sign(
        self, subject: str, *hosts: str, days: int = 30, begins: datetime.timedelta = -60 * DAY
    ) -> Certificate:
        """A certificate for `subject` that is valid for these hosts. With negative `days`, it has
        expired; with positive `begins`, it is not valid yet."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [
            x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            for host in hosts
        ]
        builder = _builder(name_of(subject), self.certificate.subject, key, days, begins)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Certificate(builder.sign(self.key, hashes.SHA256()), key, self)


def authority(subject: str = "CN=Test Authority") -> Certificate:
    """A new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = name_of(subject)
    builder = _builder(name, name, key, 30, -60 * DAY).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), critical=True
    )
    return Certificate(builder.sign(key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    begins: datetime.timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + begins)
        .not_valid_after(NOW + days * DAY)
    )
