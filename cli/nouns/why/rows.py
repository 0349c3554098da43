"""The rows of `pk why`: a row is a verdict, and an explanation also has evidence."""

from typing import Annotated, TypedDict

from pk.cli.output.amounts import show_count
from pk.cli.output.rows import Shown


class EvidenceRow(TypedDict):
    """A fact about a subject."""

    about: str
    what: str


class _Verdict(TypedDict):
    state: Annotated[str, Shown(word=True)]
    verdict: str


class _Next(TypedDict):
    next: list[str]
    """The commands that help, with all their words."""


class _Evidence(TypedDict):
    evidence: list[EvidenceRow]


class _OfPartition(TypedDict):
    partition: str


class PartitionVerdict(_OfPartition, _Verdict, _Next):
    """A partition, if --where, --columns or similar options are given to `pk why partition`."""


class ExplainedPartition(_OfPartition, _Verdict, _Evidence, _Next):
    """A partition in `pk why partition`."""


class _OfGroup(TypedDict):
    group: str


class _Lag(TypedDict):
    lag: Annotated[int, Shown(show=show_count)]


class GroupVerdict(_OfGroup, _Verdict, _Next):
    """A group, if --where, --columns or similar options are given to `pk why lag`."""


class ExplainedLag(_OfGroup, _Verdict, _Lag, _Evidence, _Next):
    """A group in `pk why lag`."""


class LayerRow(TypedDict):
    """A layer that sets a config's value. `value` is None for a secret."""

    layer: str
    key: str
    value: str | None
    wins: bool


class _OfResource(TypedDict):
    resource: str


class _Config(TypedDict):
    key: str
    value: str | None
    """None for a secret, or if brokers have different values."""

    source: Annotated[str, Shown(word=True)]
    layers: list[LayerRow]


class ConfigVerdict(_OfResource, _Verdict, _Next):
    """A config, if --where, --columns or similar options are given to `pk why config`."""


class ExplainedConfig(_OfResource, _Verdict, _Config, _Evidence, _Next):
    """A config in `pk why config`."""


class _Asked(TypedDict):
    principal: str
    operation: str


class DeniedVerdict(_OfResource, _Asked, _Verdict, _Next):
    """A question about ACLs, if --where, --columns or similar options are given to `pk why
    denied`."""


class ExplainedDenied(_OfResource, _Asked, _Verdict, _Evidence, _Next):
    """A question about ACLs in `pk why denied`."""
