"""The rows of `pk configs`."""

from collections.abc import Mapping
from typing import Annotated, Any, TypedDict

from pk.cli.config_keys.sources import source_word
from pk.cli.output.rows import Shown


class ConfigResourceRow(TypedDict):
    """A resource in `pk configs list`."""

    name: str
    type: Annotated[str, Shown(word=True)]


def _value_on_terminal(row: Mapping[str, Any]) -> str:
    from pk.cli.config_keys.units import both_ways

    if row["sensitive"]:
        return "(hidden)"
    return "-" if row["value"] is None else both_ways(str(row["name"]), row["value"])


class ConfigRow(TypedDict):
    """A config in `pk configs describe`."""

    resource: str
    name: str
    value: Annotated[
        str | None, Shown(show=lambda value: value or "(empty)", on_terminal=_value_on_terminal)
    ]
    source: Annotated[str, Shown(show=source_word, word=True)]
    type: Annotated[str, Shown(wide=True, word=True)]
    read_only: Annotated[bool, Shown(wide=True)]
    sensitive: Annotated[bool, Shown(wide=True)]
    synonyms: Annotated[dict[str, str | None], Shown(wide=True)]
    """`layer:key` → the value there; the layer that applies comes first."""


class DocumentedConfigRow(ConfigRow):
    """A config in `pk configs describe --docs`."""

    documentation: str | None
