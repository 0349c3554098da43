"""The parameters of a command: declares options and arguments, and converts them for typer.

A declaration is `Annotated`, as for typer, with the `Option` and `Argument` of this module. They
say what typer's cannot: how a value is completed, that commas separate values, and which option may
give an argument.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeVar, cast, get_args, get_origin

import typer

from pk.cli.options.values import READERS

BY_OPTION: Final = "_by_option"
"""The suffix for the name of an option that gives the value of an argument."""

Set = TypeVar("Set")
"""A set of options: a dataclass."""


class Option:
    """An option. `value` is the word that help shows for its value, `parser` reads it if its type
    alone does not say how, and `complete` names the kind of its completion. A `separated` option
    takes several values with commas between them."""

    def __init__(
        self,
        *names: str,
        help: str,
        value: str | None = None,
        parser: Callable[[str], Any] | None = None,
        complete: str | None = None,
        separated: bool = False,
        hidden: bool = False,
        panel: str | None = None,
        eager: bool = False,
    ) -> None:
        self.names = names
        self.help = help
        self.value = value
        self.parser = parser
        self.complete = complete
        self.separated = separated
        self.hidden = hidden
        self.panel = panel
        self.eager = eager

    @property
    def long_name(self) -> str:
        """The name to show if only one is shown."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


class Argument:
    """An argument. `named` is the option that may give its value instead."""

    def __init__(
        self, name: str, *, help: str, complete: str | None = None, named: Option | None = None
    ) -> None:
        self.name = name
        self.help = help
        self.complete = complete
        self.named = named


class Parameter(NamedTuple):
    """A declared option or argument: its name in Python, and how its value is read."""

    name: str
    says: Option | Argument
    kind: Any
    """The type of the value, or of each value if there may be several."""

    many: bool
    default: Any
    """`inspect.Parameter.empty` if a value is required."""

    gives: str | None = None
    """The argument whose value this option gives."""

    @property
    def shown(self) -> str:
        """The name in errors."""
        return self.says.long_name if isinstance(self.says, Option) else self.says.name

    @property
    def names(self) -> tuple[str, ...]:
        """The names of an option."""
        return self.says.names if isinstance(self.says, Option) else ()

    @property
    def is_flag(self) -> bool:
        """Whether the option takes no value."""
        return self.kind is bool

    @property
    def required(self) -> bool:
        """Whether a value is required."""
        return self.default is inspect.Parameter.empty

    @property
    def choices(self) -> tuple[str, ...]:
        """The allowed values; empty if any value is allowed."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def read(self) -> Callable[[str], Any]:
        """The function that parses a value; raises ValueError."""
        parser = self.says.parser if isinstance(self.says, Option) else None
        return parser or READERS.get(self.kind, str)

    def for_typer(self) -> inspect.Parameter:
        """The parameter as typer parses it: typer returns strings, which `read` then parses."""
        says = self.says
        if isinstance(says, Option):
            info = typer.Option(
                *says.names,
                help=says.help,
                metavar=says.value,
                hidden=says.hidden,
                is_eager=says.eager,
                rich_help_panel=says.panel,
            )
            kind, default = (bool, False) if self.is_flag else (str | None, None)
        else:
            info = typer.Argument(help=says.help, metavar=says.name)
            kind, default = str | None, None
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[list[str] | None if self.many else kind, info],
        )


def signature(parameters: Iterable[Parameter]) -> inspect.Signature:
    """The signature of a function that typer calls with its context and these parameters."""
    context = inspect.Parameter(
        "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
    )
    return inspect.Signature([context, *(each.for_typer() for each in parameters)])


def fields_of(kind: type) -> tuple[str, ...]:
    """The names of the options of a set."""
    return tuple(field.name for field in fields(cast(Any, kind)))


def gathered(kind: type[Set], values: Mapping[str, Any]) -> Set:
    """Make a set of options from its values."""
    return kind(**{name: values[name] for name in fields_of(kind) if name in values})


def parameters_of(*kinds: Any) -> list[Parameter]:
    """The parameters of these dataclasses."""
    found: list[Parameter] = []
    for kind in kinds:
        for field in fields(kind):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            found += declared_parameters(field.name, field.type, default)
    return found


def declared_parameters(name: str, annotation: Any, default: Any) -> list[Parameter]:
    """A parameter and, if it is an argument that an option may give, that option."""
    kind, *infos = get_args(annotation)
    says = next(info for info in infos if isinstance(info, Option | Argument))
    many = get_origin(kind) is tuple
    element = get_args(kind)[0] if many else _without_none(kind)
    found = [Parameter(name, says, element, many, default)]
    if isinstance(says, Argument) and says.named is not None:
        none = () if many else None
        found.append(Parameter(f"{name}{BY_OPTION}", says.named, element, many, none, name))
    return found


def _without_none(kind: Any) -> Any:
    if get_origin(kind) is Literal:
        return kind
    return next((each for each in get_args(kind) if each is not type(None)), kind)


def options_of(parameters: Iterable[Parameter]) -> list[tuple[Parameter, Option]]:
    """The options among the parameters."""
    return [(each, each.says) for each in parameters if isinstance(each.says, Option)]


def arguments_of(parameters: Iterable[Parameter]) -> list[tuple[Parameter, Argument]]:
    """The arguments among the parameters."""
    return [(each, each.says) for each in parameters if isinstance(each.says, Argument)]


def placed(
    parameters: Sequence[Parameter], given: dict[str, Any], extra: list[str]
) -> tuple[dict[str, Any], list[str]]:
    """The texts that typer's parser found. The value of an option that gives an argument (`--topic
    x` for TOPIC) is put in the place of that argument. Also returns the texts that are too many
    then."""
    by_option = {
        each.gives: given.pop(each.name)
        for each in parameters
        if each.gives and given.get(each.name)
    }
    arguments = [each for each, _ in arguments_of(parameters)]
    texts: list[str] = []
    for each in arguments:
        found = given.pop(each.name, None)
        texts += [found] if isinstance(found, str) else found if isinstance(found, tuple) else ()
    texts += extra
    for i, each in enumerate(arguments):
        found = by_option.get(each.name)
        if found is not None:
            texts[i:i] = found if each.many else [found]
    for i, each in enumerate(arguments):
        after = len(arguments) - i - 1
        taken = max(len(texts) - after, 0) if each.many else 1
        if texts[:taken]:
            given[each.name] = texts[:taken] if each.many else texts[0]
        texts = texts[taken:]
    return given, texts
