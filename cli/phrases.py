"""Counts, lists and names in sentences."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pk.core.values import TopicPartition


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 topic`, `2 topics`, `1,204 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def partition_name(tp: "TopicPartition") -> str:
    """A partition in output: `orders/0`."""
    return tp.shown


def join(words: Sequence[str], limit: int = 8) -> str:
    """Join words in a sentence: `a, b and c`. A long list is cut, and ends with the number of the
    others."""
    shown = list(words[:limit])
    if len(words) > limit:
        return f"{', '.join(shown)} and {len(words) - limit} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
