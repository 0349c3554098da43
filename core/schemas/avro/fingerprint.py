"""Avro's fingerprint of a schema: CRC-64-AVRO of its parsing canonical form."""

from __future__ import annotations

import json
from typing import Any

from pk.core.schemas.schema import missing_library


def crc_64(text: str) -> int:
    """Compute the fingerprint of a schema on its own, as in Avro's single-object encoding, as a
    number."""
    try:
        from fastavro.schema import fingerprint, to_parsing_canonical_form
    except ImportError as e:
        raise missing_library(e) from None
    schema: Any = json.loads(text)
    hexadecimal = fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO")
    return int.from_bytes(bytes.fromhex(hexadecimal), "little")
