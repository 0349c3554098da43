"""Binds each option on a command line to its value before typer reads it.

typer's parser takes the word after an option for its value, whatever that begins with. Four things it cannot know, and
they are settled here: options may stand before a command's words (`pk -b HOST topics list`); an option may stand without
its value (`--trace`, `-w`); an option without its value is a mistake where another option follows (`--offset --partition
0`), while `--offset -10` is none; and an argument may be given by an option, as Apache's tools name topics.

What comes out is what typer reads: every option by its long name and with its value, then `--`, then the plain words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pk.cli.command_line.errors import UsageError
from pk.cli.command_line.nearest import did_you_mean
from pk.cli.command_line.values import pause, seconds_in

if TYPE_CHECKING:
    from typer.core import TyperArgument, TyperOption

    from pk.cli.command_line.declare import Option

HELP: Final = ("-h", "--help")

NAMED: Final = "_by_option"
"""The end of the name of an option that gives an argument's value."""


def info_of(option: "TyperOption") -> "Option":
    """What was declared of an option."""
    from pk.cli.command_line.declare import Option

    info = option.type_descriptor.parameter_info
    assert isinstance(info, Option)
    return info


def choices_of(param: "TyperOption | TyperArgument") -> tuple[str, ...]:
    """The only values that a parameter takes; empty where any will do."""
    more = getattr(param.type_descriptor.parameter_info, "one_of", ())
    return tuple(param.type_descriptor.choices or more)


def long_name(option: "TyperOption") -> str:
    """The name to show where one is enough."""
    return next((name for name in option.opts if name.startswith("--")), option.opts[0])


class Words:
    """One walk over the words of a command line: what its options are, and which words are plain."""

    def __init__(self, words: Sequence[str]) -> None:
        self.rest = list(reversed(words))
        self.path: tuple[str, ...] = ()
        self.typed: tuple[str, ...] = ()
        """The path in the words that were typed: `produce` for `console-producer`."""

        self.help = False
        self.options: dict[str, TyperOption] = {}
        """The options known so far, by each of their names: the root's, then the command's too."""

        self.shorthands: dict[str, tuple[TyperOption, str]] = {}
        self.taken: list[tuple[TyperOption, str, str | None]] = []
        """Each option that was met, by what name, and its value."""

        self.only_plain = False

    @property
    def where(self) -> str:
        """The command as far as it is known, as it was typed."""
        return " ".join(("pk", *self.typed))

    def enter(self, name: str, rest: Sequence[str]) -> None:
        """Goes on under a command's name."""
        self.path = (*self.path, name)
        self.rest = list(reversed(rest))

    def know(self, options: "Sequence[TyperOption]") -> None:
        """From here on these options may stand."""
        for option in options:
            self.options.update(dict.fromkeys(option.opts, option))
            for name, value in info_of(option).shorthands.items():
                self.shorthands[name] = (option, value)

    def refuse(self, said: str) -> UsageError:
        """The error for these words."""
        return UsageError(said, self.typed)

    def next_is_option(self) -> bool:
        """Whether an option comes next."""
        return bool(self.rest) and self.rest[-1][:1] == "-" and len(self.rest[-1]) > 1

    def take_option(self) -> None:
        """Takes the option that comes next, with its value. Raises UsageError."""
        word = self.rest.pop()
        if word == "--":
            self.only_plain = True
        elif word.startswith("--"):
            self._long(word)
        else:
            self._short(word)

    def _long(self, word: str) -> None:
        name, equals, text = word.partition("=")
        if name in self.shorthands and not equals:
            option, value = self.shorthands[name]
            self.taken.append((option, name, value))
        elif name in HELP:
            self._store(None, name, text if equals else None)
        elif (option := self.options.get(name)) is None:
            raise self._unknown(name)
        elif equals:
            self._store(option, name, text)
        elif self._waits(option) or self._follows(option):
            self._store(option, name, self._next_value(name))
        else:
            self._store(option, name, None)

    def _short(self, word: str) -> None:
        """A cluster of letters such as `-yn5`."""
        for i in range(1, len(word)):
            name = f"-{word[i]}"
            if name in HELP:
                self._store(None, name, None)
                continue
            option = self.options.get(name)
            if option is None:
                raise self._unknown(name if i > 1 else word)
            inside, last = word[i + 1 :].removeprefix("="), i == len(word) - 1
            if self._waits(option):
                self._store(option, name, self._next_value(name) if last else inside)
                return
            if inside and self._may_take(option, inside):
                self._store(option, name, inside)
                return
            chosen = last and self._follows(option)
            self._store(option, name, self.rest.pop() if chosen else None)

    def _store(self, option: "TyperOption | None", name: str, text: str | None) -> None:
        if option is None or option.is_flag:
            if text is not None:
                raise self.refuse(f"{name} takes no value")
            self.help = self.help or option is None
        elif text is None:
            text = info_of(option).assumed
        if option is not None:
            self.taken.append((option, name, text))

    def _waits(self, option: "TyperOption") -> bool:
        """Whether the next word is this option's value."""
        return not option.is_flag and info_of(option).assumed is None

    def _follows(self, option: "TyperOption") -> bool:
        """Whether an option that may stand alone is followed by one of its values (`-z zstd`, `-w 5`)."""
        if option.is_flag or not self.rest:
            return False
        if info_of(option).takes_next and not self.rest[-1].startswith("-"):
            return True
        return self._may_take(option, self.rest[-1])

    def _may_take(self, option: "TyperOption", word: str) -> bool:
        """Whether `word` is a value of an option that may stand without one."""
        if option.is_flag:
            return False
        if word in choices_of(option):
            return True
        return info_of(option).parser is pause and seconds_in(word) is not None

    def _next_value(self, name: str) -> str:
        known = (*self.options, *HELP)
        if not self.rest or self.rest[-1].partition("=")[0] in known:
            raise self.refuse(f"{name} wants a value")
        return self.rest.pop()

    def _unknown(self, name: str) -> UsageError:
        known = [n for n, o in self.options.items() if n.startswith("--") and not o.hidden]
        hint = did_you_mean(name, [*known, "--help"], "")
        return self.refuse(f"{self.where} has no option {name}{hint}")

    def bound(
        self, options: "Sequence[TyperOption]", arguments: "Sequence[TyperArgument]"
    ) -> list[str]:
        """The rest of the words, for a command with these parameters, as typer reads them. Raises UsageError."""
        plain: list[str] = []
        while self.rest and not self.help:
            if self.next_is_option() and not self.only_plain:
                self.take_option()
            else:
                plain.append(self.rest.pop())
        if self.help:
            return []
        own = {option.name: option for option in options}
        found: list[str] = []
        given: dict[str, list[str]] = {}
        for option, _, text in self.taken:
            mine = own.get(option.name)
            if mine is None:
                raise self.refuse(f"{self.where} takes no {long_name(option)}")
            if (argument := info_of(mine).gives) is not None and text is not None:
                given.setdefault(argument, []).append(text)
            else:
                found += [long_name(mine)] if text is None else [long_name(mine), text]
        for i, argument in enumerate(arguments):
            if argument.name in given:
                texts = given[argument.name]
                plain[i:i] = texts if argument.nargs == -1 else texts[-1:]
        if len(plain) > len(arguments) and all(argument.nargs != -1 for argument in arguments):
            said = f"takes no further word, got {plain[len(arguments)]!r}"
            raise self.refuse(f"{self.where} {said}")
        return [*found, "--", *plain]
