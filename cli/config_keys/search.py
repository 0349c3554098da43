"""`pk help configs`: searches all config keys that pk knows."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pk.cli.config_keys.docs import allowed
from pk.cli.config_keys.units import both_ways
from pk.cli.exits import Unusable
from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    TOPIC_SYNONYMS,
    Key,
    Scope,
)
from pk.core.nearest import did_you_mean

_KINDS: Final[dict[str, Mapping[str, Key]]] = {
    "topic": TOPIC_KEYS,
    "broker": {**BROKER_KEYS, **DYNAMIC_ONLY_KEYS},
    "group": GROUP_KEYS,
    "client-metrics": CLIENT_METRICS_KEYS,
}
_SCOPES: Final = {
    Scope.READ_ONLY: "only in the broker's file",
    Scope.PER_BROKER: "while the broker runs, for one broker",
    Scope.CLUSTER_WIDE: "while brokers run, for one or all",
}


class Found(NamedTuple):
    """A key, and the kind of resource that it belongs to."""

    kind: str
    key: Key


def search(words: Sequence[str]) -> list[Found]:
    """The keys whose names or documentation contain all words. The name of a kind also counts as a
    word."""
    words = [word.lower() for word in words]
    kinds = [w.removesuffix("s") if w != "client-metrics" else w for w in words]
    wanted = {kind for kind in kinds if kind in _KINDS}
    rest = [w for w, kind in zip(words, kinds, strict=True) if kind not in _KINDS]
    every = [
        Found(kind, key)
        for kind, keys in _KINDS.items()
        if not wanted or kind in wanted
        for key in sorted(keys.values(), key=lambda k: k.name)
    ]
    exact = [f for f in every if f.key.name in rest]
    named = [f for f in every if all(w in f.key.name for w in rest)]
    return (
        exact
        or named
        or [f for f in every if all(w in f"{f.key.name} {f.key.doc}".lower() for w in rest)]
    )


def configs_page(words: Sequence[str], width: int) -> str:
    """The documentation of the keys that `words` find; without words, the names of all keys. Raises
    Unusable."""
    if not words:
        return _names(width)
    found = search(words)
    if not found:
        known = sorted({n for keys in _KINDS.values() for n in keys})
        hint = did_you_mean(words[-1], known, "; `pk help configs` lists all.")
        raise Unusable(f"No config matches {' '.join(words)!r}{hint}")
    return "\n".join("\n".join(_entry(f, width)) for f in found)


def _entry(found: Found, width: int) -> list[str]:
    key = found.key
    default = "required" if key.required else f"default {both_ways(key.name, key.default)}"
    marks = [f"{found.kind} key", key.type.name.lower(), default]
    bounds = allowed(key)
    marks += [bounds] if bounds else []
    if found.kind == "broker":
        marks.append(_SCOPES[key.scope])
    if found.kind == "topic" and key.name in TOPIC_SYNONYMS:
        beneath = TOPIC_SYNONYMS[key.name]
        names = [beneath] if isinstance(beneath, str) else list(beneath)
        marks.append(f"of all topics: {', '.join(names)}")
    lines = [key.name]
    for text in ("; ".join(marks), key.doc):
        lines += textwrap.wrap(
            text, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False
        )
    return [*lines, ""]


def _names(width: int) -> str:
    lines = [
        "Config keys. `pk help configs WORD…` describes those it finds, such as",
        (
            "`pk help configs retention` or `pk help configs topic compact`; `pk configs describe` "
            "shows values."
        ),
    ]
    for kind, keys in _KINDS.items():
        lines += ["", f"{kind}:"]
        lines += textwrap.wrap(
            "  ".join(sorted(keys)),
            width,
            initial_indent="  ",
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
    return "\n".join(lines) + "\n"
