"""The row of a changed config."""

from typing import Annotated, TypedDict

from pk.cli.config_keys.units import shown_value
from pk.cli.output.rows import Shown

AlteredValue = TypedDict(
    "AlteredValue",
    {
        "name": str,
        "from": Annotated[str | None, Shown(on_terminal=lambda row: shown_value(row, "from"))],
        "to": Annotated[str | None, Shown(on_terminal=lambda row: shown_value(row, "to"))],
        "to_source": Annotated[str | None, Shown(wide=True)],
        "result": str,
        "error": Annotated[str | None, Shown(wide=True)],
    },
)
"""A value before and after a change, or what the change would be. `to_source` is the layer that
supplies the value once a key is deleted; None if the key has a value of its own afterwards."""


class _OfResource(TypedDict):
    resource: str


class AlteredConfig(_OfResource, AlteredValue):
    """A config of a resource."""
