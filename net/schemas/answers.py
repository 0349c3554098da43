"""The responses of a registry, as all its clients interpret them."""

import os
import ssl
from typing import Any, Final, cast

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnreachable(Exception):
    """The registry does not answer, or the server there is not a registry."""


def unreachable(url: str, error: Exception) -> RegistryUnreachable:
    """Return the exception to raise because `error` prevented a client from using the registry at
    `url`."""
    # trio's own errors report that all attempts failed, and repeat the address.
    cause: Any = error.__cause__ or error
    while isinstance(cause, BaseExceptionGroup):
        cause = cast("BaseExceptionGroup[Exception]", cause).exceptions[0]
    number = 0 if isinstance(cause, ssl.SSLError) else getattr(cause, "errno", None) or 0
    if isinstance(cause, ssl.SSLCertVerificationError):
        cause = f"its certificate is not trusted: {cause.verify_message}"
    why = os.strerror(number) if number > 0 else getattr(cause, "strerror", None) or str(cause)
    why = why or "it takes too long"
    return RegistryUnreachable(f"{url} does not answer: {why[:1].lower()}{why[1:]}")


RESPONSE_TYPES: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The response types of a registry, the preferred one first."""
ACCEPTED_TYPES: Final = frozenset({*RESPONSE_TYPES, "application/octet-stream"})
"""The body types that a registry accepts. A body without a type counts as the last."""
