"""Headings of help, by which the sets of options are known that many commands share."""

from typing import Final

CONNECTION: Final = "Connection"
OUTPUT: Final = "Output"
