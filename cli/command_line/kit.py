"""typer's group and command with the additions of `pk`: nouns that are imported when a command line
names them, aliases, nearest names, and errors in sentences.

typer parses the command line. Two of its parts are replaced because they take longer than the rest
of a command: `Parameter.read` reads values, since typer's reader imports pydantic (a quarter of a
second), and `pk.cli.command_line.help` writes help, since typer's imports rich.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, cast

import typer
from typer.core import TyperCommand, TyperGroup

from pk.cli.command_line.nouns import NOUNS, under
from pk.cli.command_line.renamed import renamed
from pk.cli.exits import UsageError
from pk.cli.options.parameters import (
    Argument,
    Option,
    Parameter,
    options_of,
    placed,
)
from pk.cli.options.values import ConfigValueError
from pk.cli.phrases import join
from pk.core.nearest import did_you_mean, did_you_mean_one_of, nearest

if TYPE_CHECKING:
    from pk.cli.command_line.declared import Declared

ParserError: Final = cast(type[Exception], typer.BadParameter.__base__)
"""The base class of the parser's errors: typer exports only a subclass of it."""

HELP: Final = Parameter(
    "wants_help", Option("-h", "--help", help="Show this help.", eager=True), bool, False, False
)
"""typer's own option would print help immediately, in the shell too."""

_WORDS: Final = "pk.words"
"""The key, in the context's `meta`, of the words from which a command is parsed."""

_INTERVAL: Final = re.compile(r"\d+(\.\d+)?(ms|s|m|h)?")

RENAMED: Final = "pk.renamed"
"""The key, in the context's `meta`, of the hint about an old name on the command line."""


def refused(context: typer.Context, said: str) -> UsageError:
    """The error about the words of this context."""
    return UsageError(said, context.command_path.split()[1:])


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line gives this parameter."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


class Reader:
    """Makes the value of one parameter from the texts that typer found. Raises UsageError."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter

    def __call__(self, context: typer.Context, found: Any) -> Any:
        parameter = self.parameter
        if parameter.is_flag:
            return bool(found)
        if not is_given(context, parameter.name):
            if not parameter.required:
                return parameter.default
            if context.params.get(HELP.name):
                return None
            raise refused(context, f"{context.command_path} needs {parameter.shown}")
        if not parameter.many:
            return self._value(context, found)
        texts: Sequence[str] = found
        if isinstance(parameter.says, Option) and parameter.says.separated:
            parts = (part.strip() for text in texts for part in text.split(","))
            texts = [part for part in parts if part]
        return tuple(self._value(context, text) for text in texts)

    def _value(self, context: typer.Context, text: str) -> Any:
        parameter, name = self.parameter, self.parameter.shown
        if isinstance(parameter.says, Option):
            text = self._without_equals(context, text)
            if text.startswith("-") and text.partition("=")[0] in _names(context):
                raise refused(context, f"{name} needs a value")  # typer accepts any word as a value
        choices = parameter.choices
        if choices:
            if text in choices:
                return text
            if text.replace("-", "_") in choices:  # read-committed
                return text.replace("-", "_")
            near = did_you_mean(text, choices, "")
            said = f"{name} must be one of {', '.join(choices)}, not {text!r}{near}"
            raise refused(context, said)
        try:
            return parameter.read(text)
        except ConfigValueError as e:
            raise refused(context, str(e)) from None
        except ValueError as e:
            file = text.endswith(".properties") and "--config-file" in _names(context)
            hint = f"; for a file, type `--config-file {text}`" if file else ""
            raise refused(context, f"{name} {e}{hint}") from None

    def _without_equals(self, context: typer.Context, text: str) -> str:
        """The value without its equals sign: typer passes `=5` for `-n=5`."""
        short = [name for name in self.parameter.names if len(name) == 2]
        if text.startswith("=") and any(f"{s}{text}" in context.meta[_WORDS] for s in short):
            return text[1:]
        return text


def _names(context: typer.Context) -> set[str]:
    command = cast(_Parsing, context.command)
    return {name for each in command.parameters for name in each.names}


class _Parsing:
    """The base of commands and nouns: `Reader` reads values, and errors are sentences."""

    params: list[Any]
    callback: Callable[..., Any] | None

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.parameters: list[Parameter] = cast(Any, self.callback).parameters
        readers = {each.name: Reader(each) for each in self.parameters}
        for param in self.params:
            param.process_value = readers[param.name]

    def make_parser(self, ctx: Any) -> Any:
        """Part of typer's Command: its parser, which also applies options that give an argument."""
        parser: Any = cast(Any, super()).make_parser(ctx)
        parse = parser.parse_args

        def parse_args(args: list[str]) -> tuple[dict[str, Any], list[str], Any]:
            given, extra, order = parse(args)
            given, extra = placed(self.parameters, given, extra)
            if extra and isinstance(self, Command) and not given.get(HELP.name):
                from pk.cli.command_line.other_tools import MORE

                said = self._too_many(ctx.command_path, extra[0])
                instead = MORE.get(ctx.command_path)
                raise refused(ctx, f"{said}; in pk that is `pk {instead}`" if instead else said)
            return given, extra, order

        parser.parse_args = parse_args
        return parser

    def _too_many(self, path: str, extra: str) -> str:
        """The sentence about an argument that the command does not take."""
        names = [p.says.name for p in self.parameters if isinstance(p.says, Argument)]
        besides = f" besides {join(names)}" if names else ""
        return f"{path} takes no arguments{besides}, got {extra!r}"

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Part of typer's Command. Raises UsageError."""
        ctx.meta[_WORDS] = tuple(args)
        self._check_watch(ctx, args)
        try:
            return cast(Any, super()).parse_args(ctx, args)
        except ParserError as e:
            raise self._sentence(ctx, cast(Any, e)) from None

    def _check_watch(self, ctx: Any, args: list[str]) -> None:
        """Refuse an interval after -w, which would be taken for a topic or group. Raises
        UsageError."""
        if not any("-w" in each.names for each in self.parameters):
            return
        for word, after in pairwise(args):
            if word == "--":
                return
            if word in ("-w", "--watch") and _INTERVAL.fullmatch(after):
                said = f"-w takes no value; for an interval, type `-w --interval {after}`"
                raise refused(ctx, f"{said} (a name goes before -w)")

    def _sentence(self, ctx: Any, error: Any) -> UsageError:
        """The sentence for an error of typer's parser."""
        name: str | None = getattr(error, "option_name", None)
        if name is None:
            return refused(ctx, error.format_message())
        known = next((each for each in self.parameters if name in each.names), None)
        if known is not None:
            return refused(ctx, f"{name} {'takes no' if known.is_flag else 'needs a'} value")
        if name == "-=":
            return refused(ctx, "a one-letter option that takes no value cannot be followed by `=`")
        return refused(ctx, self.unknown_option(ctx, name))

    def unknown_option(self, ctx: Any, name: str) -> str:
        """The error for an option that does not exist."""
        from pk.cli.command_line.other_tools import option_here

        where = ctx.command_path
        found = option_here(where, name)
        if found is not None:
            return f"{where} has no option {name}; in pk that is `pk {found}`"
        options = [o for _, o in options_of(self.parameters) if not o.hidden]
        if name in ("-o", "--output") and any("--format" in o.names for o in options):
            return f"{where} has no option {name}; in pk that is `{where} -f FORMAT`"
        known = [n for o in options for n in o.names if n.startswith("--")]
        return f"{where} has no option {name}{did_you_mean(name, known, '')}"


class Command(_Parsing, TyperCommand):
    """A pk command."""

    @property
    def declared(self) -> "Declared":
        """The declaration of this command."""
        return cast(Any, self.callback).declared


class Group(_Parsing, TyperGroup):
    """A pk noun. typer builds only the command that is named, since building all of them takes
    longer than a short command."""

    key: str = ""
    """The words of the noun after `pk`, as in `NOUNS`; "" for `pk` itself."""

    declarations: "Mapping[str, Declared]"
    """Main name → the declaration of the command."""

    nouns_first: bool = False
    """Whether help shows the nouns below this one before its commands."""

    make: "Callable[[Declared], Command]"
    """Makes typer's command from a declaration."""

    @property
    def names(self) -> dict[str, str]:
        """Each name of a command or noun below this one → its main name."""
        found: dict[str, str] = {}
        for name, declared in self.declarations.items():
            found.update(dict.fromkeys(declared.names, name))
        for name, key in under(self.key).items():
            found[name] = key.rpartition(" ")[2]
        return found

    def own(self, name: str) -> "Command | Group | None":
        """The command or noun of this name or alias."""
        main = self.names.get(name)
        if main is None:
            return None
        if main not in self.commands:
            declared = self.declarations.get(main)
            key = f"{self.key} {main}".lstrip()
            self.commands[main] = load_noun(key) if declared is None else self.make(declared)
        return cast(Command | Group, self.commands[main])

    def list_commands(self, ctx: Any) -> list[str]:
        """Part of typer's Group."""
        return list(dict.fromkeys(self.names.values()))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Part of typer's Group: the command of this name or alias."""
        return self.own(cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Part of typer's Command. Raises UsageError."""
        usual = NOUNS[self.key].usual if self.key else ""
        if usual and args and args[0].startswith("-") and args[0] not in HELP.names:
            args = [usual, *args]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        """Part of typer's Group. Raises UsageError."""
        found = self.get_command(ctx, args[0])
        if found is None:
            said = f"{ctx.command_path} has no command {args[0]!r}{self.hint(args)}"
            raise refused(ctx, said)
        return args[0], found, args[1:]

    def near(self, word: str) -> str:
        """A hint with the names that the user may have meant: of several names for one thing, the
        nearest."""
        names = self.names
        found: dict[str, str] = {}
        for name in nearest(word, names):
            found.setdefault(names[name], name)
        return did_you_mean_one_of(list(found.values()), "")

    def hint(self, args: list[str]) -> str:
        """The hint for an unknown command, the first of `args`."""
        from pk.cli.command_line.other_tools import below

        found = below(self.name or "", args[0])
        near = f"; in pk that is `pk {found}`" if found else self.near(args[0])
        if not near and self.key and NOUNS[self.key].usual:
            return f"; did you mean `pk {self.key} -- {args[0]}`?"
        if not near and self.key:
            return f"; it has {join(self.list_commands(None))}"
        return near

    def unknown_option(self, ctx: Any, name: str) -> str:
        """The error for an option that does not exist, or that belongs to a command."""
        commands = self.declarations.items()
        taking = (n for n, d in commands if any(name in p.names for p in d.parameters))
        first = next(taking, None)
        if first is None:
            return super().unknown_option(ctx, name)
        return f"{name} must follow a command, as in `{ctx.command_path} {first} {name}`"


class Root(Group):
    """`pk` itself: imports a noun when the command line names it."""

    declarations: "Mapping[str, Declared]" = MappingProxyType({})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str, Any, list[str]]:
        """Part of typer's Group: replaces old names. Raises UsageError."""
        args, ctx.meta[RENAMED] = renamed(args)
        return super().resolve_command(ctx, args)

    def hint(self, args: list[str]) -> str:
        """The hint for an unknown noun: the equivalent of another tool's words, or the nearest
        name."""
        from pk.cli.command_line.other_tools import here

        found = here(args, self.names)
        return f"; in pk that is `pk {found}`" if found else self.near(args[0])

    def unknown_option(self, ctx: Any, name: str) -> str:
        """The error for an option that does not exist."""
        return _Parsing.unknown_option(self, ctx, name)


def load_noun(name: str) -> Command | Group:
    """Import a noun, by its key in `NOUNS`, and return its typer command."""
    from importlib import import_module

    module, _, variable = NOUNS[name].declared.partition(":")
    found = getattr(import_module(module), variable).for_typer()
    assert isinstance(found, Command | Group)
    found.name = name.rpartition(" ")[2]
    if isinstance(found, Group):
        found.key = name
    return found
