"""The values of the parameters of a command line."""

from collections.abc import Iterable, Mapping
from typing import Any


class Values(dict[str, Any]):
    """The values of a command line, typed or default, by the names of its parameters, for code that
    handles any command, such as formats, schemas and the shell. A command gets its own options as a
    dataclass."""

    def __init__(self, values: Mapping[str, Any] | None = None, given: Iterable[str] = ()) -> None:
        super().__init__(values or {})
        self.given = frozenset(given)
        """The parameters that the command line gives."""
