"""Completion: candidates for the next word of a command line, for the shell scripts and `pk shell`.

Static words come from the command tree; names of topics, groups and brokers come from `Names`,
which never asks a broker. The module imports nothing that takes long, since the user waits for the
Tab key.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from pk.cli.command_line.tree import Argument, Command, Group, Option
from pk.cli.config_keys.words import KINDS, about, config_words, values_of
from pk.cli.options.known_values import GROUP_STATES, GROUP_TYPES, SHOWN, TRANSACTION_STATES


class Candidate(NamedTuple):
    """A word that may come next, and its meaning."""

    word: str
    meaning: str = ""


class Names(Protocol):
    """A source of the names and configs of a cluster. It must never wait for a broker."""

    def names(self, kind: str) -> Iterable[Candidate]:
        """The names of topics, groups, brokers, features, or config keys that are not in the table.
        The meaning of a topic begins with its number of partitions; the kind `topic/` is a topic
        with a slash after it."""
        ...

    def configs(self, kind: str, name: str) -> Mapping[str, str]:
        """The configs set on a topic, broker or group, if known."""
        ...

    def current(self, kind: str) -> str | None:
        """The topic or group that a command without one uses."""
        ...


class CursorContext(NamedTuple):
    """The context of the cursor: the command, the option or argument being completed, and the words
    before it."""

    node: Command | Group
    option: Option | None
    argument: Argument | None
    plain: tuple[str, ...]
    given: tuple[tuple[Option, str | None], ...]
    only_values: bool


POSITIONS = (
    Candidate("start", "the first record"),
    Candidate("end", "after the last record"),
    Candidate("-10", "10 records before the end"),
    Candidate("+10", "10 records after the start"),
    Candidate("committed", "the committed offset"),
    Candidate("start..end", "all current records"),
    Candidate("-10..end", "the last 10 records, then stop"),
    Candidate("@-1h", "an hour ago"),
    Candidate("@-1h..end", "the last hour, then stop"),
    Candidate("@today", "since midnight"),
    Candidate("@yesterday..@today", "yesterday"),
)
_ENDS = (
    Candidate("end", "the current end"),
    Candidate("@-1h", "an hour ago"),
    Candidate("@today", "midnight"),
    Candidate("@yesterday", "the midnight before"),
)
_RECORD_FIELDS = (
    Candidate("key"),
    Candidate("value", "value.FIELD is a field of JSON"),
    Candidate("headers", "headers.NAME is one header"),
    Candidate("timestamp"),
    Candidate("offset"),
    Candidate("partition"),
    Candidate("topic"),
)

_VALUES: dict[str, tuple[Candidate, ...]] = {
    "top-tab": tuple(
        map(Candidate, ("cluster", "topics", "groups", "isr", "reassign", "requests"))
    ),
    "transaction-state": tuple(map(Candidate, TRANSACTION_STATES)),
    "group-state": tuple(map(Candidate, GROUP_STATES)),
    "group-type": tuple(map(Candidate, GROUP_TYPES)),
    "log-content": tuple(map(Candidate, SHOWN)),
    "offset-time": tuple(map(Candidate, ("latest", "earliest", "max-timestamp"))),
    "shell": (Candidate("bash"), Candidate("zsh"), Candidate("fish")),
    "feature-action": (
        Candidate("list", "show features"),
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
    "input-format": tuple(map(Candidate, ("value", "jsonl", "csv", "%k\\t%v\\n"))),
    "fake": (
        Candidate("orders", "orders of customers, with keys"),
        Candidate("users", "people with names and addresses"),
        Candidate("clicks", "page views"),
    ),
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


def locate(root: Group, words: Sequence[str]) -> CursorContext:
    """Find the context of a cursor after `words`. Skips words that are not valid there."""
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
            only_values, node = True, _usual(node)
        elif word.startswith("-") and len(word) > 1 and not only_values:
            name, equals, text = word.partition("=")
            node = _usual(node)
            options.update({n: o for o in node.options for n in o.names})
            option = options.get(name)
            if option is None and not word.startswith("--"):
                option, text = _last_short(options, word)
                equals = text
            if option is not None and not option.is_flag and not equals:
                waiting = option
            elif option is not None:
                given.append((option, text or None))
        elif not isinstance(node, Command):
            child = node.child(word)
            if child is not None:
                node = child
                options.update({n: o for o in node.options for n in o.names})
        else:
            plain.append(word)
    argument = _next_argument(node, plain) if isinstance(node, Command) else None
    return CursorContext(node, waiting, argument, tuple(plain), tuple(given), only_values)


def _usual(node: Command | Group) -> Command | Group:
    """The command that is meant if an option directly follows a noun, as in `pk test -- pytest`."""
    usual = node.child(node.usual) if isinstance(node, Group) and node.usual else None
    return node if usual is None else usual


def _last_short(options: dict[str, Option], word: str) -> tuple[Option | None, str]:
    """The option in a group of short ones such as `-dn5` that takes the rest as its value, and that
    rest."""
    for i, letter in enumerate(word[1:], 2):
        option = options.get(f"-{letter}")
        if option is None or not option.is_flag:
            return option, word[i:]
    return None, ""


def _next_argument(command: Command, plain: Sequence[str]) -> Argument | None:
    if len(plain) < len(command.arguments):
        return command.arguments[len(plain)]
    last = command.arguments[-1] if command.arguments else None
    return last if last is not None and last.many else None


def candidates(root: Group, words: Sequence[str], typed: str, names: Names) -> list[Candidate]:
    """Replacements for `typed` after `words`, in display order; not filtered by prefix."""
    cursor = locate(root, words)
    if cursor.option is not None:
        return _values(cursor.option, cursor, typed, names)
    if typed.startswith("-") and not cursor.only_values:
        cursor = CursorContext(_usual(cursor.node), *cursor[1:])
        name, equals, text = typed.partition("=")
        if equals and name.startswith("--"):
            for option in cursor.node.options:
                if name in option.names and not option.is_flag:
                    found = _values(option, cursor, text, names)
                    return [Candidate(f"{name}={c.word}", c.meaning) for c in found]
            return []
        return list(_options(cursor))
    if isinstance(cursor.node, Group):
        return _commands(cursor.node, typed)
    return _of_argument(root, cursor, typed, names)


def _commands(group: Group, typed: str) -> list[Candidate]:
    """The commands of a noun or, if no main name begins as typed, the other names that do."""
    shown = [c for c in group.children if not c.hidden]
    if typed and not any(c.name.startswith(typed) for c in shown):
        named = [(n, c) for c in shown for n in c.names if n.startswith(typed)]
        if named:  # the user types another name, such as console-consumer
            return [Candidate(n, c.help) for n, c in named]
    return [Candidate(c.name, c.help) for c in shown]


def _of_argument(root: Group, cursor: CursorContext, typed: str, names: Names) -> list[Candidate]:
    if cursor.argument is not None and cursor.argument.complete == "help-page":
        return _help(root, cursor.plain, typed)
    if cursor.argument is not None and cursor.argument.complete == "config-key":
        return _keys_of_named(cursor, names)
    if cursor.argument is not None and cursor.argument.complete == "client-key":
        return _client_keys(typed)
    if cursor.argument is not None and cursor.argument.complete:
        return list(_of_kind(cursor.argument.complete, cursor, typed, names))
    return []


def _values(option: Option, cursor: CursorContext, typed: str, names: Names) -> list[Candidate]:
    """The candidates for an option's value."""
    if option.choices:
        return [Candidate(choice) for choice in option.choices]
    if option.kind == "list":
        # Complete one more entry of the list: after those that are there, without repeats.
        head, comma, _ = typed.rpartition(",")
        used = set(head.split(","))
        found = _plain_values(option, cursor, typed.rpartition(",")[2], names)
        return [Candidate(head + comma + c.word, c.meaning) for c in found if c.word not in used]
    return list(_plain_values(option, cursor, typed, names))


def _plain_values(
    option: Option, cursor: CursorContext, typed: str, names: Names
) -> Iterable[Candidate]:
    kind = option.complete
    if kind in _CONFIG_KINDS:
        return _configs(kind, option, cursor, typed, names)
    if kind == "column":
        return _columns(cursor, typed)
    if kind == "condition":
        return _conditions(_columns(cursor, ""), typed)
    if kind == "record-condition":
        return _conditions(_RECORD_FIELDS, typed)
    if kind is not None:
        return _of_kind(kind, cursor, typed, names)
    if option.dest in ("partitions", "partition") and option.kind in ("list", "int"):
        return _partition_numbers(cursor, names)
    return ()


def _options(cursor: CursorContext) -> Iterator[Candidate]:
    used = {option.dest for option, _ in cursor.given if not option.repeat}
    for option in cursor.node.options:
        if not option.hidden and option.dest not in used:
            yield Candidate(option.long_name, option.help)
    yield Candidate("--help", "Show this help.")


def _of_kind(kind: str, cursor: CursorContext, typed: str, names: Names) -> Iterable[Candidate]:
    if kind in ("position", "place"):
        takes = [*cursor.node.options, *getattr(cursor.node, "arguments", ())]
        commits = any(each.complete == "group" for each in takes)
        return _positions(typed, commits, ranges=kind == "position")
    if kind in _VALUES:
        return _VALUES[kind]
    if kind == "format":
        from pk.cli.options.known_values import FORMATS

        return [Candidate(name) for name in FORMATS]
    if kind == "profile":
        return profiles()
    if kind == "change":
        return _changes()
    if kind == "node":
        from pk.cli.runtime.cluster_files import nodes_running

        return [Candidate(*node) for node in nodes_running()]
    if kind == "entity-name":
        return _entities(cursor, names)
    if kind == "partition":
        return _partitions(typed, names)
    if kind in ("member", "instance"):
        return _members(kind, cursor, names)
    return names.names(kind)


def _used(kind: str, cursor: CursorContext, names: Names) -> str | None:
    """The topic or group that the shell's `use` set, if the command takes it from there."""
    takes = isinstance(cursor.node, Command) and cursor.node.from_use
    return names.current(kind) if takes else None


def _members(kind: str, cursor: CursorContext, names: Names) -> list[Candidate]:
    """The members of the group that the command names."""
    from pk.cli.runtime.name_cache import members_mark

    given = [text for option, text in cursor.given if option.dest in ("group", "groups") and text]
    group = next(iter((*cursor.plain, *given)), None) or _used("group", cursor, names)
    if group is None:
        return []
    mark = members_mark(group)
    found = (c for c in names.names(kind) if c.meaning.startswith(mark))
    return [Candidate(c.word, c.meaning.removeprefix(mark)) for c in found]


def _partitions(typed: str, names: Names) -> list[Candidate]:
    """First `orders/`, then its partitions: the partitions of all topics would be too many."""
    from pk.cli.runtime.name_cache import partition_count

    topic, slash, _ = typed.rpartition("/")
    if not slash:
        return list(names.names("topic/"))
    number = next((partition_count(c.meaning) for c in names.names("topic") if c.word == topic), 0)
    return [Candidate(f"{topic}/{p}") for p in range(number)]


def _help(root: Group, words: Sequence[str], typed: str) -> list[Candidate]:
    """Help pages, and the words of commands."""
    if list(words) == ["errors"]:
        from pk.core.errors import ErrorCode

        return [Candidate(code.name) for code in ErrorCode]
    node: Command | Group | None = root
    for word in words:
        node = node.child(word) if isinstance(node, Group) else None
    if not isinstance(node, Group):
        return []
    found = _commands(node, typed)
    if words:
        return found
    from pk.cli.command_line.pages import PAGES

    return [*(Candidate(name, about) for name, about in PAGES.items()), *found]


def _positions(typed: str, commits: bool, *, ranges: bool) -> list[Candidate]:
    """Positions. `commits` includes those relative to a group's commits, `ranges` includes ranges.
    After `0=5,1=`, the positions for one partition."""
    head, dots, _ = typed.rpartition("..")
    if dots and ranges:
        return [Candidate(f"{head}..{c.word}", c.meaning) for c in _ENDS]
    partition, equals, _ = typed.rpartition("=")
    return [
        Candidate(f"{partition}{equals}{c.word}", c.meaning)
        for c in POSITIONS
        if (commits or not c.word.startswith("committed")) and (ranges or ".." not in c.word)
    ]


def _columns(cursor: CursorContext, typed: str) -> list[Candidate]:
    """Columns of the command; after a minus sign, columns to leave out or to sort in descending
    order."""
    from pk.cli.command_line.schema import columns_of

    if not isinstance(cursor.node, Command):
        return []
    sign = typed[:1] if typed[:1] in ("-", "+") else ""
    given = {option.dest: text or True for option, text in cursor.given}
    return [Candidate(sign + name) for name in columns_of(cursor.node, given)]


def _conditions(fields: Iterable[Candidate], typed: str) -> list[Candidate]:
    """The names of fields, if a condition may start here."""
    head, blank, _ = typed.rpartition(" ")
    if blank and head.split()[-1:] not in (["and"], ["or"], ["not"]):
        return []
    return [Candidate(head + blank + c.word, c.meaning) for c in fields]


def _partition_numbers(cursor: CursorContext, names: Names) -> list[Candidate]:
    """The partitions of the topic that the command names."""
    given = [text for option, text in cursor.given if option.dest in ("topic", "topics")]
    node = cursor.node
    if isinstance(node, Command) and node.arguments and node.arguments[0].complete == "topic":
        given += cursor.plain if node.arguments[0].many else cursor.plain[:1]
    topic = given[0] if given else _used("topic", cursor, names)
    meaning = next((c.meaning for c in names.names("topic") if c.word == topic), "")
    from pk.cli.runtime.name_cache import partition_count

    return [Candidate(str(n)) for n in range(min(partition_count(meaning), 1000))]


_CONFIG_KINDS = frozenset(
    ("config-key", "topic-config", "broker-config", "group-config", "client-key")
)


def _configs(
    kind: str, option: Option, cursor: CursorContext, typed: str, names: Names
) -> list[Candidate]:
    """Config keys with their meanings and current values; after `KEY=`, the possible values."""
    of, name = _configured(kind, cursor, names)
    present: Mapping[str, str] = names.configs(of, name) if name else {}
    table = config_words(of)
    key, equals, value = typed.partition("=")
    if equals and option.kind in ("pair", "config"):
        word = table.get(key, ("-", "", ""))
        head, comma, _ = value.rpartition(",") if word[1].startswith("*") else ("", "", "")
        found = values_of(key, word, present.get(key))
        used = set(head.split(","))
        return [Candidate(f"{key}={head}{comma}{v}", m) for v, m in found if v not in used]
    end = "=" if option.kind in ("pair", "config") else ""
    found = [Candidate(k + end, about(k, w, present.get(k))) for k, w in table.items()]
    known = {*table}
    more = [c for c in names.names(f"{of}-config") if c.word not in known]
    if option.dest in ("delete", "delete_config", "delete_configs") and present:
        # Only configs that are set can be deleted.
        return [Candidate(k, about(k, table.get(k, ("-", "", "")), v)) for k, v in present.items()]
    return [*found, *(Candidate(c.word + end, c.meaning) for c in more)]


def _client_keys(typed: str) -> list[Candidate]:
    """Client configs that are a word of their own, such as `acks=1`."""
    key, equals, _ = typed.partition("=")
    table = config_words("client")
    if equals:
        return [
            Candidate(f"{key}={v}", m)
            for v, m in values_of(key, table.get(key, ("-", "", "")), None)
        ]
    return [Candidate(f"{k}=", about(k, w, None)) for k, w in table.items()]


def _keys_of_named(cursor: CursorContext, names: Names) -> list[Candidate]:
    """Config keys of the resource in the previous word: a topic, unless --type says otherwise."""
    of = next((text for option, text in cursor.given if option.dest == "type" and text), "topic")
    present: Mapping[str, str] = names.configs(of, cursor.plain[-1]) if cursor.plain else {}
    return [Candidate(k, about(k, w, present.get(k))) for k, w in config_words(of).items()]


def _configured(kind: str, cursor: CursorContext, names: Names) -> tuple[str, str | None]:
    """The resource type of the configs, and the name of the resource, if it is given."""
    if kind == "client-key":
        return "client", None
    plain = list(cursor.plain)
    if kind != "config-key":
        of = kind.removesuffix("-config")
        topic = _used("topic", cursor, names) if of == "topic" and not plain else None
        existing = cursor.argument is None or cursor.argument.complete is not None
        return of, (plain[0] if plain else topic) if existing else None
    for option, text in cursor.given:
        if option.dest in ("topic", "broker", "group"):
            return option.dest, text
        if option.dest == "entity_type" and text:
            plain.insert(0, text)
        elif option.dest == "entity_name" and text:
            plain.append(text)
    of = (plain[0] if plain else "topic").removesuffix("s")
    of = "client-metrics" if of == "client-metric" else of
    return (of if of in KINDS else "topic"), plain[1] if len(plain) > 1 else None


_ENTITY_NAMES = {"topic": "topic", "broker": "broker", "broker-logger": "broker", "group": "group"}


def _entities(cursor: CursorContext, names: Names) -> Iterable[Candidate]:
    kind = _ENTITY_NAMES.get((cursor.plain[0] if cursor.plain else "").removesuffix("s"))
    return names.names(kind) if kind else ()


def profiles() -> list[Candidate]:
    """All profiles, each with the address of its cluster."""
    from pk.cli.exits import CommandError
    from pk.cli.runtime.settings import read_profiles

    try:
        profiles, _ = read_profiles()
    except CommandError:
        return []
    return [Candidate(p.name, p.bootstrap or "") for p in profiles.values()]


def _changes() -> list[Candidate]:
    from pk.cli.runtime.undo_log import history

    found = [Candidate(c.id, c.description) for c in history() if c.undone_ms is None]
    return [Candidate("last", found[0].meaning), *found] if found else []


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


def prefixed(typed: str, found: Iterable[Candidate]) -> list[Candidate]:
    """The candidates that begin with `typed`."""
    return [c for c in found if c.word.startswith(typed)]


def matching(
    root: Group,
    words: Sequence[str],
    typed: str,
    names: Names,
    choose: Callable[[str, Iterable[Candidate]], list[Candidate]] = prefixed,
) -> list[Candidate]:
    """The candidates for `typed`, chosen by `choose`; files and directories if these are
    expected."""
    cursor = locate(root, words)
    wanted = (
        cursor.option.complete
        if cursor.option
        else cursor.argument.complete
        if cursor.argument
        else None
    )
    if wanted in ("file", "directory") and not typed.startswith("-"):
        return sorted(_paths(typed, wanted == "directory"))
    return choose(typed, candidates(root, words, typed, names))
