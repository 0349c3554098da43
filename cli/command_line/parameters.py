"""The parameters of a command: how options and arguments are declared, option sets, and what
typer's parameters say of them.

What typer cannot express is in our `Option` and `Argument`, which are typer's with a few more
attributes.
"""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import MISSING, fields
from typing import Annotated, Any, Final, Literal, TypeVar, cast, get_args, get_origin

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.models import ArgumentInfo, OptionInfo

NAMED: Final = "_by_option"
"""The suffix of the name of an option that gives an argument's value."""


Set = TypeVar("Set")
"""A set of options: a dataclass."""


class Option(OptionInfo):
    """typer's Option, with completion.

    With `assumed`, the option's value may be omitted and is then `assumed`; it takes a value only
    after `=`, or if the next word is one of its choices or, for a pause, a time. If it
    `takes_next`, the next word is its value unless that is an option, as in Apache's parser.
    `separated` takes several values with commas between them. `shorthands` are hidden flags, each
    with the value of this option that it sets.
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
        """The allowed values of each of several: typer supports them only for a single one."""

        self.gives: str | None = None
        """The argument that this option sets."""


class Argument(ArgumentInfo):
    """typer's Argument, with completion, and the option that may set its value instead
    (`named`)."""

    def __init__(
        self, name: str, *, help: str, complete: str | None = None, named: Option | None = None
    ) -> None:
        super().__init__(default=..., metavar=name, help=help, show_default=False)
        self.complete = complete
        self.named = named


def gathered(kind: type[Set], values: Mapping[str, Any]) -> Set:
    """A set of options with its values."""
    return kind(**{f.name: values[f.name] for f in fields(cast(Any, kind)) if f.name in values})


def parameters_of(kind: Any) -> list[inspect.Parameter]:
    """The parameters of a dataclass."""
    found: list[inspect.Parameter] = []
    for field in fields(kind):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        found += declared_parameters(field.name, field.type, default)
    return found


def declared_parameters(name: str, annotation: Any, default: Any) -> list[inspect.Parameter]:
    """The parameter for typer, and the option that also sets an argument, if it has one."""
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
    """A parameter with `list` for `tuple`: typer reads a tuple as a fixed number of values."""
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
        annotation=cast(Any, Annotated)[(kind, *infos)],
    )


def info_of(option: TyperOption) -> Option:
    """The declaration of an option."""
    info = option.type_descriptor.parameter_info
    assert isinstance(info, Option)
    return info


def choices_of(param: TyperOption | TyperArgument) -> tuple[str, ...]:
    """The allowed values of a parameter; empty if any are."""
    more = getattr(param.type_descriptor.parameter_info, "one_of", ())
    return tuple(param.type_descriptor.choices or more)


def long_name(option: TyperOption) -> str:
    """The name to show if there is space for one."""
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


def options_of(command: TyperCommand | TyperGroup) -> list[TyperOption]:
    """The options that a command declares."""
    return [p for p in command.params if isinstance(p, TyperOption)]


def arguments_of(command: TyperCommand) -> list[TyperArgument]:
    """The arguments that a command declares."""
    return [p for p in command.params if isinstance(p, TyperArgument)]
