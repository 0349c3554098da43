"""Rules for the whole command tree: the same options everywhere, a dry run for every change, a
schema for all JSON."""

import jsonschema
import pytest
from each import for_each

from pk.cli.command_line.declared import Declared
from pk.cli.command_line.kit import Command as DeclaredCommand
from pk.cli.command_line.kit import Group as DeclaredGroup
from pk.cli.command_line.parse import parse, root
from pk.cli.command_line.schema import (
    columns_of,
    rows_by_option,
    rows_of,
    schema_of,
    schema_of_rows,
)
from pk.cli.command_line.tree import Command, Group, Option, commands, tree
from pk.cli.exits import UsageError
from pk.cli.options.panels import CONNECTION, OUTPUT
from pk.core.durations import Duration

ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands(tree())]
BY_PATH = dict(commands(tree()))

STARTS = frozenset(
    (
        "up",
        "test run",
        *(f"node {verb}" for verb in ("start", "stop", "kill", "restart", "pause", "resume")),
        "shell",
        "schema-registry start",
        *(f"spark pipeline {verb}" for verb in ("run", "stop")),
    )
)
"""Commands that start or stop the user's own processes, and change no cluster."""

OWN = frozenset(
    (
        "profile add",
        "profile use",
        "profile edit",
        "spark pipeline init",
        "spark package",
        "spark warm-up",
        "debug bundle",
        "spark pipeline export",
    )
)
"""Commands that change only files of the user, who can change them back."""

LOOKS = frozenset(
    (
        "topics list",
        "topics describe",
        "topics offsets",
        "consume",
        "groups list",
        "groups describe",
        "groups lag",
        "groups members",
        "groups watch",
        "partitions list",
        "isr",
        "reassign plan",
        "reassign status",
        "configs list",
        "configs describe",
        "brokers list",
        "brokers describe",
        "brokers logdirs",
        "cluster describe",
        "cluster health",
        "cluster quorum",
        "transactions producers",
        "transactions list",
        "transactions describe",
        "transactions find-hanging",
        "users list",
        "users tokens list",
        "acls list",
        "quotas list",
        "acls check",
        "test faults list",
        "metrics",
        "log dump",
        "log verify",
        "log cat",
        "log remote",
        "node status",
        "profile list",
        "profile show",
        "doctor",
        "why partition",
        "why lag",
        "why config",
        "why denied",
        "spark pipeline check",
        *(f"schema {verb}" for verb in ("list", "show", "check", "diff")),
        "spark pipeline status",
        "top",
        "api-versions",
        "version",
        "completion",
        "help",
        *(f"wait {what}" for what in ("topic", "isr", "lag", "group-empty", "reassign", "broker")),
    )
)
"""Commands that only read. Every command that is neither here nor in one of the sets above changes
something."""


LISTING = ["format", "columns", "sort", "where", "limit"]
REACHING = {"bootstrap_server", "profile", "client_properties", "config_file", "debug"}
TRACING = {"trace", "trace_json"}


def name(path: tuple[str, ...]) -> str:
    return " ".join(path)


DURATIONS = [
    pytest.param(path, option, id=f"{name(path)} {option.long_name}")
    for path, command in commands(tree())
    for option in command.options
    if option.kind in ("duration", "pause")
]


@for_each(("path", "option"), DURATIONS)
def test_a_duration_is_written_the_same_way_everywhere(
    path: tuple[str, ...], option: Option
) -> None:
    values = {"500ms": 500, "1.5m": 90_000, "2h": 7_200_000, "1d": 86_400_000, "30": 30_000}
    words = {"NODE": "1", "KIND": "delay"}
    needed = [words.get(a.name, "x") for a in BY_PATH[path].arguments if not a.optional]
    for text, ms in values.items():
        for words in ([f"{option.long_name}={text}"], [option.long_name, text]):
            assert parse([*path, *words, *needed]).values[option.dest] == Duration(ms), words
    with pytest.raises(UsageError, match="needs a duration such as"):
        parse([*path, f"{option.long_name}=5y", *needed])


def test_a_time_in_another_unit_says_which() -> None:
    """A number counts milliseconds or minutes if it does in Apache's tools. All other options take
    durations."""
    for path, command in commands(tree()):
        for option in command.options:
            assert option.value not in ("SECONDS", "S", "MINUTE"), (path, option.names)
            if option.value in ("MS", "MINUTES"):
                unit = {"MS": "milliseconds", "MINUTES": "minutes"}[option.value]
                assert f"A number alone is {unit}, as in Apache's tool." in option.help


@pytest.mark.parametrize(
    ("words", "dest", "ms"),
    [
        (["consume", "t", "--timeout-ms", "500"], "timeout_ms", 500),
        (["consume", "t", "--timeout-ms", "5s"], "timeout_ms", 5000),
        (["consume", "t", "--timeout-ms", "-1"], "timeout_ms", -1),
        (["produce", "t", "--timeout", "7"], "linger_ms", 7),
        (["groups", "describe", "g", "--timeout", "5000"], "timeout", 5000),
        (["node", "stop", "--timeout-s", "5"], "timeout", Duration(5000)),
        (
            ["transactions", "find-hanging", "--max-transaction-timeout", "2"],
            "max_transaction_timeout",
            Duration(120_000),
        ),
    ],
)
def test_a_time_as_apaches_tools_and_older_lines_have_it(
    words: list[str], dest: str, ms: object
) -> None:
    assert parse(words).values[dest] == ms


@for_each(("path", "command"), ALL)
def test_a_change_can_be_tried_first_and_need_not_ask(
    path: tuple[str, ...], command: Command
) -> None:
    if name(path) in STARTS | OWN | LOOKS:
        assert not command.takes("dry_run")
        return
    dests = {option.dest for option in command.options}
    assert "dry_run" in dests, f"{name(path)} changes something: where is -d? Or does it only look?"
    assert "yes" in dests, (
        f"{name(path)} changes something: -y must be accepted, also if nothing is asked"
    )


def test_the_sets_above_name_nothing_that_is_gone() -> None:
    unknown = (STARTS | OWN | LOOKS) - {name(path) for path in BY_PATH}
    assert not unknown


@for_each(("path", "command"), ALL)
def test_what_takes_one_option_of_a_set_takes_them_all(
    path: tuple[str, ...], command: Command
) -> None:
    output = [option.dest for option in command.under(OUTPUT)]
    assert output in ([], ["format"], LISTING), name(path)
    connection = {option.dest for option in command.under(CONNECTION)}
    if command.connects:
        assert connection == REACHING | (set() if command.blocking else TRACING), name(path)
    else:
        assert connection <= {"debug"}, name(path)


@for_each(("path", "command"), ALL)
def test_every_list_can_be_filtered(path: tuple[str, ...], command: Command) -> None:
    if path[-1] in ("list", "describe", "status", "health") and path[0] != "node":
        assert command.lists, name(path)


def declared(path: tuple[str, ...]) -> Declared:
    """A command as it was declared."""
    node = root()
    for word in path:
        found = node.own(word)
        if isinstance(found, DeclaredCommand):
            return found.declared
        assert isinstance(found, DeclaredGroup)
        node = found
    raise AssertionError(path)


@for_each(("path", "command"), ALL)
def test_json_has_a_schema(path: tuple[str, ...], command: Command) -> None:
    """Every command with -f has a valid schema of its JSON."""
    if not command.under(OUTPUT):
        assert not command.shows
        return
    found = rows_by_option(declared(path).shows)
    assert found[""], f"{name(path)} takes -f and says nothing of its JSON"
    dests = {option.dest for option in command.options} | {a.dest for a in command.arguments}
    for key, rows in found.items():
        assert not key or key.partition("=")[0] in dests, (name(path), key)
        jsonschema.Draft202012Validator.check_schema(schema_of_rows(rows))


def test_names_are_singular_and_plural() -> None:
    for child in tree().children:
        if isinstance(child, Group) and child.name.endswith("s") and child.name not in ("acls",):
            singular = tree().child(child.name.removesuffix("s"))
            assert isinstance(singular, Group), child.name
            for each in child.children:
                assert singular.child(each.name) is each, (child.name, each.name)
                assert child.child(each.name) is each
    for noun in ("topic", "group", "partition", "config", "broker", "cluster", "log"):
        one, many = tree().child(noun), tree().child(f"{noun}s")
        assert isinstance(one, Group) and isinstance(many, Group), noun
        for each in (*one.children, *many.children):
            assert one.child(each.name) is many.child(each.name) is each, (noun, each.name)
    for path, command in commands(tree()):
        for verb, alias in (("list", "ls"), ("delete", "rm")):
            if path[-1] == verb:
                assert alias in command.names, name(path)


@for_each(("path", "command"), ALL)
def test_every_command_has_an_example(path: tuple[str, ...], command: Command) -> None:
    assert command.examples, name(path)
    assert any("pk " in example for example in command.examples)


def test_a_schema_follows_the_columns_and_the_options() -> None:
    described = parse(["topics", "describe", "orders", "-f", "schema"])
    assert "partitions" in schema_of(described)["items"]["properties"]
    narrowed = parse(["topics", "describe", "orders", "--where", "leader = 1"])
    assert "partition" in schema_of(narrowed)["items"]["properties"]
    some = parse(["topics", "list", "--columns", "topic,-topic_id"])
    assert list(schema_of(some)["items"]["properties"]) == ["topic"]
    without = parse(["topics", "list", "--columns", "-topic-id"])
    assert list(schema_of(without)["items"]["properties"])[-1] == "internal"


def test_a_schema_names_each_row_type_of_which_the_run_chooses_one() -> None:
    items = schema_of(parse(["undo", "3", "-f", "schema"]))["items"]["anyOf"]
    assert ["target" in each["properties"] for each in items] == [True, False, False, False, False]
    some = schema_of(parse(["undo", "3", "--columns", "key,result"]))["items"]["anyOf"]
    assert [each["required"] for each in some] == [
        ["result"],
        ["key", "result"],
        ["result"],
        ["result"],
        ["key", "result"],
    ]
    assert {"target", "key"} <= set(columns_of(BY_PATH["undo",], {"change_id": "3"}))


def test_columns_are_known_without_running_anything() -> None:
    command = BY_PATH["topics", "list"]
    assert columns_of(command)[:2] == ["topic", "partitions"]
    health = BY_PATH["cluster", "health"]
    assert columns_of(health) == ["check", "state", "what", "fix"]
    of_health = declared(("cluster", "health"))
    assert rows_of(of_health, {}) != rows_of(of_health, {}, narrowed=True)
