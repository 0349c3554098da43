"""What a command line asks for, once it was understood."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pk.cli.command_line.tree import Command, Group

if TYPE_CHECKING:
    from pk.cli.command_line.declare import Declared
    from pk.cli.runtime.context import Context


class Values(dict[str, Any]):
    """The values of a command line by the names of its parameters, typed or default: for what looks at any command, such as
    formats, schemas and the shell. A command gets its own options as a dataclass."""

    def __init__(self, values: Mapping[str, Any] | None = None, given: Iterable[str] = ()) -> None:
        super().__init__(values or {})
        self.given = frozenset(given)
        """The parameters that the command line names."""


class Parsed:
    """A command line that was understood: the command it names, its values, and the work to be done."""

    def __init__(
        self,
        node: Command | Group,
        path: tuple[str, ...],
        values: Values,
        typed: tuple[str, ...],
        work: "Callable[[Context], Any] | None" = None,
        declared: "Declared | None" = None,
    ) -> None:
        self.node = node
        self.path = path
        self.values = values
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
