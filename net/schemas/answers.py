"""The responses of a registry, as all its clients know them."""

from typing import Final

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnreachable(Exception):
    """The registry does not answer, or the server there is not a registry."""


ANSWERED: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The response types of a registry, the preferred one first."""
TAKEN: Final = frozenset({*ANSWERED, "application/octet-stream"})
"""The body types that it accepts. A body without a type counts as the last."""
