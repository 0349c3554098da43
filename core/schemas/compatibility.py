"""The seven compatibility levels of a subject, and the check of a new version against the older
ones.

`BACKWARD`: a reader with the new schema can read data of the old one. `FORWARD`: a reader with the
old schema can read data of the new one. `FULL`: both. The transitive levels require this for every
older version, the others for the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct

LEVELS: Final = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)
DEFAULT_LEVEL: Final = "BACKWARD"

DIFFERENCES_MAX: Final = 100
"""The maximum number of differences listed, since a type that is used in many positions repeats its
own in each."""

T = TypeVar("T")


class Difference(Struct, frozen=True):
    """One reason why two schemas are not compatible."""

    kind: str
    """The name of the reason, such as `READER_FIELD_MISSING_DEFAULT_VALUE`."""

    path: str
    """The position in the schema."""

    description: str
    """The explanation, with `{new}` and `{old}` in place of the reader's and the writer's
    schema."""

    info: str = ""

    def message(self, *, new_reads: bool) -> str:
        """Return the message of the registry's API. `new_reads` says that the new schema was the
        reader's."""
        new, old = ("new", "old") if new_reads else ("old", "new")
        text = self.description.replace("{path}", self.path).replace("{info}", self.info)
        text = text.replace("{new}", new).replace("{old}", old)
        tail = f", additionalInfo:'{self.info}'" if self.info else ""
        return f"{{errorType:'{self.kind}', description:\"{text}\"{tail}}}"


class Verdict(Struct, frozen=True):
    """The result of a check: the index of the conflicting version, and the reasons. None and no
    reasons if all are compatible."""

    index: int | None = None
    messages: tuple[str, ...] = ()

    @property
    def compatible(self) -> bool:
        """Whether the new schema is compatible."""
        return self.index is None


def check(
    level: str, new: T, older: Sequence[T], differences: Callable[[T, T], list[Difference]]
) -> Verdict:
    """Check whether `new` is compatible with `older` (oldest first). `differences(reader, writer)`
    is the comparison of the language."""
    assert level in LEVELS
    if level == "NONE":
        return Verdict()
    checked = range(len(older)) if level.endswith("_TRANSITIVE") else range(len(older))[-1:]
    for index in reversed(checked):
        messages: list[str] = []
        if level.startswith(("BACKWARD", "FULL")):
            messages += [e.message(new_reads=True) for e in differences(new, older[index])]
        if level.startswith(("FORWARD", "FULL")):
            messages += [e.message(new_reads=False) for e in differences(older[index], new)]
        if messages:
            return Verdict(index, tuple(messages))
    return Verdict()
