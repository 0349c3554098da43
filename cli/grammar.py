"""What a command line may say: the node types of the command tree, and the parser that walks it.

The tree is data, declared once in `pk.cli.specs`; `pk`, `pk shell`, help, completion and the tests all read it. It is
ours and not typer's because of what importing costs before a word is read: typer alone takes most of what completion
may take in all, and offset positions such as `-10..end` or `-o -5` are values that click's parser takes for options.
So this file imports nothing but `difflib`, and that only when a word is wrong.

Rules of the parser: an option's value is always the next word, whatever it begins with, unless that word is itself an
option of the command (`--offset --partition 0` is a mistake, `--offset -10` is not); `--name=value`, `-n5`, `-abc` of
flags and `--` work as everywhere; options may stand before, between and after the arguments and the command's words;
under a noun `--create` is the command `create`, as Apache's tools have it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final


class UsageError(Exception):
    """What was typed is not a command line; `path` is the command whose help would say more."""

    def __init__(self, message: str, path: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.path = tuple(path)


class Option:
    """An option. Without `value` it is a flag; `value` is the word help shows for its value.

    `kind` says how the value is read: text, int, count (an int above 0), number (any that is finite), seconds (`2`, `0.5`,
    `2s`), pause (seconds, a tenth or more), pair (KEY=VALUE), config (the same, of a config: `retention.ms=7d` is converted), list (comma
    separated), or choice (one of `choices`).
    `complete` names what completes it. `assumed` is the value of an option that may stand without one
    (`--compression-codec[=gzip]`); such an option takes a value only after `=`, or where the next word is one of its
    choices or, of kind pause, a time. Where it `takes_next`, the next word is its value unless it is an option, as
    Apache's parser has it: a choice that is misspelt is refused, and not taken for an argument.
    """

    __slots__ = (
        "assumed",
        "choices",
        "complete",
        "default",
        "dest",
        "help",
        "hidden",
        "kind",
        "names",
        "repeat",
        "sets",
        "takes_next",
        "value",
    )

    def __init__(
        self,
        *names: str,
        help: str = "",
        value: str | None = None,
        kind: str = "text",
        choices: Sequence[str] = (),
        repeat: bool = False,
        default: Any = None,
        dest: str | None = None,
        hidden: bool = False,
        complete: str | None = None,
        assumed: str | None = None,
        takes_next: bool = False,
        sets: Any = True,
    ) -> None:
        self.names = names
        self.help = help
        self.value = value
        self.kind = "choice" if choices else kind
        self.choices = tuple(choices)
        self.repeat = repeat
        self.hidden = hidden
        self.complete = complete
        self.assumed = assumed
        self.takes_next = takes_next
        self.sets = sets
        longest = next((name for name in names if name.startswith("--")), names[0])
        self.dest = dest or longest.lstrip("-").replace("-", "_").replace(".", "_")
        if default is None and repeat:
            default = ()
        elif default is None and value is None and sets is True:
            default = False
        self.default = default

    @property
    def is_flag(self) -> bool:
        return self.value is None

    @property
    def long_name(self) -> str:
        return next((name for name in self.names if name.startswith("--")), self.names[0])

    @property
    def wait_for_value(self) -> bool:
        """Whether the next word is this option's value."""
        return self.value is not None and self.assumed is None


class Argument:
    """A word without a dash. `many` takes all that are left; `optional` lets it be absent."""

    __slots__ = ("complete", "dest", "help", "kind", "many", "name", "optional")

    def __init__(
        self,
        name: str,
        *,
        help: str = "",
        kind: str = "text",
        many: bool = False,
        optional: bool = False,
        complete: str | None = None,
    ) -> None:
        self.name = name
        self.dest = name.lower().replace("-", "_")
        self.help = help
        self.kind = kind
        self.many = many
        self.optional = optional
        self.complete = complete


class Command:
    """A leaf: what it takes, and the function that runs it as "module:function" (imported only then).

    A `blocking` command is a plain function and runs without an event loop. `shows` and `rows` are the shapes of its JSON
    (see `pk.cli.output.schema`): every command with -f has them.
    """

    __slots__ = (
        "arguments",
        "blocking",
        "examples",
        "handler",
        "help",
        "hidden",
        "names",
        "notes",
        "options",
        "rows",
        "shows",
    )

    def __init__(
        self,
        *names: str,
        help: str,
        handler: str,
        options: Iterable[Option] = (),
        arguments: Iterable[Argument] = (),
        examples: Sequence[str] = (),
        notes: str = "",
        blocking: bool = False,
        hidden: bool = False,
        shows: "str | dict[str, str]" = "",
        rows: "str | dict[str, str]" = "",
    ) -> None:
        self.names = names
        self.help = help
        self.handler = handler
        self.shows = shows
        self.rows = rows
        self.options = tuple(options)
        self.arguments = tuple(arguments)
        self.examples = tuple(examples)
        self.notes = notes
        self.blocking = blocking
        self.hidden = hidden

    @property
    def name(self) -> str:
        return self.names[0]


class Group:
    """A noun: the commands under it. Those of `also` may be written under it too (`pk broker list`), and are not shown."""

    __slots__ = ("also", "children", "help", "hidden", "names", "options")

    def __init__(
        self,
        *names: str,
        help: str,
        children: Iterable["Command | Group"],
        options: Iterable[Option] = (),
        also: "Group | None" = None,
    ) -> None:
        self.names = names
        self.help = help
        self.also = also
        self.children = tuple(children)
        self.options = tuple(options)
        self.hidden = False

    @property
    def name(self) -> str:
        return self.names[0]

    def child(self, word: str) -> "Command | Group | None":
        for noun in (self, self.also):
            for child in noun.children if noun else ():
                if word in child.names:
                    return child
        return None


class Args:
    """The values of a parsed command line, by option and argument name."""

    def __init__(self, values: dict[str, Any], given: frozenset[str]) -> None:
        self.__dict__.update(values)
        self._given = given

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the command has no option or argument {name!r}")

    def given(self, name: str) -> bool:
        """Whether the option or argument was on the command line."""
        return name in self._given

    def values(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_given"}


class Parsed:
    """A command line understood: the node it names, its words, and what it was given."""

    __slots__ = ("args", "node", "path", "typed", "wants_help")

    def __init__(
        self,
        node: Command | Group,
        path: tuple[str, ...],
        args: Args,
        wants_help: bool,
        typed: tuple[str, ...],
    ) -> None:
        self.node = node
        self.path = path
        self.typed = typed
        """The path in the words that were typed: `produce` for `console-producer`."""

        self.args = args
        self.wants_help = wants_help


HELP: Final = Option("-h", "--help", help="Show this and stop.", dest="help")


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The names in `known` that `word` may have meant, best first, at most three."""
    import difflib

    known = list(known)
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    starts = [name for name in known if name.startswith(word) and name not in found]
    return (found + sorted(starts))[:3]


def _meant(word: str, known: Iterable[str]) -> str:
    found = nearest(word, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _apache(word: str) -> str | None:
    from pk.cli.command_line.apache_scripts import here

    found = here(word)
    return f"; here that is `pk {found}`" if found else None


_LEAST_PAUSE_S: Final = 0.1
"""Who looks again and again is not to keep a cluster busy."""

_DAY_S: Final = 86_400


def _seconds(text: str) -> float | None:
    """The seconds in `2`, `0.5` or `2s`; None where it is no time."""
    number = text.removesuffix("s")
    if not number.replace(".", "", 1).isdecimal() or not number.isascii():
        return None
    return float(number)


def convert(option: Option | Argument, name: str, text: str) -> Any:
    """The value that `text` stands for. Raises UsageError."""
    kind = option.kind
    if kind in ("int", "count"):
        try:
            number = int(text)
        except ValueError:
            raise UsageError(f"{name} wants a whole number, not {text!r}") from None
        if kind == "count" and number < 1:
            raise UsageError(f"{name} wants a number above 0, not {text}")
        return number
    if kind == "number":
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UsageError(f"{name} wants a number, not {text!r}")
        return value
    if kind == "seconds":
        seconds = _seconds(text)
        if not seconds or seconds > _DAY_S:
            raise UsageError(f"{name} wants seconds above 0 such as 2 or 0.5, not {text!r}")
        return seconds
    if kind == "pause":
        seconds = _seconds(text)
        if seconds is None or not _LEAST_PAUSE_S <= seconds <= _DAY_S:
            limits = f"from {_LEAST_PAUSE_S} to {_DAY_S}"
            raise UsageError(f"{name} wants seconds {limits}, such as 2 or 0.5, not {text!r}")
        return seconds
    if kind == "choice":
        assert isinstance(option, Option)
        if text not in option.choices:
            raise UsageError(
                f"{name} is one of {', '.join(option.choices)}; not {text!r}{_meant(text, option.choices)}"
            )
        return text
    if kind in ("pair", "config"):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{name} wants KEY=VALUE, not {text!r}")
        return (key.strip(), _plain(key.strip(), value) if kind == "config" else value)
    if kind == "list":
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _plain(key: str, value: str) -> str:
    if value[-1:].isdecimal():  # spares most commands an import
        return value
    from pk.cli.config_keys.units import plain_value

    try:
        return plain_value(key, value)
    except ValueError as e:
        raise UsageError(str(e)) from None


def _takes(node: Command | Group, name: str) -> bool:
    return any(name in option.names for option in node.options)


class _Parser:
    """One walk over the words."""

    def __init__(self, root: Group) -> None:
        self.node: Command | Group = root
        self.path: list[str] = []
        self.typed: list[str] = []
        self.options: dict[str, Option] = {}
        self.values: dict[str, Any] = {}
        self.given: set[str] = set()
        self.plain: list[str] = []
        self.help = False
        self._enter(root)

    def _enter(self, node: Command | Group) -> None:
        self.node = node
        for option in (*node.options, HELP):
            for name in option.names:
                self.options[name] = option
            self.values.setdefault(option.dest, option.default)

    def store(self, option: Option, name: str, text: str | None) -> None:
        if option is HELP:
            self.help = True
            return
        if option.is_flag:
            if text is not None:
                raise UsageError(f"{name} takes no value", self.typed)
            value = option.sets
        else:
            if text is None:
                text = option.assumed
            assert text is not None
            try:
                value = convert(option, name, text)
            except UsageError as e:
                raise UsageError(str(e), self.typed) from None
        if option.repeat:
            added = value if option.kind == "list" else (value,)
            kept = self.values.get(option.dest, ()) if option.dest in self.given else ()
            value = (*kept, *added)
        self.values[option.dest] = value
        self.given.add(option.dest)

    def word(self, word: str) -> None:
        if isinstance(self.node, Group):
            child = self.node.child(word)
            if child is None:
                names = [name for c in self.node.children if not c.hidden for name in c.names]
                said = f"{self.where().rstrip()} has no command {word!r}"
                meant = _meant(word, names) if self.path else _apache(word) or _meant(word, names)
                raise UsageError(f"{said}{meant}", self.typed)
            self.path.append(child.name)
            self.typed.append(word)
            self._enter(child)
            return
        self.plain.append(word)

    def unknown(self, name: str) -> UsageError:
        known = [n for n, o in self.options.items() if n.startswith("--") and not o.hidden]
        where = self.where().rstrip()
        if isinstance(self.node, Group):
            under = [c.name for c in self.node.children if _takes(c, name)]
            if under:
                said = f"{name} stands after a command, as in `{where} {under[0]} {name}`"
                return UsageError(said, self.typed)
        return UsageError(f"{where} has no option {name}{_meant(name, known)}", self.typed)

    def long(self, word: str, rest: list[str]) -> None:
        name, equals, text = word.partition("=")
        option = self.options.get(name)
        if option is None and isinstance(self.node, Group) and self.path and not equals:
            # `kafka-topics.sh --create` as it is typed there.
            verb = self.node.child(name[2:])
            if verb is not None:
                self.word(verb.name)
                return
        if option is None:
            raise self.unknown(name)
        if equals:
            self.store(option, name, text)
        elif option.wait_for_value or self.names_choice(option, rest):
            self.store(option, name, self.next_value(name, rest))
        else:
            self.store(option, name, None)

    def short(self, word: str, rest: list[str]) -> None:
        i = 1
        while i < len(word):
            name = f"-{word[i]}"
            option = self.options.get(name)
            if option is None:
                raise self.unknown(name if i > 1 else word)
            i += 1
            if not option.wait_for_value:
                inside = word[i:].removeprefix("=")
                if inside and self.may_take(option, inside):
                    self.store(option, name, inside)
                    return
                chosen = i == len(word) and self.names_choice(option, rest)
                self.store(option, name, rest.pop() if chosen else None)
                continue
            text = word[i:].removeprefix("=") if i < len(word) else self.next_value(name, rest)
            self.store(option, name, text)
            return

    def names_choice(self, option: Option, rest: list[str]) -> bool:
        """Whether an option that may stand alone is followed by one of its values (`-z zstd`, `-w 5`), as Apache's
        parser reads it; a word that is none of them is not the option's, unless it takes whatever comes."""
        if not rest:
            return False
        if option.takes_next and not rest[-1].startswith("-"):
            return True
        return self.may_take(option, rest[-1])

    def may_take(self, option: Option, word: str) -> bool:
        """Whether `word` is a value of an option that may stand without one."""
        if option.assumed is None:
            return False
        return word in option.choices or (option.kind == "pause" and _seconds(word) is not None)

    def next_value(self, name: str, rest: list[str]) -> str:
        if not rest or rest[-1].partition("=")[0] in self.options:
            raise UsageError(f"{name} wants a value", self.typed)
        return rest.pop()

    def arguments(self) -> None:
        assert isinstance(self.node, Command)
        words = list(self.plain)
        declared = self.node.arguments
        for i, argument in enumerate(declared):
            if argument.dest in self.given:
                # Its option of the same name was given instead, or besides.
                if argument.many and words:
                    named = self.values[argument.dest]
                    self.values[argument.dest] = (*named, *(self.read(argument, w) for w in words))
                    words = []
                continue
            after = sum(not a.optional for a in declared[i + 1 :])
            if argument.many:
                taken = words[: len(words) - after] if after else words
                words = words[len(taken) :]
                if not taken and not argument.optional:
                    raise UsageError(f"{self.where()} wants {argument.name}", self.typed)
                self.values[argument.dest] = tuple(self.read(argument, t) for t in taken)
                if taken:
                    self.given.add(argument.dest)
            elif words and (not argument.optional or len(words) > after):
                self.values[argument.dest] = self.read(argument, words.pop(0))
                self.given.add(argument.dest)
            elif argument.optional:
                self.values.setdefault(argument.dest, None)
            else:
                raise UsageError(f"{self.where()} wants {argument.name}", self.typed)
        if words:
            raise UsageError(f"{self.where()} takes no further word, got {words[0]!r}", self.typed)

    def check_options(self) -> None:
        """Refuses options of the words before the command that the command itself has no use for."""
        assert isinstance(self.node, Command)
        own = {option.dest for option in self.node.options}
        for name, option in self.options.items():
            if option.dest in self.given and option.dest not in own and name == option.long_name:
                raise UsageError(f"{self.where()} takes no {name}", self.typed)

    def read(self, argument: Argument, text: str) -> Any:
        try:
            return convert(argument, argument.name, text)
        except UsageError as e:
            raise UsageError(str(e), self.typed) from None

    def where(self) -> str:
        return f"pk {' '.join(self.typed)}"


def parse(root: Group, words: Sequence[str]) -> Parsed:
    """What `words` (without the program's name) ask for. Raises UsageError."""
    parser = _Parser(root)
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if word == "--":
            while rest:
                parser.word(rest.pop())
        elif word.startswith("--"):
            parser.long(word, rest)
        elif word.startswith("-") and len(word) > 1:
            parser.short(word, rest)
        else:
            parser.word(word)
        if parser.help and isinstance(parser.node, Command):
            break
    node = parser.node
    if isinstance(node, Command) and not parser.help:
        parser.check_options()
        parser.arguments()
    args = Args(parser.values, frozenset(parser.given))
    wants_help = parser.help or isinstance(node, Group)
    return Parsed(node, tuple(parser.path), args, wants_help, tuple(parser.typed))


def commands(
    root: Group, path: tuple[str, ...] = ()
) -> "Iterable[tuple[tuple[str, ...], Command]]":
    """Every command of the tree with its path."""
    for child in root.children:
        if isinstance(child, Group):
            yield from commands(child, (*path, child.name))
        else:
            yield (*path, child.name), child
