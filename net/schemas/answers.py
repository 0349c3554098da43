"""What every client of a registry knows of its answers."""

from typing import Final

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnreachable(Exception):
    """The registry does not answer, or what answers is none."""


ANSWERED: Final = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
"""The types in which a registry answers, the one that it prefers first."""
TAKEN: Final = frozenset({*ANSWERED, "application/octet-stream"})
"""The types of the bodies that it takes. A body without a type is taken for the last."""
