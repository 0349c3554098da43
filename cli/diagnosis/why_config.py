"""Explains a config's value: which layer determines it, and which layers that overrides."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pk.cli.config_keys.units import both_ways
from pk.cli.diagnosis.explain import Evidence, Explanation
from pk.cli.diagnosis.snapshot import brokers_named
from pk.cli.phrases import join

LAYERS: Final = {
    "TOPIC": "set on the topic",
    "GROUP": "set on the group",
    "CLIENT_METRICS": "set on the subscription",
    "DYNAMIC_BROKER": "set on the broker at run time",
    "DYNAMIC_DEFAULT_BROKER": "set for all brokers at run time",
    "STATIC_BROKER": "in the broker's file",
    "DEFAULT": "Kafka's default",
}
"""The layers that may set a value, by precedence."""


class Layer(NamedTuple):
    """A value in one layer."""

    source: str
    key: str
    value: str | None


class ConfigFacts(NamedTuple):
    """A config and its layers."""

    what: str
    """The resource, as in `topic orders`."""

    words: str
    """The resource as words for `pk configs alter`."""

    key: str
    value: str | None
    source: str
    layers: Sequence[Layer]
    sensitive: bool = False
    read_only: bool = False
    differs: Mapping[str, tuple[int, ...]] = {}
    """Value → brokers, if the brokers' values differ in the layers below the topic."""

    overrides: Mapping[str, tuple[int, ...]] = {}
    """Key → brokers on which it is set at run time."""

    @property
    def by_leader(self) -> bool:
        """Whether the value depends on the broker that leads a partition."""
        return bool(self.differs) and self.source != "TOPIC"


def shown(key: str, value: str | None, *, sensitive: bool = False) -> str:
    """A value for people: `604800000 (7 days)`."""
    if sensitive:
        return "(secret)"
    if value is not None and (value == "" or value != value.strip()):
        return f"{value!r}"
    return both_ways(key, value)


def explain_config(f: ConfigFacts) -> Explanation:
    """The verdict on a config."""
    source = LAYERS.get(f.source, f.source.lower().replace("_", " "))
    won = next((layer for layer in f.layers if layer.source == f.source), None)
    under = f" as {won.key}" if won is not None and won.key != f.key else ""
    value = shown(f.key, f.value, sensitive=f.sensitive)
    verdict = f"{f.key} of {f.what} is {value}: {source}{under}."
    if f.by_leader:
        each = join([f"{shown(f.key, v)} on {brokers_named(ids)}" for v, ids in _by_broker(f)])
        verdict = f"{f.key} of {f.what} depends on the broker that leads the partition: {each}."
    evidence: list[Evidence] = []
    for layer in () if f.by_leader and f.overrides else f.layers:
        wins = layer is won and not f.by_leader
        name = LAYERS.get(layer.source, layer.source.lower())
        setting = f"{layer.key}={shown(layer.key, layer.value, sensitive=f.sensitive)}"
        evidence.append(Evidence(name, f"{setting}{'  ← this one wins' if wins else ''}"))
    if f.differs:
        values = join([f"{v} on {brokers_named(ids)}" for v, ids in _by_broker(f)])
        evidence.append(
            Evidence("brokers differ", f"{values}; the leader of a partition applies its own value")
        )
    for key, brokers in f.overrides.items():
        evidence.append(Evidence(f"{brokers_named(brokers)}", f"{key} is set at run time"))
    return Explanation(f.what, f.source.lower(), verdict, evidence, _next(f, won))


def _by_broker(f: ConfigFacts) -> list[tuple[str, tuple[int, ...]]]:
    return sorted(f.differs.items(), key=lambda each: each[1])


def _next(f: ConfigFacts, won: Layer | None) -> tuple[str, ...]:
    if f.read_only:
        return ()
    if f.overrides and f.source != "TOPIC":
        return tuple(
            f"pk configs alter broker {broker} --delete {key}"
            for key, brokers in f.overrides.items()
            for broker in brokers
        )
    if f.source in ("TOPIC", "GROUP", "DYNAMIC_BROKER"):
        return (f"pk configs alter {f.words} --delete {f.key}",)
    if f.source == "DYNAMIC_DEFAULT_BROKER" and won is not None:
        return (f"pk configs alter broker default --delete {won.key}",)
    if f.sensitive or f.value is None or f.by_leader:
        return ()
    import shlex

    return (f"pk configs alter {f.words} -c {shlex.quote(f'{f.key}={f.value}')}",)
