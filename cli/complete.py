"""Completion: what may come next on a command line. The shell scripts and `pk shell` both ask here.

Static words come from the command tree; names of topics, groups and brokers from `Names`, which never asks a broker.
Nothing heavy is imported: this answers while somebody holds the Tab key.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from pk.cli.grammar import Argument, Command, Group, Option


class Candidate(NamedTuple):
    """A word that may come next, and what it is."""

    word: str
    meaning: str = ""


class Names(Protocol):
    """Where names of a cluster come from: topic, group, broker, and config keys with their meaning."""

    def names(self, kind: str) -> Iterable[Candidate]: ...


class Place(NamedTuple):
    """Where the cursor is: the node reached, what is being completed, and the words that matter for it."""

    node: Command | Group
    option: Option | None
    argument: Argument | None
    plain: tuple[str, ...]
    given: tuple[tuple[Option, str | None], ...]
    only_values: bool


POSITIONS = (
    Candidate("start", "the first record there is"),
    Candidate("end", "after the last record"),
    Candidate("-10", "10 records before the end"),
    Candidate("+10", "10 records after the start"),
    Candidate("committed", "the committed offset"),
    Candidate("start..end", "everything there is now"),
    Candidate("-10..end", "the last 10 records, then stop"),
    Candidate("@-1h", "an hour ago"),
    Candidate("@-1h..end", "the last hour, then stop"),
    Candidate("@today", "since midnight"),
    Candidate("@yesterday..@today", "yesterday"),
)

_VALUES: dict[str, tuple[Candidate, ...]] = {
    "position": POSITIONS,
    "shell": (Candidate("bash"), Candidate("zsh"), Candidate("fish")),
    "help-page": (
        Candidate("exit-codes", "what the process answers"),
        Candidate("positions", "how a place in a topic is written"),
        Candidate("formats", "how results look"),
    ),
    "feature-action": (
        Candidate("list", "what there is"),
        Candidate("upgrade", "raise a feature's level"),
        Candidate("downgrade", "lower a feature's level"),
        Candidate("disable", "set a feature's level to 0"),
    ),
    "entity-type": tuple(
        map(Candidate, ("topic", "broker", "broker-logger", "group", "client-metrics"))
    ),
    "record-format": tuple(
        Candidate(name)
        for name in (
            "value",
            "json",
            "jsonl",
            "csv",
            "yaml",
            "table",
            "wide",
            "name",
            "cbor",
            "%k\\t%v\\n",
        )
    ),
    "input-format": tuple(map(Candidate, ("value", "jsonl", "%k\\t%v\\n"))),
    "formatter-property": tuple(
        Candidate(f"{name}=")
        for name in (
            "print.key",
            "print.value",
            "print.timestamp",
            "print.offset",
            "print.partition",
            "print.headers",
            "print.epoch",
            "key.separator",
            "line.separator",
            "headers.separator",
            "null.literal",
        )
    ),
    "reader-property": tuple(
        Candidate(f"{name}=")
        for name in (
            "parse.key",
            "key.separator",
            "parse.headers",
            "headers.delimiter",
            "headers.separator",
            "headers.key.separator",
            "ignore.error",
            "null.marker",
        )
    ),
}


def locate(root: Group, words: Sequence[str]) -> Place:
    """Where a cursor after `words` stands. Words that make no sense are passed over."""
    node: Command | Group = root
    options: dict[str, Option] = {n: o for o in root.options for n in o.names}
    plain: list[str] = []
    given: list[tuple[Option, str | None]] = []
    waiting: Option | None = None
    only_values = False
    for word in words:
        if waiting is not None:
            given.append((waiting, word))
            waiting = None
        elif word == "--" and not only_values:
            only_values = True
        elif word.startswith("-") and len(word) > 1 and not only_values:
            name, equals, text = word.partition("=")
            option = options.get(name)
            if option is None and not word.startswith("--"):
                option, text = _last_short(options, word)
                equals = text
            if option is not None and option.wait_for_value and not equals:
                waiting = option
            elif option is not None:
                given.append((option, text or None))
        elif isinstance(node, Group):
            child = node.child(word)
            if child is not None:
                node = child
                options.update({n: o for o in node.options for n in o.names})
        else:
            plain.append(word)
    argument = _next_argument(node, plain) if isinstance(node, Command) else None
    return Place(node, waiting, argument, tuple(plain), tuple(given), only_values)


def _last_short(options: dict[str, Option], word: str) -> tuple[Option | None, str]:
    """The option of a cluster such as `-dn5` that takes the rest as its value, and that rest."""
    for i, letter in enumerate(word[1:], 2):
        option = options.get(f"-{letter}")
        if option is None or option.wait_for_value:
            return option, word[i:]
    return None, ""


def _next_argument(command: Command, plain: Sequence[str]) -> Argument | None:
    if len(plain) < len(command.arguments):
        return command.arguments[len(plain)]
    last = command.arguments[-1] if command.arguments else None
    return last if last is not None and last.many else None


def candidates(root: Group, words: Sequence[str], typed: str, names: Names) -> list[Candidate]:
    """What may replace `typed` after `words`, in the order to show it; prefixes are not filtered here."""
    place = locate(root, words)
    if place.option is not None:
        return _listed(place.option, typed, list(_values(place.option, place, names)))
    if typed.startswith("-") and not place.only_values:
        name, equals, _ = typed.partition("=")
        if equals and name.startswith("--"):
            for option in place.node.options:
                if name in option.names and not option.is_flag:
                    return [
                        Candidate(f"{name}={c.word}", c.meaning)
                        for c in _values(option, place, names)
                    ]
            return []
        return list(_options(place))
    if isinstance(place.node, Group):
        return [Candidate(c.name, c.help) for c in place.node.children if not c.hidden]
    if place.argument is not None and place.argument.complete:
        return list(_of_kind(place.argument.complete, place, names))
    return []


def _listed(option: Option, typed: str, found: list[Candidate]) -> list[Candidate]:
    """The candidates for one more entry of a list such as `4,5`: behind what stands there, and none of it twice."""
    head, comma, _ = typed.rpartition(",")
    if option.kind != "list" or not comma:
        return found
    used = set(head.split(","))
    return [Candidate(f"{head},{c.word}", c.meaning) for c in found if c.word not in used]


def _options(place: Place) -> Iterator[Candidate]:
    used = {option.dest for option, _ in place.given if not option.repeat}
    for option in place.node.options:
        if not option.hidden and option.dest not in used:
            yield Candidate(option.long_name, option.help)
    yield Candidate("--help", "Show help and stop.")


def _values(option: Option, place: Place, names: Names) -> Iterable[Candidate]:
    if option.choices:
        return [Candidate(choice) for choice in option.choices]
    return _of_kind(option.complete, place, names) if option.complete else ()


def _of_kind(kind: str, place: Place, names: Names) -> Iterable[Candidate]:
    if kind in _VALUES:
        return _VALUES[kind]
    if kind == "format":
        from pk.cli.specs.common import FORMATS

        return [Candidate(name) for name in FORMATS]
    if kind == "profile":
        return _profiles()
    if kind == "entity-name":
        return _entities(place, names)
    if kind == "config-key":
        return _config_keys(place, names)
    return names.names(kind)


_ENTITY_NAMES = {"topic": "topic", "broker": "broker", "broker-logger": "broker", "group": "group"}


def _entities(place: Place, names: Names) -> Iterable[Candidate]:
    kind = _ENTITY_NAMES.get((place.plain[0] if place.plain else "").removesuffix("s"))
    return names.names(kind) if kind else ()


def _config_keys(place: Place, names: Names) -> Iterable[Candidate]:
    kind = (place.plain[0] if place.plain else "").removesuffix("s")
    if any(option.dest == "topic" for option, _ in place.given):
        kind = "topic"
    return names.names(f"{kind or 'topic'}-config")


def _profiles() -> list[Candidate]:
    from pk.cli.exits import CommandError
    from pk.cli.settings import read_profiles

    try:
        profiles, _ = read_profiles()
    except CommandError:
        return []
    return [Candidate(p.name, p.bootstrap or "") for p in profiles.values()]


class CachedNames:
    """Names from the files that earlier commands left."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = words

    def names(self, kind: str) -> Iterable[Candidate]:
        from pk.cli.names import recall

        if kind in ("topic", "group", "broker", "partition", "feature"):
            return [Candidate(name) for name in recall(self._bootstrap(), kind)]
        if kind.endswith("-config"):
            return [Candidate(f"{name}=") for name in recall("", kind)]
        return ()

    def _bootstrap(self) -> str:
        from pk.cli.exits import CommandError
        from pk.cli.settings import DEFAULT_BOOTSTRAP, choose_profile
        from pk.cli.tree import ROOT

        given = {option.dest: text for option, text in locate(ROOT, self.words).given}
        if given.get("bootstrap_server"):
            return str(given["bootstrap_server"])
        if not given.get("profile") and os.environ.get("PK_BOOTSTRAP_SERVER"):
            return os.environ["PK_BOOTSTRAP_SERVER"]
        try:
            profile = choose_profile(given.get("profile"))
        except CommandError:
            profile = None
        return (profile.bootstrap if profile else None) or DEFAULT_BOOTSTRAP


def _paths(typed: str, only_directories: bool) -> Iterator[Candidate]:
    head, tail = os.path.split(typed)
    try:
        with os.scandir(os.path.expanduser(head) or ".") as entries:
            for entry in entries:
                is_dir = entry.is_dir()
                if entry.name.startswith(tail) and (is_dir or not only_directories):
                    yield Candidate(os.path.join(head, entry.name) + ("/" if is_dir else ""))
    except OSError:
        return


def matching(root: Group, words: Sequence[str], typed: str, names: Names) -> list[Candidate]:
    """The candidates that begin with `typed`; files and directories where those are wanted."""
    place = locate(root, words)
    wanted = (
        place.option.complete
        if place.option
        else place.argument.complete
        if place.argument
        else None
    )
    if wanted in ("file", "directory") and not typed.startswith("-"):
        return sorted(_paths(typed, wanted == "directory"))
    return [c for c in candidates(root, words, typed, names) if c.word.startswith(typed)]


def answer(words: Sequence[str]) -> str:
    """What the scripts in `completions/` read: a line for each candidate, word and meaning parted by a tab."""
    from pk.cli.tree import ROOT

    *before, typed = words or [""]
    found = matching(ROOT, before, typed, CachedNames(before))
    return "".join(f"{c.word}\t{c.meaning}\n" for c in found)
