"""Counts, lists and names as sentences have them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pk.core.values import TopicPartition


def count(number: int, one: str, many: str | None = None) -> str:
    """`1 topic`, `2 topics`, `1,204 records`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def partition_name(tp: "TopicPartition") -> str:
    """A partition as `pk` writes it: `orders/0`."""
    return tp.shown


def join(words: Sequence[str], limit: int = 8) -> str:
    """`a, b and c`; a long list is cut and ends in how many more there are."""
    shown = list(words[:limit])
    if len(words) > limit:
        return f"{', '.join(shown)} and {len(words) - limit} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))
