"""Kafka's principals, the identities of clients."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

USER: Final = "User"
"""The type of all principals that authenticate by Kafka's own protocols."""


class KafkaPrincipal(Struct, frozen=True):
    """The identity of a client for ACLs and quotas, such as `User:alice`."""

    type: str
    name: str
    token_authenticated: bool = False
    """Whether the client was authenticated by a delegation token. As in Kafka, it is the same
    principal nevertheless."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not KafkaPrincipal:
            return NotImplemented
        return (self.type, self.name) == (other.type, other.name)

    def __hash__(self) -> int:
        return hash((self.type, self.name))

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> KafkaPrincipal:
        """Parse `TYPE:NAME`; the name may contain colons. Raises ValueError with Apache's
        message."""
        kind, colon, name = text.partition(":")
        if not text:
            raise ValueError(
                "expected a string in format principalType:principalName but got empty string"
            )
        if not colon or not kind:
            raise ValueError(
                f"expected a string in format principalType:principalName but got {text}"
            )
        return cls(kind, name)


ANONYMOUS: Final = KafkaPrincipal(USER, "ANONYMOUS")
"""The principal of a connection that did not authenticate."""
