"""Negotiates media types of requests and responses (RFC 9110, 12.5.1)."""

from __future__ import annotations

from collections.abc import Sequence


def media_type(header: str) -> str:
    """Return the type in a `Content-Type` header, without its parameters."""
    return header.partition(";")[0].strip().lower()


def accepted(header: str | None, offered: Sequence[str]) -> str | None:
    """Return the type in `offered` (best first) that a client prefers by its `Accept` header; None
    if it accepts none of them. Without the header, returns the first."""
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
    """Return the quality of a type, from the most specific range that contains it."""
    for name in (kind, f"{kind.partition('/')[0]}/*", "*/*"):
        if name in ranges:
            return ranges[name]
    return 0.0


def _range(text: str) -> tuple[str, float | None]:
    """Return a media range and its quality; None for an invalid quality."""
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
