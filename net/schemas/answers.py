"""What every client of a registry knows of its answers."""

from typing import Final

CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryUnreachable(Exception):
    """The registry does not answer, or what answers is none."""
