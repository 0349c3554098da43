"""Headings of help for the sets of options that many commands share."""

from typing import Final

CONNECTION: Final = "Connection"
OUTPUT: Final = "Output"
