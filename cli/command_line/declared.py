"""A declared command (`pk.cli.command_line.declare`): its function, its parameters, and what typer
cannot hold."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any, cast

from typer.core import TyperCommand

from pk.cli.command_line.parameters import declared_parameters, gathered, parameters_of

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

Rows = type | tuple[type, ...]
"""A row type (`pk.cli.output.rows`), or several if the run decides which."""

RowsByOption = Rows | Mapping[str, Rows]
"""The row types of a command, or several by the option that chooses; `()` if it shows no rows."""


class Declared:
    """A declared command: its function, and what typer cannot hold."""

    def __init__(
        self,
        function: Callable[..., Any],
        names: tuple[str, ...],
        takes: tuple[type, ...],
        examples: Sequence[str],
        notes: str,
        shows: RowsByOption,
        rows: RowsByOption,
        blocking: bool,
        guards_itself: bool = False,
    ) -> None:
        self.function = function
        self.names = names
        self.takes = takes
        self.examples = tuple(examples)
        self.notes = notes
        self.shows = shows
        self.rows = rows
        self.blocking = blocking
        self.guards_itself = guards_itself
        own = [p for name, p in inspect.signature(function).parameters.items() if name != "context"]
        self.own = [p.name for p in own]
        self.spread: dict[str, type] = {}
        for each in own:
            if isinstance(each.annotation, type) and is_dataclass(each.annotation):
                self.spread[each.name] = each.annotation
        self.parameters: list[inspect.Parameter] = []
        for each in own:
            if each.name in self.spread:
                self.parameters += parameters_of(each.annotation)
            else:
                self.parameters += declared_parameters(each.name, each.annotation, each.default)
        for kind in takes:
            self.parameters += parameters_of(kind)

    def call(self, values: Mapping[str, Any]) -> "Callable[[Context], Any]":
        """The work for these values: the function with all arguments except the context."""
        own = {name: values[name] for name in self.own if name not in self.spread}
        for name, kind in self.spread.items():
            own[name] = gathered(kind, values)
        return lambda context: self.function(context, **own)


def declared_of(command: TyperCommand) -> Declared:
    """The declaration of a typer command."""
    return cast(Any, command.callback).declared
