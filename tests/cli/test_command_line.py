"""The command line: words become values, mistakes become sentences, and the rules that the whole
tree keeps."""

import ast
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast

import pytest
from each import for_each
from typer.core import TyperArgument, TyperGroup, TyperOption
from typer.core import TyperCommand as BaseCommand

from pk.cli.command_line.apache import ACTIONS
from pk.cli.command_line.declare import Noun
from pk.cli.command_line.kit import Command as TyperCommand
from pk.cli.command_line.kit import Group, load_noun
from pk.cli.command_line.nouns import NOUNS, Entry
from pk.cli.command_line.other_tools import MORE, OPTIONS, TOOLS, WORDS
from pk.cli.command_line.parse import parse, root
from pk.cli.command_line.tree import Command, commands, tree
from pk.cli.exits import Exit, UsageError
from pk.cli.main import main
from pk.cli.options.parameters import Argument, Option, fields_of
from pk.cli.options.values import Pair, count, pause
from pk.cli.runtime.context import Context
from pk.cli.shell.words import split_line
from pk.cli.terminal.streams import Streams
from pk.core.durations import Duration

CLI = Path(__file__).resolve().parents[2] / "cli"


@dataclass(frozen=True, kw_only=True)
class One:
    topic: Annotated[tuple[str, ...], Argument("TOPIC", help="")] = ()
    bootstrap_server: Annotated[
        str | None, Option("-b", "--bootstrap-server", value="X", help="")
    ] = None
    offset: Annotated[str | None, Option("-o", "--offset", value="POS", help="")] = None
    num: Annotated[int | None, Option("-n", "--num", value="N", parser=count, help="")] = None
    yes: Annotated[bool, Option("-y", "--yes", help="")] = False
    dry_run: Annotated[bool, Option("-d", "--dry-run", help="")] = False
    rate: Annotated[float | None, Option("--rate", value="R", help="")] = None
    config: Annotated[tuple[Pair, ...], Option("-c", "--config", value="K=V", help="")] = ()
    columns: Annotated[
        tuple[str, ...], Option("--columns", value="A,B", separated=True, help="")
    ] = ()
    codec: Annotated[
        Literal["gzip", "none"] | None, Option("-z", "--codec", value="C", help="")
    ] = None
    wait: Annotated[Duration | None, Option("--wait", value="S", parser=pause, help="")] = None


@dataclass(frozen=True, kw_only=True)
class Two:
    name: Annotated[str, Argument("NAME", help="")]
    rest: Annotated[tuple[str, ...], Argument("REST", help="")] = ()


@pytest.fixture(scope="module", autouse=True)
def _noun() -> Iterator[None]:
    """A noun `t` with two commands, beside those of `pk`."""
    NOUNS["t"] = Entry(("t",), "", "work_of_t.commands:T")
    noun = Noun("t")
    noun.command("one", "uno", help="", worker="work:one", options=One, examples=())
    noun.command("two", help="", worker="work:two", arguments=Two, examples=())
    root().commands["t"] = noun.for_typer()
    yield
    del NOUNS["t"], root().commands["t"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("one a b", {"topic": ("a", "b")}),
        ("uno", {"topic": ()}),
        ("one -o -10", {"offset": "-10"}),
        ("one -o -10..end", {"offset": "-10..end"}),
        ("one --offset=-10 a", {"offset": "-10", "topic": ("a",)}),
        ("one -n5 a", {"num": 5}),
        ("one -yd", {"yes": True, "dry_run": True}),
        ("one -yn5", {"yes": True, "num": 5}),
        ("one a -- -y", {"topic": ("a", "-y"), "yes": False}),
        ("one -b h", {"bootstrap_server": "h"}),
        ("one -c a=1 -c b=x=y", {"config": (("a", "1"), ("b", "x=y"))}),
        ("one --columns a,b --columns -lag", {"columns": ("a", "b", "-lag")}),
        ("one --codec=none", {"codec": "none"}),
        ("one -z none a", {"codec": "none", "topic": ("a",)}),
        ("one -znone a", {"codec": "none", "topic": ("a",)}),
        ("one -z=none a", {"codec": "none", "topic": ("a",)}),
        ("one --codec none -y", {"codec": "none", "yes": True}),
        ("one -", {"topic": ("-",)}),
        ("two n a b", {"name": "n", "rest": ("a", "b")}),
        ("one", {"codec": None, "num": None, "config": (), "yes": False}),
    ],
)
def test_words_become_values(words: str, expected: dict[str, object]) -> None:
    values = parse(["t", *words.split()]).values
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("oen", "did you mean one"),
        ("one --ofset x", "did you mean --offset"),
        ("one -o", "-o needs a value"),
        ("one -o -n 5", "--offset needs a value"),
        ("one -n x", "whole number"),
        ("one -n 0", "--num needs a number above 0, not 0"),
        ("one --rate inf", "--rate needs a number, not 'inf'"),
        ("one --rate nan", "--rate needs a number, not 'nan'"),
        ("one --rate fast", "--rate needs a number, not 'fast'"),
        ("one -c a", "KEY=VALUE"),
        ("one --yes=1", "takes no value"),
        ("one -y=1", "a one-letter option that takes no value cannot be followed by `=`"),
        ("one -h=1", "a one-letter option that takes no value cannot be followed by `=`"),
        ("one --help=1", "--help takes no value"),
        ("-y one", "-y must follow a command, as in `pk t one -y`"),
        ("one -z=gzpi", "--codec must be one of gzip, none, not 'gzpi'; did you mean gzip"),
        ("one -z=", "--codec must be one of gzip, none, not ''"),
        ("one -zgzpi", "--codec must be one of gzip, none, not 'gzpi'; did you mean gzip"),
        ("one -yzgzpi", "--codec must be one of gzip, none, not 'gzpi'; did you mean gzip"),
        ("one -yx", "has no option -x"),
        ("one --codec=gzpi", "did you mean gzip"),
        ("-b h one", "-b must follow a command, as in `pk t one -b`"),
        ("two", "needs NAME"),
    ],
)
def test_what_is_no_command_line_is_said(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        parse(["t", *words.split()])


@pytest.mark.parametrize(
    ("words", "path"),
    [
        ("topics --list", ("topics", "list")),
        ("topics --bootstrap-server h --create --topic x --partitions 3", ("topics", "create")),
        ("groups --describe --group g --bootstrap-server h", ("groups", "describe")),
        ("topics --topic x --list", ("topics", "list")),
        ("groups --group g --members --describe", ("groups", "describe")),
        (
            "groups --reset-offsets --group g --all-topics --to-earliest",
            ("groups", "reset-offsets"),
        ),
        ("configs --alter --entity-type topics --entity-name t", ("configs", "alter")),
        ("acls --list --topic orders", ("acls", "list")),
        (
            "acls --add --allow-principal User:a --operation Read --topic t --allow-host 1.2.3.4",
            ("acls", "add"),
        ),
        (
            "acls --bootstrap-server h --remove --allow-principal User:a --topic t --force",
            ("acls", "delete"),
        ),
    ],
)
def test_a_command_may_be_written_as_apache_s_option(words: str, path: tuple[str, ...]) -> None:
    assert parse(words.split()).path == path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("log dump d --offsets-decoder", {"decoder": "offsets"}),
        ("log dump --transaction-log-decoder d", {"decoder": "transactions"}),
        ("console-producer t --compression-codec", {"compression": "gzip"}),
        ("console-producer t --compression-codec -y", {"compression": "gzip", "yes": True}),
        ("console-producer t --compression-codec zstd", {"compression": "zstd"}),
    ],
)
def test_an_option_of_apache_s_without_a_value_has_the_one_that_is_meant(
    words: str, expected: dict[str, object]
) -> None:
    values = parse(words.split()).values
    assert {name: values[name] for name in expected} == expected


def test_every_action_of_apache_s_is_a_command() -> None:
    for noun, actions in ACTIONS.items():
        for action in actions:
            assert noun in parse([noun, f"--{action}", "--help"]).path


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("-b h t one", {"bootstrap_server": "h"}),
        ("-b h t one -b i", {"bootstrap_server": "i"}),
        ("-b=h t one -b=i", {"bootstrap_server": "i"}),
        ("-X a=1 topics list -X b=2", {"client_properties": (("a", "1"), ("b", "2"))}),
        ("--trace --profile p topics list", {"trace": True, "profile": "p"}),
    ],
)
def test_an_option_before_the_noun_is_the_command_s(
    words: str, expected: dict[str, object]
) -> None:
    values = parse(words.split()).values
    assert {name: values[name] for name in expected} == expected
    assert values.given >= set(expected)


def test_an_option_before_the_noun_that_the_command_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match="pk t two takes no --bootstrap-server"):
        parse(["-b", "h", "t", "two", "n"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "topics --topic x list",
            "--topic must follow a command, as in `pk topics list --topic`",
        ),
        ("topics --lsit", "pk topics has no option --lsit"),
        ("topics --list=1", "pk topics has no option --list"),
        ("--topics", "pk has no option --topics"),
        (
            "kafka-topics.sh --list",
            "pk has no command 'kafka-topics.sh'; in pk that is `pk topics`",
        ),
        ("kafka-acls.sh --add", "'kafka-acls.sh'; in pk that is `pk acls`"),
        ("get-offsets", "'get-offsets'; in pk that is `pk topics offsets`"),
        ("topics get-offsets", "pk topics has no command 'get-offsets'; did you mean offsets?"),
        ("why broker", "pk why has no command 'broker'; it has partition, lag, config and denied"),
    ],
)
def test_what_is_no_option_of_a_noun_is_said(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        parse(words.split())


def test_one_space_stands_between_a_usage_error_and_its_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for words, said in (
        (("topics", "lst"), "pk topics has no command 'lst'; did you mean list? "),
        (("topics", "offsets", "--nonsense"), "pk topics offsets has no option --nonsense. "),
    ):
        assert main(words) == Exit.USAGE
        hint = f"(`pk {' '.join(words[:-1])} --help` shows the usage.)\n"
        assert capsys.readouterr().err == said + hint


@pytest.mark.parametrize("words", sorted(set(TOOLS.values())))
def test_what_a_script_of_apache_s_is_here_is_there(words: str) -> None:
    plain = tuple(word for word in words.split() if not word.startswith("-"))
    assert parse([*words.split(), "--help"]).path == plain


@for_each("typed", sorted(WORDS))
def test_what_other_tools_say_is_no_command_here_and_what_is_named_is(typed: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse([*typed.split(), "x", "--no-such-option"])
    assert f"; in pk that is `pk {WORDS[typed]}`" in str(refused.value)
    assert parse([*shlex.split(WORDS[typed]), "--help"]).path


@pytest.mark.parametrize("command", sorted(MORE))
def test_arguments_too_many_are_those_of_another_form(command: str) -> None:
    words = command.split()[1:]
    with pytest.raises(UsageError, match=re.escape(f"; in pk that is `pk {MORE[command]}`")):
        parse([*words, "a", "b", "c"])
    assert parse([*MORE[command].split(), "--help"]).path


def test_a_file_in_the_place_of_a_number_is_an_option() -> None:
    with pytest.raises(UsageError, match="for a file, type `--config-file server.properties`"):
        parse(["node", "start", "server.properties"])


@pytest.mark.parametrize(("command", "option"), sorted(OPTIONS))
def test_an_option_of_another_tool_is_named_here(command: str, option: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse([*command.split()[1:], option, "x"])
    said = OPTIONS[command, option]
    assert f"has no option {option}; in pk that is `pk {said}`" in str(refused.value)
    for each in said.split("` and `pk "):
        assert parse([*shlex.split(each), "--help"]).path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("list topics", "topics list"),
        ("get topics -o json", "topics list"),
        ("edit topic orders", "configs edit topic TOPIC"),
        ("admin topic list", "topic list"),
        ("admin dtoken list", "users tokens"),
        ("topics list -o json", "topics list -f FORMAT"),
        ("cluster describe --output yaml", "cluster describe -f FORMAT"),
        ("get consumer-groups", "groups list"),
        ("get cg", "groups list"),
        ("describe topic orders", "topics describe orders"),
        ("delete topics orders -y", "topics delete orders"),
        ("create user bob", "users add USER"),
        ("-b h -t orders -C", "consume TOPIC"),
        ("console-consumer orders -K :", r"consume TOPIC -f '%k:%v\n'"),
    ],
)
def test_kubectl_s_order_and_kcat_s_flags_are_understood(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"; in pk that is `pk {said}`")):
        parse(words.split())


@pytest.mark.parametrize("words", ["get foo", "list", "topics consme"])
def test_what_no_tool_says_is_not_explained(words: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(words.split())
    assert "in pk that is" not in str(refused.value)


@pytest.mark.parametrize("words", ["topics list -w 5", "isr a -w 2s", "groups lag --watch 1.5"])
def test_an_interval_behind_watch_is_not_a_name(words: str) -> None:
    with pytest.raises(UsageError, match=rf"type `-w --interval {words.split()[-1]}`"):
        parse(words.split())


def test_a_number_may_be_a_name_before_watch() -> None:
    assert parse(["topics", "list", "5", "-w"]).values["repeat"]
    assert parse(["topics", "list", "-w", "orders"]).values["repeat"]


@pytest.mark.parametrize("words", ["", "one --help", "--help", "one -h a"])
def test_help_is_asked_for(words: str) -> None:
    assert parse(["t", *words.split()]).wants_help


ALL = [pytest.param(path, command, id=" ".join(path)) for path, command in commands(tree())]


@for_each("noun", NOUNS)
def test_a_worker_takes_what_its_command_declares(noun: str) -> None:
    for command in typer_commands(noun):
        declared = command.declared
        wanted = {"context"} | ({"options"} if declared.options else set())
        wanted |= set(fields_of(declared.arguments)) if declared.arguments else set()
        taken = inspect.signature(declared.function()).parameters.values()
        needed = {p.name for p in taken if p.default is p.empty}
        assert needed <= wanted <= {p.name for p in taken}, declared.worker


@for_each(("path", "command"), ALL)
def test_every_command_says_what_it_does(path: tuple[str, ...], command: Command) -> None:
    assert command.help.endswith(".")


def test_a_noun_of_one_word_says_of_itself_what_its_command_does() -> None:
    for path, command in commands(tree()):
        if " ".join(path) in NOUNS:
            assert NOUNS[" ".join(path)].help == command.help, path


@for_each(("path", "command"), ALL)
def test_names_of_options_are_told_apart(path: tuple[str, ...], command: Command) -> None:
    names = [name for option in command.options for name in option.names]
    assert len(names) == len(set(names))
    assert all(option.help for option in command.options)


@for_each(("path", "command"), ALL)
def test_examples_parse(path: tuple[str, ...], command: Command) -> None:
    for example in command.examples:
        for part in re.split(r" \| (?=pk )", example):
            words = split_line(part).words
            if words[0] == "pk":
                assert not parse(words[1:]).wants_help, example


LETTERS = {
    "-b": {"--bootstrap-server"},
    "-t": {"--topic"},
    "-p": {"--partitions"},
    "-g": {"--group"},
    "-k": {"--key"},
    "-H": {"--header"},
    "-o": {"--offset", "--to"},
    "-n": {"--num"},
    "-f": {"--format"},
    "-c": {
        "--config",
        "--command",
    },  # `sh -c`, `psql -c`, `pk shell -c`: too well known for another letter
    "-r": {"--replication-factor"},
    "-z": {"--compression"},
    "-d": {"--dry-run"},
    "-y": {"--yes"},
    "-w": {"--watch"},
}


OWN_LETTERS = {
    "-a": {"--all", "--all-configs"},
    "-e": {"--exit"},
    "-F": {"--file"},
    "-i": {"--internal"},
    "-m": {"--member", "--members"},
    "-s": {"--state"},
    "-v": {"--docs"},
    "-X": {"--command-property", "-X"},
    "-Z": {"--tombstone"},
}
"""The letters that only some commands have. Each of these has one meaning, too."""

LONG = {
    "--key": {"spark-export", "spark export"},  # what keys become
    "--header": set(),
    "--offset": set(),
    "--num": set(),
    "--format": set(),
    "--compression": set(),
    "--partitions": {"spark pipeline status"},  # a flag
    "--replication-factor": set(),
    "--topic": set(),
    "--group": set(),
    "--yes": set(),
    "--dry-run": set(),
    "--watch": set(),
    "--bootstrap-server": set(),
    "--config": set(),
}
"""Long names that always have their letter, except for the commands named."""


def test_a_letter_means_the_same_everywhere() -> None:
    letters = LETTERS | OWN_LETTERS
    for path, command in commands(tree()):
        for option in command.options:
            for name in option.names:
                if len(name) == 2:
                    assert option.long_name in letters[name], (path, name)


def test_what_has_a_letter_has_it_everywhere() -> None:
    letter = {long: name for name, longs in LETTERS.items() for long in longs}
    for path, command in commands(tree()):
        for option in command.options:
            for name in option.names:
                if name in LONG and " ".join(path) not in LONG[name]:
                    assert letter[name] in option.names, (path, name)


NOT_BY_OPTION = {
    "cp": "two kinds of topics: where from, where to",
    "why config": "a topic, a broker or a group, by --type",
}


def test_what_names_a_topic_or_a_group_may_do_so_by_its_letter() -> None:
    for path, command in commands(tree()):
        names = {name for option in command.options for name in option.names}
        for argument in command.arguments:
            letter = {"topic": "-t", "group": "-g"}.get(argument.complete or "")
            pattern = argument.name == "PATTERN"
            if letter and not pattern and " ".join(path) not in NOT_BY_OPTION:
                assert letter in names, (path, letter)


@pytest.mark.parametrize(
    "command",
    [
        *(f"topics {verb}" for verb in ("describe", "create", "alter", "delete", "offsets")),
        *("topics add-partitions", "topics trim", "partitions list", "isr"),
    ],
)
def test_a_topic_is_named_by_a_word_or_as_apache_s_tools_do(command: str) -> None:
    def topics(*words: str) -> object:
        return parse([*command.split(), *words]).values["topic"]

    assert topics("a", "b") == topics("-t", "a", "--topic", "b") == topics("-t", "a", "b")
    assert topics("--topic=a") == ("a",)
    with pytest.raises(UsageError, match="needs a value"):
        topics("-t")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("wait lag -g g <=5", {"group": "g", "condition": "<=5"}),
        ("wait lag g <=5", {"group": "g", "condition": "<=5"}),
        ("why lag --group g", {"group": "g"}),
        ("wait group-empty -g a -g b", {"group": ("a", "b")}),
        ("wait topic -t a b", {"topic": ("a", "b")}),
        ("wait isr -t a", {"topic": ("a",)}),
        ("spark-export -t a --to x -z zstd", {"topics": ("a",), "compression": "zstd"}),
    ],
)
def test_a_name_may_be_an_option_s_value(words: str, expected: dict[str, object]) -> None:
    values = parse(words.split()).values
    assert {name: values[name] for name in expected} == expected


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="takes no arguments besides GROUP, got 'h'"):
        parse(["why", "lag", "-g", "g", "h"])


def test_a_topic_is_wanted_however_it_is_named() -> None:
    with pytest.raises(UsageError, match="pk topics delete needs TOPIC"):
        parse(["topics", "delete"])
    assert parse(["topics", "list", "-t", "a.*"]).values["pattern"] == "a.*"
    with pytest.raises(UsageError, match="takes no arguments besides PATTERN, got 'b'"):
        parse(["topics", "list", "-t", "a.*", "b"])


def test_no_option_is_accepted_and_ignored() -> None:
    """Code outside its declaration reads every value that a command takes."""
    words: set[str] = set()
    for file in CLI.rglob("*.py"):
        if file.name in ("commands.py", "options.py") or file.parent.name == "command_line":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
            elif isinstance(node, ast.arg):
                words.add(node.arg)
    for path, command in commands(tree()):
        dests = {o.dest for o in command.options} | {a.dest for a in command.arguments}
        assert dests <= words, (path, dests - words)


def typer_commands(noun: str) -> list[TyperCommand]:
    """The commands of a noun as typer knows them."""
    node = root().commands["t"] if noun == "t" else load_noun(noun)
    if isinstance(node, TyperCommand):
        return [node]
    assert isinstance(node, Group)
    return [cast(TyperCommand, node.own(name)) for name in node.declarations]


def test_the_parser_is_typer_s() -> None:
    assert isinstance(root(), TyperGroup)
    for noun in NOUNS:
        for command in typer_commands(noun):
            assert isinstance(command, BaseCommand)
            assert all(isinstance(p, TyperOption | TyperArgument) for p in command.params)


def compared(node: ast.AST) -> Iterator[str]:
    """The texts that a comparison has: of words, one for all."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
        elif isinstance(each, ast.Tuple | ast.List | ast.Set):
            words = [w.value for w in each.elts if isinstance(w, ast.Constant)]
            yield " ".join(map(str, words))


def commands_in(text: str) -> list[str]:
    """The commands and nouns that code compares a command with, by their words."""
    known = {" ".join(path) for path, _ in commands(tree())}
    several = {words for words in known if " " in words}
    found: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            of_path = re.search(r"\bpath\b", ast.unparse(node)) is not None
            named = known | set(NOUNS) if of_path else several
            found += [text for text in compared(node) if text in named]
    return found


def test_what_is_special_about_a_command_stands_in_its_declaration() -> None:
    """No package that nouns share, such as the shell, knows a command by its name."""
    for file in CLI.rglob("*.py"):
        if file.relative_to(CLI).parts[0] not in ("nouns", "command_line"):
            assert commands_in(file.read_text(encoding="utf-8")) == [], file


@pytest.mark.parametrize(
    "text",
    [
        'if path == ("node", "start"): pass',
        'if " ".join(words) in {"topics list", "x"}: pass',
        'if parsed.path[0] in ("isr",): pass',
    ],
)
def test_a_command_that_is_special_to_others_is_found(text: str) -> None:
    assert commands_in(text)


def test_of_typer_only_public_names_are_used() -> None:
    """A private name may be gone in the next minor version, which pyproject.toml allows."""
    for file in (CLI / "command_line").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom):
                assert not re.search(r"(^|\.)(_\w+|click)", node.module or ""), (file, node.module)
                private = [a.name for a in node.names if re.match("_[a-z]", a.name)]
                assert not private, (file, private)
            elif isinstance(node, ast.Import):
                assert not any("._" in a.name or a.name == "click" for a in node.names), file
            elif isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
                owner = ast.unparse(node.value)
                assert owner in ("self", "other", "super()"), (file, ast.unparse(node))
        assert "reportPrivateUsage" not in text, file


def test_the_context_carries_the_sets_of_options() -> None:
    words = "-b h:1 topics list --where partitions=1 --columns topic,partitions -w --interval 3"
    parsed = parse([*words.split(), "-X", "client.id=x"])
    context = Context(parsed.values, parsed.path, Streams())
    assert context.connection.bootstrap_server == "h:1"
    assert context.connection.client_properties == (Pair("client.id", "x"),)
    assert (context.listing.where, context.listing.limit) == ("partitions=1", None)
    assert context.listing.columns == ("topic", "partitions")
    assert (context.watch.repeat, context.watch.interval) == (True, Duration(3000))
    assert not context.change.dry_run


def test_the_work_gets_its_options_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[object] = []
    one = lambda context, options: got.extend((context, options))
    two = lambda context, name, rest: got.extend((context, name, rest))
    monkeypatch.setitem(sys.modules, "work_of_t.work", cast(Any, SimpleNamespace(one=one, two=two)))
    for words in ("t one -n 3 -c a=b -z gzip x", "t two n a b"):
        work = parse(words.split()).work
        assert work is not None
        work(cast(Any, "the context"))
    options = One(topic=("x",), num=3, config=(Pair("a", "b"),), codec="gzip")
    assert got == ["the context", options, "the context", "n", ("a", "b")]


def test_the_example_of_adding_an_option_is_a_line_of_a_command() -> None:
    text = (CLI.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (file,) = re.findall(r"`cli/(nouns/\w+/options\.py)`:$", text, re.MULTILINE)
    (line,) = re.findall(r"^    \w+: Annotated\[.*$", text, re.MULTILINE)
    assert line in (CLI / file).read_text(encoding="utf-8").splitlines()
