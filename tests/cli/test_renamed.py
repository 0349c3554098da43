"""Old names of commands still work, tell a user the new name, and are never shown."""

from collections.abc import Callable

import pytest
from commands import Ran
from each import for_each
from terminal import Terminal

from pk.cli.command_line.completion.candidates import Candidate, candidates
from pk.cli.command_line.help import help_text
from pk.cli.command_line.parse import parse
from pk.cli.command_line.renamed import RENAMED
from pk.cli.command_line.tree import Group, tree
from pk.cli.exits import UsageError

Run = Callable[..., Ran]


class _NoNames:
    """A cluster about which nothing is known."""

    def names(self, kind: str) -> tuple[Candidate, ...]:
        return ()

    def configs(self, kind: str, name: str) -> dict[str, str]:
        return {}

    def current(self, kind: str) -> str | None:
        return None


@for_each(("old", "new"), RENAMED.items())
def test_an_old_name_means_the_new_one(old: str, new: str) -> None:
    parsed, now = parse([*old.split(), "--help"]), parse([*new.split(), "--help"])
    assert (parsed.path, parsed.typed) == (now.path, now.typed)
    assert parsed.renamed == f"`pk {old}` is now `pk {new}`."
    assert now.renamed == ""


@for_each("old", RENAMED)
def test_an_old_name_is_in_no_list(old: str) -> None:
    *before, last = old.split()
    noun = tree()
    for word in before:
        child = noun.child(word)
        if not isinstance(child, Group):
            return
        noun = child
    assert noun.child(last) is None
    lines = help_text(noun, tuple(before)).splitlines()
    assert not any(line.split()[:1] == [last] for line in lines)
    assert last not in [c.word for c in candidates(tree(), before, last, _NoNames())]


def test_only_a_person_is_told_the_new_name(pk: Run, terminal: Callable[..., Terminal]) -> None:
    new = pk("undo", "--list", "-f", "json")
    old = pk("history", "-f", "json")
    assert (old.code, old.out, old.err) == (new.code, new.out, new.err)
    shown = terminal("history")
    shown.wait_for("`pk history` is now `pk undo --list`.")
    assert shown.end() == 0


def test_help_knows_the_old_name_too(pk: Run) -> None:
    assert pk("help", "history").text == pk("help", "undo").text
    assert pk("help", "tokens", "create").text == pk("help", "users", "tokens", "create").text


def test_an_option_after_a_noun_may_mean_its_usual_command() -> None:
    for words in (["--", "pytest"], ["--brokers", "3", "--", "pytest"]):
        assert parse(["test", *words]).path == ("test", "run")
    assert parse(["test", "--help"]).path == ("test",)
    with pytest.raises(UsageError, match="did you mean `pk test -- pytest`"):
        parse(["test", "pytest"])
    names = _NoNames()
    assert "--brokers" in [c.word for c in candidates(tree(), ["test"], "--", names)]
    assert candidates(tree(), ["test", "--brokers"], "", names) == []
