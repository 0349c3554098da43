"""A declared command (`pk.cli.command_line.declare`): its function, its parameters, and what typer
cannot hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from pk.cli.options.option_sets import Watch
from pk.cli.options.parameters import Parameter, fields_of, gathered, parameters_of

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

Rows = type | tuple[type, ...]
"""A row type (`pk.cli.output.rows`), or several if the type is known only when the command runs."""

RowsByOption = Rows | Mapping[str, Rows]
"""The row types of a command, or several by the option that chooses; `()` if it shows no rows."""


Screen = Literal["held", "streams", "paints"]
"""How a command writes to a terminal: `held` back until it is clear whether it fits the screen,
`streams` lines immediately, or `paints` the whole screen."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A declared command: its function, and what typer cannot hold."""

    names: tuple[str, ...]
    help: str
    """The purpose of the command, in a sentence or two."""

    worker: str
    """The function that does the work, as "module:function"; imported when the command runs."""

    options: type | None = None
    """The dataclass of its options, which the worker takes as `options`."""

    arguments: type | None = None
    """A dataclass of options whose fields the worker takes by name."""

    takes: tuple[type, ...] = ()
    examples: tuple[str, ...] = ()
    notes: str = ""
    shows: RowsByOption = ()
    rows: RowsByOption = ()
    blocking: bool = False
    """Whether the worker runs without an event loop."""

    guards_itself: bool = False
    """Whether the worker chooses its profile first, and then applies it
    (`pk.cli.runtime.guards.applying_profile`)."""

    screen: Screen = "held"
    shows_waits: bool = False
    """Whether the worker itself shows on the terminal which brokers it waits for."""

    in_shell: bool = True
    """Whether the command works in `pk shell`."""

    shell_needs: str = ""
    """The option, by its name in Python, without which the command would not return to `pk
    shell`."""

    from_use: bool = False
    """Whether the command may take its topic or group from `use` in the shell. If a command deletes
    or replaces something permanently, the user must type its target."""

    instead_of_use: tuple[str, ...] = ()
    """The options, by their names in Python, with which the command takes nothing from `use`, apart
    from the option that may give its first argument."""

    repeatable: bool | Callable[[Mapping[str, Any]], bool] = False
    r"""Whether `\w` in the shell may repeat the command with these values: it shows something and
    ends. Every command that takes -w (`Watch`) may be repeated."""

    @cached_property
    def parameters(self) -> list[Parameter]:
        """The command's options and arguments."""
        own = (kind for kind in (self.options, self.arguments) if kind is not None)
        return parameters_of(*own, *self.takes)

    def may_repeat(self, values: Mapping[str, Any]) -> bool:
        r"""Whether `\w` may repeat the command with these values."""
        if callable(self.repeatable):
            return self.repeatable(values)
        return self.repeatable or Watch in self.takes

    def function(self) -> Callable[..., Any]:
        """The worker, imported now."""
        module, _, name = self.worker.partition(":")
        return getattr(import_module(module), name)

    def call(self, values: Mapping[str, Any]) -> "Callable[[Context], Any]":
        """The work to do for these values."""
        own: dict[str, Any] = {}
        if self.options is not None:
            own["options"] = gathered(self.options, values)
        if self.arguments is not None:
            own |= {name: values[name] for name in fields_of(self.arguments)}
        return lambda context: self.function()(context, **own)
