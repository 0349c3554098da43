"""Text that came from somewhere else, made fit for a terminal: what one would act on is shown, not done.

Names of groups, clients and transactions, their metadata, values of configs and what a broker says of an error are
whatever somebody made them.
"""

import re
from typing import Final

_MARKS: Final = "\u2028-\u202e\u2066-\u2069"
"""Ends of lines and turns of direction that are no control characters."""

_ACTIVE: Final = re.compile(rf"[\x00-\x1f\x7f-\x9f{_MARKS}]")
_ACTIVE_IN_LINES: Final = re.compile(
    rf"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f{_MARKS}]"
)
"""The same in text of ours: which has line ends, tabs and colours."""


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """`text` on one line, its control characters as Python writes them."""
    return text if text.isprintable() else _ACTIVE.sub(_shown, text)


def escaped_lines(text: str) -> str:
    """`text` of ours that holds such names: its lines and colours stay, the rest is escaped."""
    return text if text.isprintable() else _ACTIVE_IN_LINES.sub(_shown, text)
