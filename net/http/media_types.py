"""Which media type a client gets, and which it sends (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence


def media_type(header: str) -> str:
    """The type that a header `Content-Type` names, without its parameters."""
    return header.partition(";")[0].strip().lower()


def accepted(header: str | None, offered: Sequence[str]) -> str | None:
    """The type out of `offered`, the best first, that a client wants by its header `Accept`; None
    if it accepts none of them. Without a header it takes the first."""
    if header is None:
        return offered[0]
    ranges: dict[str, float] = {}
    for each in header.split(","):
        name, quality = _range(each)
        if name and quality is not None:
            ranges[name] = max(quality, ranges.get(name, 0.0))
    best, found = 0.0, None
    for kind in offered:
        quality = _quality(kind, ranges)
        if quality > best:
            best, found = quality, kind
    return found


def _quality(kind: str, ranges: dict[str, float]) -> float:
    """How much a type is wanted, by the most specific range that holds it."""
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


def _range(text: str) -> tuple[str, float | None]:
    """A media range and its quality; None for a quality that is none."""
    name, *parameters = text.split(";")
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "q":
            try:
                quality = float(value)
            except ValueError:
                return "", None
    kind = name.strip().lower()
    return ("*/*" if kind == "*" else kind), quality if 0 <= quality <= 1 else None
