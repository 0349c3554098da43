"""How a command is declared: a typed function under a noun, with typer's `Annotated` parameters.

    TOPICS = Noun("topics")

    @TOPICS.command(
        "delete", "rm", takes=(Change, Listing, Connection), examples=("pk topics delete old",)
    )
    def delete(context: Context, topic: TopicsNamed) -> Running:
        \"\"\"Delete topics with all their records.\"\"\"
        from pk.cli.nouns.topics.delete import delete

        return delete(context, topic)

The docstring is the help. `takes` names sets of options (dataclasses of `option_sets`) that the
context carries to the worker. A parameter that is a dataclass is expanded into options too, for
commands that take many. What typer cannot express is in our `Option` and `Argument`
(`pk.cli.command_line.parameters`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import typer
from typer.main import get_group

from pk.cli.command_line.callbacks import callback
from pk.cli.command_line.declared import Declared, RowsByOption, Screen
from pk.cli.command_line.kit import Command, Group
from pk.cli.command_line.nouns import NOUNS

Running = Awaitable[int | None]
"""What a command's function returns: the work, to be awaited; its result is an exit code, or None
to use the context's."""


class Noun:
    """A noun of `pk --help`, or a command that is one word."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.entry = NOUNS[name]
        self.app = typer.Typer(
            cls=Group,
            help=self.entry.help,
            add_completion=False,
            rich_markup_mode=None,
        )
        self.app.callback(invoke_without_command=True, add_help_option=False)(callback(()))
        self._one_word = False

    def command(
        self,
        *names: str,
        takes: tuple[type, ...] = (),
        examples: Sequence[str],
        notes: str = "",
        shows: RowsByOption = (),
        rows: RowsByOption = (),
        blocking: bool = False,
        guards_itself: bool = False,
        screen: Screen = "held",
        shows_waits: bool = False,
        in_shell: bool = True,
        from_use: bool = False,
        repeatable: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a command by its names; without any, the noun itself is the command.

        `Declared` says what the attributes mean. `shows` and `rows` are the row types of its JSON
        (see `pk.cli.output.schema`): every command with -f has them.
        """
        self._one_word = self._one_word or not names

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            declared = Declared(
                function=function,
                names=names or self.entry.names,
                takes=takes,
                examples=tuple(examples),
                notes=notes,
                shows=shows,
                rows=rows,
                blocking=blocking,
                guards_itself=guards_itself,
                screen=screen,
                shows_waits=shows_waits,
                in_shell=in_shell,
                from_use=from_use,
                repeatable=repeatable,
            )

            called = callback(declared.parameters, declared)
            called.__doc__ = function.__doc__
            self.app.command(declared.names[0], cls=Command, add_help_option=False)(called)
            return function

        return declare

    def for_typer(self) -> Command | Group:
        """The typer command for this noun."""
        made = get_group(self.app)
        assert isinstance(made, Group)
        found = next(iter(made.commands.values())) if self._one_word else made
        assert isinstance(found, Command | Group)
        found.name = self.name
        return found
