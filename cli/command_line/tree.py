"""The command tree as plain data without typer, for help, completion, the manual and the shell's
prompt.

`pk.cli.command_line.tree_index` makes this data from the declarations. Completion must respond
immediately to the Tab key, so `scripts/generate_completions.py` writes the whole tree to
`tree.json` beside this file; a test fails if that file is stale. Therefore this module imports
nothing that takes long.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from pk.cli.options.panels import CONNECTION, OUTPUT


class Option:
    """An option. `value` is the word that help shows for its value; empty for a flag.

    `kind` says how the value is read: text, int, count, number, duration, pause, milliseconds,
    minutes, pair, list (comma separated) or choice. `complete` names the kind of its completion.
    `panel` is its heading in help.
    """

    __slots__ = (
        "choices",
        "complete",
        "dest",
        "help",
        "hidden",
        "kind",
        "names",
        "panel",
        "repeat",
        "value",
    )

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.names: tuple[str, ...] = tuple(data["names"])
        self.dest: str = data["dest"]
        self.help: str = data["help"]
        self.value: str | None = data.get("value")
        self.kind: str = data.get("kind", "text")
        self.choices: tuple[str, ...] = tuple(data.get("choices", ()))
        self.complete: str | None = data.get("complete")
        self.repeat: bool = data.get("repeat", False)
        self.hidden: bool = data.get("hidden", False)
        self.panel: str = data.get("panel", "")

    @property
    def is_flag(self) -> bool:
        """Whether the option takes no value."""
        return self.value is None

    @property
    def long_name(self) -> str:
        """The name to show if only one is shown."""
        return next((name for name in self.names if name.startswith("--")), self.names[0])


HELP = Option({"names": ["-h", "--help"], "dest": "help", "help": "Show this help."})


class Argument:
    """A word without a dash. `many` means that the argument takes all words that are left;
    `optional`, that it may be omitted."""

    __slots__ = ("complete", "dest", "help", "many", "name", "optional")

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.name: str = data["name"]
        self.dest: str = data["dest"]
        self.help: str = data["help"]
        self.many: bool = data.get("many", False)
        self.optional: bool = data.get("optional", False)
        self.complete: str | None = data.get("complete")


class Command:
    """A command with its parameters. `from_use`, `instead_of_use` and `in_shell` are those of
    `pk.cli.command_line.declared.Declared`. `columns` has the names of the columns that the command
    shows, separated by spaces, by the option that chooses between several lists; it is empty for a
    command that prints no JSON."""

    __slots__ = (
        "arguments",
        "blocking",
        "columns",
        "examples",
        "from_use",
        "help",
        "hidden",
        "in_shell",
        "instead_of_use",
        "names",
        "notes",
        "options",
    )

    def __init__(self, data: Mapping[str, Any], options: "list[Mapping[str, Any]]") -> None:
        self.names: tuple[str, ...] = tuple(data["names"])
        self.help: str = data["help"]
        self.options = tuple(Option(options[int(number)]) for number in data["options"])
        self.arguments = tuple(Argument(each) for each in data.get("arguments", ()))
        self.examples: tuple[str, ...] = tuple(data.get("examples", ()))
        self.notes: str = data.get("notes", "")
        self.blocking: bool = data.get("blocking", False)
        self.from_use: bool = data.get("from_use", False)
        self.instead_of_use: tuple[str, ...] = tuple(data.get("instead_of_use", ()))
        self.in_shell: bool = not data.get("not_in_shell", False)
        self.hidden: bool = False
        self.columns: dict[str, str] = data.get("columns", {})

    @property
    def name(self) -> str:
        """The name that help shows first."""
        return self.names[0]

    @property
    def shows(self) -> bool:
        """Whether the command prints JSON of its own."""
        return bool(self.columns)

    def takes(self, dest: str) -> bool:
        """Whether the command has an option that is called `dest` in Python."""
        return any(option.dest == dest for option in self.options)

    @property
    def changes(self) -> bool:
        """Whether the command changes something: if so, it takes -y."""
        return self.takes("yes")

    def under(self, panel: str) -> list[Option]:
        """The command's options under one heading of help."""
        return [option for option in self.options if option.panel == panel]

    @property
    def lists(self) -> bool:
        """Whether the command shows a list whose rows can be filtered and sorted."""
        return len(self.under(OUTPUT)) > 1

    @property
    def connects(self) -> bool:
        """Whether the command connects to a cluster."""
        return any(option.dest == "bootstrap_server" for option in self.under(CONNECTION))


class Group:
    """A noun, with the commands below it."""

    __slots__ = ("_children", "_data", "_options", "help", "hidden", "names", "usual")

    def __init__(self, data: Mapping[str, Any], options: "list[Mapping[str, Any]]") -> None:
        self.names: tuple[str, ...] = tuple(data["names"])
        self.help: str = data["help"]
        self.usual: str = data.get("usual", "")
        self.hidden: bool = False
        self._data = data
        self._options = options
        self._children: dict[str, Command | Group] = {}

    @property
    def name(self) -> str:
        """The name that help shows first."""
        return self.names[0]

    @property
    def options(self) -> tuple[Option, ...]:
        """The options that a command line may have before the command's words."""
        return tuple(Option(self._options[int(number)]) for number in self._data.get("options", ()))

    @property
    def children(self) -> "tuple[Command | Group, ...]":
        """The noun's commands and nouns, in the order of help."""
        return tuple(self._child(each) for each in self._data["children"])

    def child(self, word: str) -> "Command | Group | None":
        """The command or noun with that name; None if there is none."""
        found = (each for each in self._data["children"] if word in each["names"])
        return next((self._child(each) for each in found), None)

    def _child(self, data: Mapping[str, Any]) -> "Command | Group":
        """Make the child from its data when it is first needed, since completion needs only one
        noun."""
        name = data["names"][0]
        if name not in self._children:
            made = (
                Group(data, self._options) if "children" in data else Command(data, self._options)
            )
            self._children[name] = made
        return self._children[name]


_loaded: Group | None = None


def tree() -> Group:
    """The whole tree, from the generated file."""
    global _loaded
    if _loaded is None:
        import json
        import os

        with open(os.path.join(os.path.dirname(__file__), "tree.json"), encoding="utf-8") as file:
            data = json.load(file)
        _loaded = Group(data["root"], data["options"])
    return _loaded


def commands(root: Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command of the tree with its path."""
    for child in root.children:
        if isinstance(child, Group):
            yield from commands(child, (*path, child.name))
        else:
            yield (*path, child.name), child
