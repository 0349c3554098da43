"""A parsed command line."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pk.cli.command_line.tree import Command, Group
from pk.cli.options.option_values import Values

if TYPE_CHECKING:
    from pk.cli.command_line.declared import Declared
    from pk.cli.runtime.context import Context


class Parsed:
    """A parsed command line: the command, its values, and the work to do."""

    def __init__(
        self,
        node: Command | Group,
        path: tuple[str, ...],
        values: Values,
        typed: tuple[str, ...],
        work: "Callable[[Context], Any] | None" = None,
        declared: "Declared | None" = None,
        renamed: str = "",
    ) -> None:
        self.node = node
        self.path = path
        self.values = values
        self.typed = typed
        """The path as typed: `console-producer` instead of `produce`."""

        self.declared = declared
        """The command's declaration; None for a noun."""

        self.renamed = renamed
        """The hint about an old name on the command line; "" if there is none."""

        self.work = work
        """The work to do; None if only help is wanted."""

    @property
    def wants_help(self) -> bool:
        """Whether only help is wanted."""
        return self.work is None
