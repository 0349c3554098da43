"""What a command line asks for, once it was understood."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pk.cli.command_line.bridge import Args
from pk.cli.command_line.tree import Command, Group

if TYPE_CHECKING:
    from pk.cli.command_line.declare import Declared
    from pk.cli.runtime.context import Context


class Parsed:
    """A command line that was understood: the command it names, its values, and the work to be done."""

    def __init__(
        self,
        node: Command | Group,
        path: tuple[str, ...],
        args: Args,
        typed: tuple[str, ...],
        work: "Callable[[Context], Any] | None" = None,
        declared: "Declared | None" = None,
    ) -> None:
        self.node = node
        self.path = path
        self.args = args
        self.typed = typed
        """The path in the words that were typed: `produce` for `console-producer`."""

        self.declared = declared
        """The command as it was declared; None for a noun."""

        self.work = work
        """What does it; None where only help is wanted."""

    @property
    def wants_help(self) -> bool:
        """Whether only help is wanted."""
        return self.work is None
