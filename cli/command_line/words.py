"""Binds each option on a command line to its value before typer reads it.

typer's parser takes the word after an option as its value, whatever that starts with. It cannot
handle four cases: options before a command's words (`pk -b HOST topics list`); an option without
its value (`--trace`, `-w`); a missing value before another option (`--offset --partition 0`), which
is an error, while `--offset -10` is not; and an option that sets an argument, as Apache's tools
name topics.

The result is what typer reads: every option by its long name and with its value, then `--`, then
the plain words.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pk.cli.command_line.errors import UsageError
from pk.cli.command_line.parameters import choices_of, info_of, long_name
from pk.cli.command_line.values import is_duration, pause
from pk.core.nearest import did_you_mean

if TYPE_CHECKING:
    from typer.core import TyperArgument, TyperOption

HELP: Final = ("-h", "--help")


class Words:
    """One pass over the words of a command line: its options, and its plain words."""

    def __init__(self, words: Sequence[str]) -> None:
        self.rest = list(reversed(words))
        self.path: tuple[str, ...] = ()
        self.typed: tuple[str, ...] = ()
        """The path as typed: `console-producer` for `produce`."""

        self.help = False
        self.options: dict[str, TyperOption] = {}
        """The options known so far, by each name: the root's, then the command's too."""

        self.shorthands: dict[str, tuple[TyperOption, str]] = {}
        self.taken: list[tuple[TyperOption, str, str | None]] = []
        """Each option seen, the name used, and its value."""

        self.only_plain = False

    @property
    def where(self) -> str:
        """The command typed so far."""
        return " ".join(("pk", *self.typed))

    def enter(self, name: str, rest: Sequence[str]) -> None:
        """Continues below a command's name."""
        self.path = (*self.path, name)
        self.rest = list(reversed(rest))

    def know(self, options: "Sequence[TyperOption]") -> None:
        """Adds options that are valid from here on."""
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
        """Takes the next option, with its value. Raises UsageError."""
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
        """A cluster of letters such as `-yn5`. What follows `=` is the last letter's value."""
        for i in range(1, len(word)):
            name, inside = f"-{word[i]}", word[i + 1 :]
            option = self.options.get(name)
            if option is None and name not in HELP:
                raise self._unknown(name if i > 1 else word)
            if inside.startswith("="):
                self._store(option, name, inside[1:])
                return
            if option is None:
                self._store(None, name, None)
                continue
            if self._waits(option):
                self._store(option, name, inside or self._next_value(name))
                return
            if inside and (self._may_take(option, inside) or not self._goes_on(option, inside)):
                self._store(option, name, inside)
                return
            chosen = not inside and self._follows(option)
            self._store(option, name, self.rest.pop() if chosen else None)

    def _goes_on(self, option: "TyperOption", inside: str) -> bool:
        """Whether a cluster continues after an option with an optional value: a flag always has
        another letter after it."""
        return option.is_flag or f"-{inside[0]}" in (*self.options, *HELP)

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
        """Whether an option with an optional value is followed by one of its values (`-z zstd`, `-w
        5`)."""
        if option.is_flag or not self.rest:
            return False
        if info_of(option).takes_next and not self.rest[-1].startswith("-"):
            return True
        return self._may_take(option, self.rest[-1])

    def _may_take(self, option: "TyperOption", word: str) -> bool:
        """Whether `word` is a value of an option whose value is optional."""
        if option.is_flag:
            return False
        if word in choices_of(option):
            return True
        return info_of(option).parser is pause and is_duration(word)

    def _next_value(self, name: str) -> str:
        known = (*self.options, *HELP)
        if not self.rest or self.rest[-1].partition("=")[0] in known:
            raise self.refuse(f"{name} needs a value")
        return self.rest.pop()

    def _unknown(self, name: str) -> UsageError:
        known = [n for n, o in self.options.items() if n.startswith("--") and not o.hidden]
        from pk.cli.command_line.other_tools import option_here

        found = option_here(self.where, name)
        hint = did_you_mean(name, [*known, "--help"], "")
        if found is not None:
            hint = f"; in pk that is `pk {found}`"
        return self.refuse(f"{self.where} has no option {name}{hint}")

    def bound(
        self, options: "Sequence[TyperOption]", arguments: "Sequence[TyperArgument]"
    ) -> list[str]:
        """The rest of the words, for a command with these parameters, as typer reads them. Raises
        UsageError."""
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
            said = f"takes no more arguments, got {plain[len(arguments)]!r}"
            raise self.refuse(f"{self.where} {said}")
        return [*found, "--", *plain]
