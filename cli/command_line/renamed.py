"""Commands that have been renamed. The old names work for one more version; help and completion do
not show them."""

from collections.abc import Sequence
from typing import Final

RENAMED: Final = {
    "history": "undo --list",
    "share-consume": "consume --share",
    **{
        f"{noun} {verb}": f"node {verb}"
        for noun in ("broker", "brokers")
        for verb in ("start", "stop", "status", "kill", "restart", "pause", "resume")
    },
    "nodes": "brokers",
    **{noun: "test faults" for noun in ("faults", "fault")},
    **{noun: "users tokens" for noun in ("tokens", "token")},
    **{noun: "spark pipeline" for noun in ("pipeline", "pipelines")},
    **{
        f"{noun}{verb}": "transactions producers"
        for noun in ("producers", "producer")
        for verb in ("", " describe", " list", " ls")
    },
}
"""The old words after `pk` → the words that replace them."""


def renamed(words: Sequence[str]) -> tuple[list[str], str]:
    """The words after `pk` with the current names, and a hint about the old ones; "" if there are
    none."""
    for count in (2, 1):
        old = " ".join(words[:count])
        new = RENAMED.get(old)
        if new is not None:
            return [*new.split(), *words[count:]], f"`pk {old}` is now `pk {new}`."
    return list(words), ""
