"""How a command is declared: its names, its options, and the function that does the work.

    TOPICS = Noun("topics")

    TOPICS.command(
        "create",
        help="Create topics.",
        worker="create:create",
        options=CreateTopics,
        takes=(Change, Listing, Connection),
        examples=("pk topics create orders -p 12",),
        shows=CreatedRow,
    )

`worker` is the function `create` in `create.py` of the noun's package, imported when the command
runs; a noun of one file names its own function, as in ":show_help". It gets the context and
`options`, a dataclass whose fields are options and arguments (`pk.cli.options.parameters`);
`arguments` is such a dataclass too, whose fields the worker takes by name. `takes` names sets of
options (`option_sets`) that the worker finds in the context.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import typer
from typer.main import get_command, get_group

from pk.cli.command_line.callbacks import callback
from pk.cli.command_line.declared import Declared, RowsByOption, Screen
from pk.cli.command_line.kit import Command, Group
from pk.cli.command_line.nouns import NOUNS


class Noun:
    """A noun of `pk --help`, or a command that is one word. Help shows the nouns below it after its
    commands or, with `nouns_first`, before them."""

    def __init__(self, name: str, *, nouns_first: bool = False) -> None:
        self.name = name
        self.nouns_first = nouns_first
        self.entry = NOUNS[name]
        self.app = typer.Typer(
            cls=Group,
            help=self.entry.help,
            add_completion=False,
            rich_markup_mode=None,
        )
        self.app.callback(invoke_without_command=True, add_help_option=False)(callback(()))
        self._one_word = False
        self._declarations: dict[str, Declared] = {}

    def command(
        self,
        *names: str,
        help: str,
        worker: str,
        options: type | None = None,
        arguments: type | None = None,
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
        shell_needs: str = "",
        from_use: bool = False,
        instead_of_use: tuple[str, ...] = (),
        repeatable: bool | Callable[[Mapping[str, Any]], bool] = False,
    ) -> None:
        """Declare a command by its names; without any, the noun itself is the command.

        `Declared` says what the attributes mean. `shows` and `rows` are the row types of its JSON
        (see `pk.cli.command_line.schema`): every command with -f has them.
        """
        self._one_word = self._one_word or not names
        module = self.entry.declared.partition(":")[0]
        package = module.rpartition(".")[0]
        worker = f"{module}{worker}" if worker.startswith(":") else worker
        declared = Declared(
            names=names or self.entry.names,
            help=help,
            worker=worker if worker.startswith("pk.") else f"{package}.{worker}",
            options=options,
            arguments=arguments,
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
            shell_needs=shell_needs,
            from_use=from_use,
            instead_of_use=instead_of_use,
            repeatable=repeatable,
        )
        self._declarations[declared.names[0]] = declared

    def for_typer(self) -> Command | Group:
        """The typer command for this noun."""
        if self._one_word:
            (declared,) = self._declarations.values()
            found: Command | Group = _command(declared)
        else:
            found = cast(Group, get_group(self.app))
            found.declarations, found.make = self._declarations, _command
            found.nouns_first = self.nouns_first
        return found


def _command(declared: Declared) -> Command:
    """The typer command of a declaration."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    declares = app.command(
        declared.names[0], cls=Command, help=declared.help, add_help_option=False
    )
    declares(callback(declared.parameters, declared))
    return cast(Command, get_command(app))
