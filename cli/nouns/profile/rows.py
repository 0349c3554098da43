"""The rows of `pk profile`."""

from typing import Annotated, TypedDict

from pk.cli.output.rows import Shown


class ProfileRow(TypedDict):
    """A profile."""

    profile: str
    bootstrap: str | None
    guard: Annotated[str, Shown(word=True)]
    color: Annotated[str | None, Shown("COLOR", word=True)]
    chosen: bool
    cluster_id: Annotated[str | None, Shown(wide=True)]
    properties: Annotated[dict[str, str], Shown(wide=True)]
    secrets: Annotated[dict[str, str], Shown(wide=True)]
    schema_registry: Annotated[str | None, Shown(wide=True)]
