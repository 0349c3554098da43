"""typer's group and command, as `pk` needs them: lazy nouns, aliases, options before and after a
command's words, our error messages, and values read without pydantic.

Invoking a command does not run it: it returns what to run (`Parsed`), since `pk` and `pk shell` run
it differently.
"""

from typing import TYPE_CHECKING, Any, cast, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from pk.cli.command_line.nouns import NOUNS
from pk.cli.command_line.option_values import Values
from pk.cli.command_line.parameters import (
    NAMED,
    arguments_of,
    choices_of,
    info_of,
    long_name,
    options_of,
)
from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.values import READERS, ConfigValueError
from pk.cli.command_line.words import Words
from pk.core.nearest import did_you_mean, did_you_mean_one_of, nearest

if TYPE_CHECKING:
    from typer._click.core import Context

    from pk.cli.command_line.declared import Declared


class Reader:
    """Reads the values of a parameter, instead of typer's pydantic adapter, which takes longer to
    import than typer."""

    def __init__(self, param: TyperOption | TyperArgument) -> None:
        descriptor = param.type_descriptor
        self.many = descriptor.is_list
        self.kind = get_args(descriptor.annotation)[0] if self.many else descriptor.annotation
        self.choices = choices_of(param)
        self.read = descriptor.parameter_info.parser or READERS.get(self.kind, str)

    def coerce(self, value: Any, param: TyperOption | TyperArgument, ctx: "Context") -> Any:
        """The value of the given words. Raises UsageError."""
        source = ctx.get_parameter_source(param.name)
        if source is None or source.name != "COMMANDLINE":
            return tuple(value or ()) if self.many else value
        if not self.many:
            return self._value(value, param, ctx)
        texts = cast(list[str], value)
        if isinstance(param, TyperOption) and info_of(param).separated:
            parts = (part.strip() for text in texts for part in text.split(","))
            texts = [part for part in parts if part]
        return tuple(self._value(text, param, ctx) for text in texts)

    def _value(self, text: str, param: TyperOption | TyperArgument, ctx: "Context") -> Any:
        name = _typed_name(param, ctx)
        if self.choices:
            if text in self.choices:
                return text
            if text.replace("-", "_") in self.choices:  # read-committed
                return text.replace("-", "_")
            near = did_you_mean(text, self.choices, "")
            said = f"{name} must be one of {', '.join(self.choices)}, not {text!r}{near}"
            raise _words(ctx).refuse(said)
        try:
            return self.read(text)
        except ConfigValueError as e:
            raise _words(ctx).refuse(str(e)) from None
        except ValueError as e:
            raise _words(ctx).refuse(f"{name} {e}") from None


def _typed_name(param: TyperOption | TyperArgument, ctx: "Context") -> str:
    """A parameter by the name that was typed, or its last name."""
    if isinstance(param, TyperArgument):
        return param.metavar or param.name
    names = [name for option, name, _ in _words(ctx).taken if option.name == param.name]
    return names[-1] if names else long_name(param)


def _words(ctx: "Context") -> Words:
    return ctx.find_root().obj


class _Reading:
    """A command whose parameters are read by `Reader`."""

    params: list[Any]

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        for param in self.params:
            param._runtime_param = Reader(param)  # the only private name of typer that is needed

    def get_help_option(self, ctx: "Context") -> None:
        """No typer option: `Words` handles -h and --help, which end the line anywhere."""


class Command(_Reading, TyperCommand):
    """A pk command."""

    @property
    def declared(self) -> "Declared":
        """What typer cannot hold."""
        from pk.cli.command_line.declared import declared_of

        return declared_of(self)

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Part of typer's Command."""
        words = _words(ctx)
        words.enter(ctx.info_name or "", args)
        words.know(options_of(self))
        bound = words.bound(options_of(self), arguments_of(self))
        if words.help:
            return []
        try:
            return super().parse_args(ctx, bound)
        except typer.BadParameter as e:
            assert e.param is not None
            raise words.refuse(f"{words.where} needs {e.param.metavar}") from None

    def invoke(self, ctx: "Context") -> Parsed:
        """What to run."""
        from pk.cli.command_line.describe import described

        words = _words(ctx)
        node = described(self)
        if words.help:
            return Parsed(node, words.path, Values(), words.typed)
        values: dict[str, Any] = {**_root_values(ctx), **ctx.params}
        given = {name for name in ctx.params if _is_given(ctx, name)}
        known = Values({k: v for k, v in values.items() if not k.endswith(NAMED)}, given)
        work = self.declared.call(ctx.params)
        return Parsed(node, words.path, known, words.typed, work, self.declared)


def _is_given(ctx: "Context", name: str) -> bool:
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _root_values(ctx: "Context") -> dict[str, Any]:
    """The values of the options of every command line, for commands that do not take them all."""
    return ctx.find_root().params


class Group(_Reading, TyperGroup):
    """A pk noun: root options may precede the command's words, and `--create` is the command
    `create`."""

    @property
    def names(self) -> dict[str, str]:
        """Each name of a command → its main name."""
        found: dict[str, str] = {}
        for name, command in self.commands.items():
            assert isinstance(command, Command)
            found.update(dict.fromkeys(command.declared.names, name))
        return found

    def also(self, ctx: "Context") -> "Group | None":
        """Another noun whose commands also work under this one."""
        root = ctx.find_root().command
        name = NOUNS[ctx.info_name].also if ctx.info_name in NOUNS else ""
        found = root.get_command(ctx, name) if name and isinstance(root, Group) else None
        return found if isinstance(found, Group) else None

    def named(self, ctx: "Context", word: str) -> str | None:
        """The command that a word names, by its main name."""
        other = self.also(ctx)
        return self.names.get(word) or (other.names.get(word) if other else None)

    def get_command(self, ctx: "Context", cmd_name: str) -> Any:
        """Part of typer's Group."""
        other = self.also(ctx)
        return self.commands.get(cmd_name) or (other.commands.get(cmd_name) if other else None)

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Takes the options at this point; the command's name follows."""
        words = _words(ctx)
        if ctx.parent is not None:
            words.enter(ctx.info_name or "", args)
        while words.next_is_option() and not words.only_plain:
            word = words.rest[-1]
            name = word.partition("=")[0]
            if words.path and name not in words.options and self.named(ctx, word[2:]):
                words.rest[-1] = word[2:]  # kafka-topics.sh --create
                break
            under = self.first_with(name) if name not in words.options else None
            if words.path and under is not None:
                said = f"{name} must follow a command, as in `{words.where} {under} {name}`"
                raise words.refuse(said)
            words.take_option()
        return super().parse_args(ctx, ["--", *reversed(words.rest)])

    def first_with(self, option: str) -> str | None:
        """The first command that takes this option."""
        found = (n for n, c in self.commands.items() if any(option in p.opts for p in c.params))
        return next(found, None)

    def resolve_command(self, ctx: "Context", args: list[str]) -> tuple[str, Any, list[str]]:
        """Part of typer's Group. Raises UsageError."""
        name = self.named(ctx, args[0])
        if name is None:
            words = _words(ctx)
            hint = self.hint(args, ctx.info_name or "")
            raise words.refuse(f"{words.where} has no command {args[0]!r}{hint}")
        _words(ctx).typed += (args[0],)
        return name, self.get_command(ctx, name), args[1:]

    def near(self, word: str) -> str:
        """What a word may have meant; of several names of one thing the nearest."""
        names = self.names
        found: dict[str, str] = {}
        for name in nearest(word, names):
            found.setdefault(names[name], name)
        return did_you_mean_one_of(list(found.values()), "")

    def hint(self, args: list[str], noun: str) -> str:
        """What an unknown command, the first of `args`, may have meant."""
        from pk.cli.command_line.other_tools import under

        found = under(noun, args[0])
        return f"; in pk that is `pk {found}`" if found else self.near(args[0])

    def invoke(self, ctx: "Context") -> Parsed:
        """What to run; help, if no command is named."""
        if ctx._protected_args:  # pyright: ignore[reportPrivateUsage] - it has no public one
            return super().invoke(ctx)
        from pk.cli.command_line.describe import described_noun

        words = _words(ctx)
        taken = {option.name: True for option, _, _ in words.taken}
        node = described_noun(self, ctx.info_name or "")
        values = Values({"version": False, **taken}, taken)
        return Parsed(node, words.path, values, words.typed)


class Root(Group):
    """`pk` itself: imports a noun when it is named."""

    @property
    def names(self) -> dict[str, str]:
        """Each name of a noun → its main name."""
        return {name: noun for noun, entry in NOUNS.items() for name in entry.names}

    def get_command(self, ctx: "Context", cmd_name: str) -> Any:
        """Part of typer's Group."""
        if cmd_name not in self.commands and cmd_name in NOUNS:
            self.commands[cmd_name] = load_noun(cmd_name)
        return self.commands.get(cmd_name)

    def parse_args(self, ctx: "Context", args: list[str]) -> list[str]:
        """Part of typer's Group."""
        ctx.obj = words = Words(args)
        words.know(options_of(self))
        return super().parse_args(ctx, args)

    def hint(self, args: list[str], noun: str) -> str:
        """The equivalent of another tool's words, or the nearest name."""
        from pk.cli.command_line.other_tools import here

        found = here(args, self.names)
        return f"; in pk that is `pk {found}`" if found else self.near(args[0])


def load_noun(name: str) -> Command | Group:
    """The typer command of a noun, imported now."""
    from importlib import import_module

    module, _, variable = NOUNS[name].declared.partition(":")
    found = getattr(import_module(module), variable).for_typer()
    assert isinstance(found, Command | Group)
    return found
