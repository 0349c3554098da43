"""The table of terminal styles.

A style is a text in rich's syntax: `bold red`, `dim`, `bold reverse`. rich uses it directly;
`styled` applies it to the output that pk writes itself (lists of thousands of rows).
"""

from typing import Final

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "reverse": "7",
    "red": "31",
    "yellow": "33",
    "green": "32",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}

COLORS: Final = tuple(word for word, code in _CODES.items() if code.startswith("3"))
"""All colors, including those for profiles."""

RESET: Final = "\x1b[0m"


def codes_of(style: str | None, *, color: bool = True) -> str:
    """The numbers of a style's escape sequence, such as `1;33`; without `color`, only those that
    are not colors."""
    found = [_CODES[word] for word in (style or "").split()]
    return ";".join(code for code in found if color or not code.startswith("3"))


def with_codes(text: str, numbers: str) -> str:
    """`text` between the escape sequence with these numbers and the reset sequence."""
    return f"\x1b[{numbers}m{text}{RESET}" if numbers and text else text


def styled(text: str, style: str | None, *, color: bool = True) -> str:
    """`text` in a style, for a terminal."""
    return with_codes(text, codes_of(style, color=color))
