"""For workers that still read `context.args`: the values of a command line in one namespace. It goes with the last of them."""

from typing import Any


class Args:
    """The values of a parsed command line, by option and argument name."""

    def __init__(self, values: dict[str, Any], given: frozenset[str]) -> None:
        self.__dict__.update(values)
        self._given = given

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the command has no option or argument {name!r}")

    def given(self, name: str) -> bool:
        """Whether the option or argument was on the command line."""
        return name in self._given

    def values(self) -> dict[str, Any]:
        """All values by name."""
        return {k: v for k, v in self.__dict__.items() if k != "_given"}
