"""The dates of certificates, read from their bytes."""

from __future__ import annotations

import pytest
from certificates import authority
from cryptography.hazmat.primitives.serialization import Encoding
from each import for_each

from pk.core.auth.certificate import CertificateError, validity_of

CERTIFICATE = authority().sign("CN=alice").certificate
DER = CERTIFICATE.public_bytes(Encoding.DER)


def test_the_dates_of_a_certificate() -> None:
    read = validity_of(DER)
    assert read.begin == CERTIFICATE.not_valid_before_utc
    assert read.end == CERTIFICATE.not_valid_after_utc


@for_each(
    ("written", "year"),
    [
        (b"\x17\x0d490101000000Z", 2049),
        (b"\x17\x0d500101000000Z", 1950),
        (b"\x17\x0d680101000000Z", 1968),
        (b"\x17\x0d690101000000Z", 1969),
        (b"\x18\x0f20500101000000Z", 2050),
        (b"\x18\x0f99991231235959Z", 9999),
    ],
)
def test_the_year_of_a_date(written: bytes, year: int) -> None:
    fields = b"\x02\0\x30\0\x30\0\x30" + bytes([len(written) * 2]) + written * 2
    body = b"\x30" + bytes([len(fields)]) + fields
    assert validity_of(b"\x30" + bytes([len(body)]) + body).end.year == year


def test_no_dates() -> None:
    date = DER.index(b"\x17\x0d")
    for damaged in (b"", DER[:40], DER.replace(DER[date : date + 2], b"\x16\x0d")):
        with pytest.raises(CertificateError):
            validity_of(damaged)
    with pytest.raises(CertificateError):
        validity_of(DER[: date + 2] + b"xx" + DER[date + 4 :])
