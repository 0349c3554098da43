"""The fields of an X.509 certificate that pk reads itself (RFC 5280). DER is parsed only up to the
wanted field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from pk.core.auth.der import DerError, element

VALIDITY: Final = 3
"""The index of the validity, which follows the serial number, the signature's algorithm and the
issuer."""
SUBJECT: Final = 4
_VERSION: Final = 0xA0
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""The formats of times: UTCTime, and GeneralizedTime for years from 2050 on."""
_UTC_TIME_YEARS_END: Final = 2050


class CertificateError(ValueError):
    """The bytes are not a certificate."""


class Validity(Struct, frozen=True):
    """The first and last moment at which a certificate is valid, in UTC."""

    begin: datetime
    end: datetime


def certificate_field(certificate: bytes, index: int) -> tuple[int, bytes]:
    """Return the tag and the content of a field of a certificate in DER. `index` does not count the
    version. Raises CertificateError."""
    try:
        _, body, _ = element(certificate)
        _, fields, _ = element(body)
        tag, content, position = element(fields)
        for _ in range(index + (tag == _VERSION)):
            tag, content, position = element(fields, position)
    except DerError as e:
        raise CertificateError("a certificate that cannot be read") from e
    return tag, content


def validity_of(certificate: bytes) -> Validity:
    """Return the validity of a certificate in DER. Raises CertificateError."""
    _, content = certificate_field(certificate, VALIDITY)
    try:
        tag, begin, position = element(content)
        end_tag, end, _ = element(content, position)
        return Validity(_time(tag, begin), _time(end_tag, end))
    except (DerError, KeyError, ValueError) as e:
        raise CertificateError("a certificate whose dates cannot be read") from e


def _time(tag: int, content: bytes) -> datetime:
    time = datetime.strptime(content.decode(), _TIMES[tag]).replace(tzinfo=UTC)
    # Python reads the two-digit years 50 to 68 as 2050 to 2068; RFC 5280 means 1950 to 1968.
    if tag == 0x17 and time.year >= _UTC_TIME_YEARS_END:
        return time.replace(year=time.year - 100)
    return time
