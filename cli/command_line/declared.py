"""A declared command (`pk.cli.command_line.declare`): its function, its parameters, and what typer
cannot hold."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Literal

from pk.cli.command_line.option_sets import Watch
from pk.cli.command_line.parameters import (
    Parameter,
    declared_parameters,
    gathered,
    parameters_of,
)

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

Rows = type | tuple[type, ...]
"""A row type (`pk.cli.output.rows`), or several if the run decides which."""

RowsByOption = Rows | Mapping[str, Rows]
"""The row types of a command, or several by the option that chooses; `()` if it shows no rows."""


Screen = Literal["held", "streams", "paints"]
"""How a command writes to a terminal: `held` back until it is clear whether it fits the screen,
`streams` lines as they come, or `paints` the whole screen."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A declared command: its function, and what typer cannot hold."""

    function: Callable[..., Any]
    names: tuple[str, ...]
    takes: tuple[type, ...] = ()
    examples: tuple[str, ...] = ()
    notes: str = ""
    shows: RowsByOption = ()
    rows: RowsByOption = ()
    blocking: bool = False
    """Whether it runs without an event loop."""

    guards_itself: bool = False
    """Whether it chooses its profile first, and then applies it
    (`pk.cli.runtime.guards.applying_profile`)."""

    screen: Screen = "held"
    shows_waits: bool = False
    """Whether it shows on the terminal itself which brokers it waits for."""

    in_shell: bool = True
    """Whether it works in `pk shell`."""

    from_use: bool = False
    """Whether its topic or group may be the one that `use` set in the shell. A command that deletes
    or replaces something for good must have its target typed."""

    repeatable: bool | Callable[[Mapping[str, Any]], bool] = False
    """Whether `\\w` in the shell may repeat it, with these values: it shows something and ends.
    Every command that takes -w (`Watch`) may be."""

    own: tuple[str, ...] = field(init=False)
    spread: dict[str, type] = field(init=False, default_factory=dict[str, type])
    parameters: list[Parameter] = field(init=False, default_factory=list[Parameter])

    def __post_init__(self) -> None:
        signature = inspect.signature(self.function)
        own = [p for name, p in signature.parameters.items() if name != "context"]
        object.__setattr__(self, "own", tuple(p.name for p in own))
        for each in own:
            if isinstance(each.annotation, type) and is_dataclass(each.annotation):
                self.spread[each.name] = each.annotation
        for each in own:
            if each.name in self.spread:
                self.parameters.extend(parameters_of(each.annotation))
            else:
                found = declared_parameters(each.name, each.annotation, each.default)
                self.parameters.extend(found)
        for kind in self.takes:
            self.parameters.extend(parameters_of(kind))

    @property
    def help(self) -> str:
        """What it does, in a sentence or two."""
        return self.function.__doc__ or ""

    def may_repeat(self, values: Mapping[str, Any]) -> bool:
        """Whether `\\w` may repeat the command with these values."""
        if callable(self.repeatable):
            return self.repeatable(values)
        return self.repeatable or Watch in self.takes

    def call(self, values: Mapping[str, Any]) -> "Callable[[Context], Any]":
        """The work for these values: the function with all arguments except the context."""
        own = {name: values[name] for name in self.own if name not in self.spread}
        for name, kind in self.spread.items():
            own[name] = gathered(kind, values)
        return lambda context: self.function(context, **own)
