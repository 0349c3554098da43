"""How a command is declared: a typed function under a noun, with typer's `Annotated` parameters.

    TOPICS = Noun("topics")

    @TOPICS.command("delete", "rm", takes=(Change, Listing, Connection), examples=("pk topics delete old",))
    def delete(context: Context, topic: TopicsNamed) -> Running:
        \"\"\"Delete topics with all their records.\"\"\"
        from pk.cli.nouns.topics.delete import delete

        return delete(context, topic)

The docstring is the help. `takes` names sets of options (dataclasses of `option_sets`) that the context carries to the
worker. A parameter that is a dataclass itself is spread into options too, for commands that take many. What typer has no
word for stands in our `Option` and `Argument`, which are typer's with a few attributes more.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    TypeVar,
    get_args,
    get_origin,
)

import typer
from typer.main import get_command, get_group
from typer.models import ArgumentInfo, OptionInfo

from pk.cli.command_line.kit import Command, Group
from pk.cli.command_line.nouns import NOUNS
from pk.cli.command_line.words import NAMED

if TYPE_CHECKING:
    from pk.cli.output.schema import Shapes
    from pk.cli.runtime.context import Context

Running = Awaitable[int | None]
"""What a command's function returns: the work, to be awaited; at its end an exit code, or None if the context says it."""

Set = TypeVar("Set")
"""A set of options: a dataclass."""


class Option(OptionInfo):
    """typer's Option, and what completes its value.

    With `assumed` it may stand without a value, which is then that; it takes a value only after `=`, or where the next word
    is one of its choices or, for a pause, a time. Where it `takes_next`, the next word is its value unless it is an option,
    as Apache's parser has it. `separated` takes several values with commas between them. `shorthands` are hidden flags,
    each with the value of this option that it stands for.
    """

    def __init__(
        self,
        *names: str,
        help: str,
        value: str | None = None,
        parser: Callable[[str], Any] | None = None,
        complete: str | None = None,
        assumed: str | None = None,
        takes_next: bool = False,
        separated: bool = False,
        hidden: bool = False,
        panel: str | None = None,
        shorthands: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            default=...,
            param_decls=names,
            metavar=value,
            help=help,
            parser=parser,
            hidden=hidden,
            rich_help_panel=panel,
            show_default=False,
        )
        self.complete = complete
        self.assumed = assumed
        self.takes_next = takes_next
        self.separated = separated
        self.shorthands = dict(shorthands or {})
        self.one_of: tuple[str, ...] = ()
        """The values that each of several may be: typer knows them only of a single one."""

        self.gives: str | None = None
        """The argument whose value this option is."""


class Argument(ArgumentInfo):
    """typer's Argument, what completes it, and the option that may give its value instead (`named`)."""

    def __init__(
        self, name: str, *, help: str, complete: str | None = None, named: Option | None = None
    ) -> None:
        super().__init__(default=..., metavar=name, help=help, show_default=False)
        self.complete = complete
        self.named = named


class Declared:
    """A command as it was declared: its function, and what typer has no place for."""

    def __init__(
        self,
        function: Callable[..., Any],
        names: tuple[str, ...],
        takes: tuple[type, ...],
        examples: Sequence[str],
        notes: str,
        shows: "Shapes",
        rows: "Shapes",
        blocking: bool,
    ) -> None:
        self.function = function
        self.names = names
        self.takes = takes
        self.examples = tuple(examples)
        self.notes = notes
        self.shows = shows
        self.rows = rows
        self.blocking = blocking
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
                self.parameters += _parameters(each.name, each.annotation, each.default)
        for kind in takes:
            self.parameters += parameters_of(kind)

    def call(self, values: Mapping[str, Any]) -> "Callable[[Context], Any]":
        """The work, once the values are known: the function with all its arguments but the context."""
        own = {name: values[name] for name in self.own if name not in self.spread}
        for name, kind in self.spread.items():
            own[name] = gathered(kind, values)
        return lambda context: self.function(context, **own)


def gathered(kind: type[Set], values: Mapping[str, Any]) -> Set:
    """A set of options with its values."""
    return kind(**{f.name: values[f.name] for f in fields(kind) if f.name in values})  # pyright: ignore


def parameters_of(kind: Any) -> list[inspect.Parameter]:
    """The parameters that a dataclass stands for."""
    found: list[inspect.Parameter] = []
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        found += _parameters(field.name, field.type, default)
    return found


def _parameters(name: str, annotation: Any, default: Any) -> list[inspect.Parameter]:
    """The parameter as typer reads it, and the option that gives an argument's value too, if it has one."""
    info = next((a for a in get_args(annotation)[1:] if isinstance(a, Argument)), None)
    found = [_parameter(name, annotation, default)]
    if info is not None and info.named is not None:
        kind = get_args(annotation)[0]
        many = get_origin(kind) is tuple
        option = copy(info.named)
        option.gives = name
        kind = Annotated[kind if many else str | None, option]
        found.append(_parameter(f"{name}{NAMED}", kind, () if many else None))
    return found


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    """A parameter with `list` for `tuple`: typer reads a tuple as so many values at once."""
    kind, *infos = get_args(annotation)
    if get_origin(kind) is tuple:
        element = get_args(kind)[0]
        if get_origin(element) is Literal:
            (info,) = infos
            info.one_of, element = get_args(element), str
        kind = list[element]
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[(kind, *infos)],  # pyright: ignore
    )


def taking(*kinds: type) -> Callable[..., dict[str, Any]]:
    """A function that takes the options of these sets, and gives their values back."""
    return _taking([p for kind in kinds for p in parameters_of(kind)])


def _taking(parameters: list[inspect.Parameter]) -> Callable[..., dict[str, Any]]:
    def bound(**values: Any) -> dict[str, Any]:
        return values

    bound.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return bound


class Noun:
    """A noun of `pk --help`, or a command that is one word."""

    def __init__(self, name: str) -> None:
        self.entry = NOUNS[name]
        self.app = typer.Typer(
            cls=Group,
            help=self.entry.help,
            add_completion=False,
            rich_markup_mode=None,
        )
        self._one_word = False

    def command(
        self,
        *names: str,
        takes: tuple[type, ...] = (),
        examples: Sequence[str],
        notes: str = "",
        shows: "Shapes" = "",
        rows: "Shapes" = "",
        blocking: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a command by its names; without any, the noun itself is the command.

        A `blocking` command runs without an event loop. `shows` and `rows` are the row types of its JSON (see
        `pk.cli.output.schema`): every command with -f has them.
        """
        self._one_word = self._one_word or not names

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            declared = Declared(
                function,
                names or self.entry.names,
                takes,
                examples,
                notes,
                shows,
                rows,
                blocking,
            )

            bound = _taking(declared.parameters)
            bound.__doc__ = function.__doc__
            bound.declared = declared  # type: ignore[attr-defined]
            self.app.command(declared.names[0], cls=Command)(bound)
            return function

        return declare

    def for_typer(self) -> Command | Group:
        """The typer command that stands for this noun."""
        made = get_command(self.app) if self._one_word else get_group(self.app)
        assert isinstance(made, Command | Group)
        return made
