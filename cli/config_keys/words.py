"""Config keys for completion: their names, defaults, possible values, and a sentence about each.

The table is `words.tsv`, generated from the keys of the broker and the clients
(`scripts/generate_completions.py`; a test fails if it is stale), because importing those takes
longer than completion may. A line is `kind key default values about`, separated by tabs; `values`
begins with `*` if several may be given.
"""

import os
from collections.abc import Mapping

KINDS = ("topic", "broker", "group", "client-metrics", "client")

Word = tuple[str, str, str]
"""The default (`-` if there is none), the possible values, and a sentence about the key."""

_TABLE = os.path.join(os.path.dirname(__file__), "words.tsv")
_loaded: dict[str, dict[str, Word]] = {}


def config_words(kind: str) -> Mapping[str, Word]:
    """The keys of a kind (one of KINDS); none for any other."""
    if not _loaded:
        with open(_TABLE, encoding="utf-8") as file:
            for line in file:
                of, key, default, values, about = line.rstrip("\n").split("\t")
                _loaded.setdefault(of, {})[key] = (default, values, about)
    return _loaded.get(kind, {})


def about(key: str, word: Word, present: str | None) -> str:
    """The text beside a key: its current value, its default and its meaning."""
    default, _, doc = word
    parts = [f"now {_shown(key, present)}"] if present is not None else []
    if default not in ("-", ""):
        parts.append(f"default {_shown(key, default)}")
    return " · ".join(filter(None, [*parts, doc]))


_UNITS = {
    ".ms": ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "min")),
    ".bytes": ((1 << 30, "GiB"), (1 << 20, "MiB")),
}


def _shown(key: str, value: str) -> str:
    """A value with its equivalent in a common unit: `604800000 (7 days)`."""
    if len(value) > 18:
        return "the largest" if value == str(2**63 - 1) else value[:40] + "…" * (len(value) > 40)
    units = next((units for end, units in _UNITS.items() if key.endswith(end)), ())
    if value.isascii() and value.isdigit():
        for size, unit in units:
            if int(value) >= size and int(value) % size == 0:
                number = int(value) // size
                plural = "s" if number != 1 and unit in ("day", "hour") else ""
                return f"{value} ({number} {unit}{plural})"
    return value or "(empty)"


_DAY_MS = 86_400_000
_TIMES = (
    (3_600_000, "1 hour"),
    (_DAY_MS, "1 day"),
    (7 * _DAY_MS, "7 days"),
    (30 * _DAY_MS, "30 days"),
)
_SIZES = ((1 << 20, "1 MiB"), (1 << 27, "128 MiB"), (1 << 30, "1 GiB"), (10 << 30, "10 GiB"))


def values_of(key: str, word: Word, present: str | None) -> list[tuple[str, str]]:
    """Values for a key, each with its meaning: all that are possible, or else examples."""
    default, values, _ = word
    found: dict[str, str] = {}
    if present is not None:
        found[present] = "now"
    if default not in ("-", ""):
        found[default] = "now, and the default" if default == present else "default"
    if values:
        for value in values.removeprefix("*").split(","):
            found.setdefault(value, "")
    elif key.startswith(("retention.", "local.retention.", "segment.", "delete.retention.")):
        some = _TIMES if key.endswith(".ms") else _SIZES if key.endswith(".bytes") else ()
        for number, meaning in some:
            found[str(number)] = " · ".join(filter(None, (found.get(str(number)), meaning)))
        if "retention." in key and not key.startswith("delete."):
            found["-1"] = " · ".join(filter(None, (found.get("-1"), "no limit")))
    return list(found.items())
