"""Translates the syntax of Apache's scripts into that of `pk`: `topics --create --topic x` is
`topics create --topic x`."""

from collections.abc import Sequence
from typing import Final

ACTIONS: Final[dict[str, frozenset[str]]] = {
    "topics": frozenset({"list", "describe", "create", "alter", "delete"}),
    "groups": frozenset({"list", "describe", "delete", "reset-offsets", "delete-offsets"}),
    "configs": frozenset({"describe", "alter"}),
    "acls": frozenset({"list", "add", "remove"}),
    "reassign": frozenset({"list", "cancel"}),
    "tokens": frozenset({"create", "renew", "expire"}),
}
"""The options of Apache's scripts that correspond to commands of pk, by noun."""

_SAME: Final = {
    "topic": "topics",
    "group": "groups",
    "consumer-groups": "groups",
    "config": "configs",
    "acl": "acls",
    "token": "tokens",
}

_CODEC: Final = "--compression-codec"

_DECODERS: Final = {
    "--offsets-decoder": ("--decoder", "offsets"),
    "--transaction-log-decoder": ("--decoder", "transactions"),
    "--share-group-state-decoder": ("--decoder", "share-groups"),
}
"""The options of kafka-dump-log.sh that select a decoder."""


def translated(words: Sequence[str]) -> list[str]:
    """Translate the words of a command line that only Apache's scripts accept."""
    found = list(words)
    if found[:1] == ["console-share-consumer"]:
        found[:1] = ["consume", "--share"]
    noun, rest = (found[0], found[1:]) if found else ("", [])
    if rest and rest[0].startswith("-"):
        actions = ACTIONS.get(_SAME.get(noun, noun), frozenset())
        action = next((word for word in rest if word[:2] == "--" and word[2:] in actions), None)
        if action is not None:
            rest.remove(action)
            return [noun, action[2:], *rest]
    if noun in ("log", "logs") and rest[:1] == ["dump"]:
        return [noun, *(part for word in rest for part in _DECODERS.get(word, (word,)))]
    if noun in ("produce", "console-producer") and _CODEC in rest:
        after = rest.index(_CODEC) + 1
        if rest[after : after + 1] == [] or rest[after].startswith("-"):
            return [noun, *rest[:after], "gzip", *rest[after:]]
    return found
