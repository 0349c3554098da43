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


_ACTIVE_BYTES: Final = re.compile(
    rb"\x1b(?!\[[0-9;]*m)|[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]"
    rb"|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
"""And in UTF-8."""


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def escaped(text: str) -> str:
    """`text` on one line, its control characters as Python writes them."""
    return text if text.isprintable() else _ACTIVE.sub(_shown, text)


def escaped_lines(text: str) -> str:
    """`text` of ours that holds such names: its lines and colours stay, the rest is escaped."""
    return text if text.isprintable() else _ACTIVE_IN_LINES.sub(_shown, text)


def escaped_bytes(data: bytes) -> bytes:
    """The same of what is written to a terminal as it is: records, lists in formats for programs."""
    return _ACTIVE_BYTES.sub(lambda found: found[0].decode().encode("unicode_escape"), data)
