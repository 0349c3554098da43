"""The subject of an X.509 certificate in Java's form (RFC 2253): `CN=alice,OU=people,O=example`.

Principals and their mapping rules use Java's form, so it is built here from the certificate's
bytes.
"""

from __future__ import annotations

from typing import Final

from pk.core.auth.certificate import SUBJECT, CertificateError, certificate_field
from pk.core.auth.der import DerError, element

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that RFC 2253 names. Others are shown by number, with their bytes."""

_SEQUENCE, _SET, _OID = 0x30, 0x31, 0x06
_ENCODINGS: Final = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1B: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}
_ESCAPED: Final = frozenset(',=+<>#;"\\')


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER, or "" if it has none. Raises CertificateError."""
    tag, subject = certificate_field(certificate, SUBJECT)
    try:
        if tag != _SEQUENCE:
            raise CertificateError("no subject")
        names = [_relative_name(one) for one in _elements(subject, _SET)]
    except (DerError, IndexError, UnicodeDecodeError) as e:
        raise CertificateError("a certificate that cannot be read") from e
    return ",".join(reversed(names))


def _elements(data: bytes, tag: int) -> list[bytes]:
    found: list[bytes] = []
    position = 0
    while position < len(data):
        one, content, position = element(data, position)
        if one != tag:
            raise CertificateError("an invalid subject")
        found.append(content)
    return found


def _relative_name(data: bytes) -> str:
    return "+".join(_attribute(one) for one in _elements(data, _SEQUENCE))


def _attribute(data: bytes) -> str:
    tag, oid, position = element(data, 0)
    if tag != _OID:
        raise CertificateError("an attribute without a number")
    kind, value, end = element(data, position)
    number = _number(oid)
    keyword, encoding = _KEYWORDS.get(number), _ENCODINGS.get(kind)
    if keyword is None or encoding is None:
        return f"{keyword or number}=#{data[position:end].hex()}"
    return f"{keyword}={_escaped(value.decode(encoding))}"


def _number(oid: bytes) -> str:
    numbers: list[int] = []
    value = 0
    for byte in oid:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(value)
            value = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _escaped(text: str) -> str:
    shown = "".join(f"\\{c}" if c in _ESCAPED else "\\00" if c == "\0" else c for c in text)
    stripped = shown.lstrip(" ")
    shown = "\\ " * (len(shown) - len(stripped)) + stripped
    stripped = shown.rstrip(" ")
    return stripped + "\\ " * (len(shown) - len(stripped))
