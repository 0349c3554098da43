"""The parts of the shell that need no terminal: lines, fuzzy matches, history, pages, what stands
vertically."""

import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
from each import for_each
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from pk.cli.command_line.completion.candidates import Candidate
from pk.cli.command_line.parse import parse
from pk.cli.command_line.parsed import Parsed
from pk.cli.command_line.tree import commands, tree
from pk.cli.exits import Exit, UsageError
from pk.cli.output.formats import Column, Listing, OutputOptions
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import remember
from pk.cli.runtime.settings import Profile, Settings
from pk.cli.shell import completer, lines, paging, shell_commands
from pk.cli.shell.cache import Cache
from pk.cli.shell.completer import ShellCompleter, fuzzy
from pk.cli.shell.engine import Engine, Job
from pk.cli.shell.history import History, holds_secret
from pk.cli.shell.lexer import LineLexer
from pk.cli.shell.lines import Shell, raise_interrupt
from pk.cli.shell.screen import prompt_of, toolbar_of
from pk.cli.shell.vertical import vertical
from pk.cli.shell.words import Line, parted, quoted, split_commands, split_line
from pk.cli.terminal.pager import height_of, page
from pk.cli.terminal.signals import listen_for_interrupts
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.text import cut_middle
from pk.net.client.errors import Disconnected

HERE = Settings("127.0.0.1:9092", {}, {}, None)


@for_each(
    ("text", "expected"),
    [
        ("topics list", Line(["topics", "list"])),
        ("a --where 'x > 1' > out", Line(["a", "--where", "x > 1"], file="out")),
        ("a >> 'my file'", Line(["a"], file="my file", append=True)),
        ("a | grep x > y", Line(["a"], command="grep x > y")),
        ("a b|c", Line(["a", "b|c"])),
        ("a b # c > d", Line(["a", "b"])),
        ("a # b | c", Line(["a"])),
        ("a > b # c", Line(["a"], file="b")),
        (
            "a b#c '# d' \\# | grep '# e' # f",
            Line(["a", "b#c", "# d", "#"], command="grep '# e' # f"),
        ),
        (r"a b \w", Line(["a", "b"], watch_s=2.0)),
        (r"a b \w 0.5", Line(["a", "b"], watch_s=0.5)),
        (r"a \w5 > out", Line(["a"], file="out", watch_s=5.0)),
        (r"a b \G", Line(["a", "b"], vertical=True)),
        (r"a b\G", Line(["a", "b"], vertical=True)),
        (r"a \G | wc", Line(["a"], command="wc", vertical=True)),
        (r"\w 3", Line([], watch_s=3.0)),
        (r"\G", Line([], vertical=True)),
        (r"a -f '%v \w 3'", Line(["a", "-f", r"%v \w 3"])),
    ],
)
def test_a_line_of_the_shell(text: str, expected: Line) -> None:
    assert split_line(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a 'b", "A quote is not closed"),
        ("a >", "One file must follow"),
        ("a |", "A command is missing"),
        (r"a \w 0", "from 100ms"),
        (r"a \w 1.2.3", "needs a duration"),
        (r"a \G \w 1", "cannot be combined"),
        (r"a \w 1 \G", "cannot be combined"),
    ],
)
def test_a_line_that_is_none(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        split_line(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ([], "", "")),
        ("topics ", (["topics"], "", "")),
        ("topics li", (["topics"], "li", "")),
        ("consume -o '@yester", (["consume", "-o"], "@yester", "'")),
        ("a 'b c' d", (["a", "b c"], "d", "")),
    ],
)
def test_the_word_under_the_cursor(text: str, expected: tuple[list[str], str, str]) -> None:
    assert parted(text) == expected


def test_words_are_quoted_as_they_have_to_be() -> None:
    assert quoted("orders", "") == "orders"
    assert quoted("my group", "") == "'my group'"
    assert split_line(f"x {quoted('#mine', '')}").words == ["x", "#mine"]
    assert quoted("my group", parted("x 'my")[2]) == "my group"


# Completion


def test_fuzzy_matches_prefixes_first() -> None:
    found = fuzzy("or", [Candidate(w) for w in ("color", "orders", "o-r", "other", "xyz")])
    assert [c.word for c in found] == ["orders", "color", "o-r", "other"]


def test_few_of_many_are_shown_and_the_rest_is_counted() -> None:
    every = [Candidate(f"orders-{i}", "2 partitions") for i in range(5_000)]
    found = fuzzy("ord", every)
    assert len(found) == completer.SHOWN_MAX
    assert found[-1].meaning == "2 partitions … and 4,800 more: type on"
    assert [c.word for c in fuzzy("rs4999", every)] == ["orders-4999"]


class Counted(list[Candidate]):
    """A list that counts how often it is iterated."""

    walks = 0

    def __iter__(self) -> Iterator[Candidate]:
        self.walks += 1
        return super().__iter__()


def test_a_key_goes_once_through_the_names_and_makes_few_things_of_them() -> None:
    """The cost of one key with 5,000 topics: one pass over the known names, and 200 words for the
    menu."""
    remember(HERE.bootstrap, "topic", {f"orders-{i:04}": "2 partitions" for i in range(5_000)})
    cache = Cache(HERE)
    for kind, typed in (
        ("topic", "topics describe ord"),
        ("topic", "topics describe rs49"),
        ("topic/", "reassign cancel ord"),
        ("topic", "use topic 17"),
    ):
        counted = Counted(cache.names(kind))
        cache._lists[kind] = counted
        found = list(
            ShellCompleter(tree(), cache).get_completions(Document(typed), CompleteEvent())
        )
        assert 0 < len(found) <= completer.SHOWN_MAX
        assert counted.walks == 1, typed
    words = ShellCompleter(tree(), cache).matches(["reassign", "cancel"], "orders-0001/")
    assert [c.word for c in words] == ["orders-0001/0", "orders-0001/1"]


def test_completion_asks_for_the_configs_it_lacks_and_does_not_wait() -> None:
    cache = Cache(HERE)
    asked: list[object] = []
    cache.soon = asked.append
    found = ShellCompleter(tree(), cache).matches(
        ["configs", "alter", "topic", "orders", "-c"], "retention.ms"
    )
    assert found[0].word == "retention.ms=" and found[0].meaning.startswith("default 604800000")
    assert asked and cache._asked == {("topic", "orders")}


def test_the_menu_of_the_shells_own_words() -> None:
    complete = ShellCompleter(tree(), Cache(HERE))
    assert next(c.word for c in complete.matches([], "consu")) == "consume"
    assert [c.word for c in complete.matches([], "prod")][:1] == ["produce"]
    assert [c.word for c in complete.matches([], "console-c")] == ["console-consumer"]
    assert [c.word for c in complete.matches([], "\\t")] == ["\\timing"]
    assert [c.word for c in complete.matches(["topics", "list"], "\\")] == ["\\w", "\\G"]
    assert [c.word for c in complete.matches(["use"], "to")] == ["topic"]
    assert "up" not in [c.word for c in complete.matches([], "u")]
    shown = list(complete.get_completions(Document("topics list > fi"), CompleteEvent()))
    assert shown == [], "a file's name is none of ours"


@for_each(
    ("line", "styles"),
    [
        ("topics describe x", "command command -"),
        ("topics lsit x", "command unknown -"),
        ("topics ls", "command command"),
        ("topics li", "command -"),
        ("pk isr --columns a --nonsense", "own command option - -"),
        ("consume x -o -3 -f '%v b'", "command - option - option quote"),
        ("topics list | grep -v x", "command command output output output output"),
        (r"topics list \w 2", "command command own -"),
        ("use topic topics", "own - -"),
    ],
)
def test_the_line_is_colored_as_it_is_understood(line: str, styles: str) -> None:
    pieces = LineLexer(tree()).styled(line)
    assert "".join(piece[1] for piece in pieces) == line
    shown = [piece[0].removeprefix("class:") or "-" for piece in pieces if not piece[1].isspace()]
    assert " ".join(shown) == styles


# History


@pytest.mark.parametrize(
    "line",
    [
        "topics list -X ssl.key.password=x",
        "users create bob --password hush",
        'topics list -X sasl.jaas.config="org.x required"',
        "configs alter broker 1 -c listener.name.a.ssl.keystore.password=1",
        "configs alter broker 1 -c listener.name.a.ssl.keystore.key=x",
        "profile add p -X sasl.oauthbearer.client.secret=x",
    ],
)
def test_a_line_with_a_secret(line: str) -> None:
    assert holds_secret(line)


@pytest.mark.parametrize(
    "line", ["topics describe tokens", "consume secrets -n 5", "topics list --where 'topic = x'"]
)
def test_a_line_without_one(line: str) -> None:
    assert not holds_secret(line)


def test_the_history_is_for_its_owner_and_bounded(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("\n# 2026\n+an old line\n" * 60_000)
    path.chmod(0o644)
    history = History(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size <= 1 << 19
    history.append_string("topics list")
    history.append_string("topics list -X ssl.key.password=hush")
    assert "hush" not in path.read_text()
    assert path.read_text().endswith("+topics list\n")
    assert next(iter(History(str(path)).load_history_strings())) == "topics list"


# Output


def test_the_help_of_the_shell_fits_a_terminal() -> None:
    assert not [line for line in shell_commands.HELP.splitlines() if len(line) > 80]


def test_a_pager_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", sys.__stdout__)
    for name, value in (("TERM", "xterm"), ("PK_PAGER", " "), ("PAGER", "true")):
        monkeypatch.setenv(name, value)
    assert page(b"a\n")


def test_rows_one_below_the_other() -> None:
    listing = Listing(
        (Column("topic"), Column("size_bytes"), Column("about", wide=True)),
        [{"topic": "a", "size_bytes": 1, "about": "x\ny"}, {"topic": "b", "size_bytes": None}],
    )
    assert vertical(listing, OutputOptions(width=20)).decode().splitlines() == [
        "── 1 ───────────────",
        "     TOPIC  a",
        "SIZE BYTES  1",
        "     ABOUT  x",
        "            y",
        "── 2 ───────────────",
        "     TOPIC  b",
        "SIZE BYTES  -",
        "     ABOUT  -",
        "(2 rows)",
    ]


def test_how_many_lines_of_a_screen_output_takes() -> None:
    assert height_of(b"a\nb\n", 80) == 2
    assert height_of(b"x" * 81 + b"\n", 80) == 2
    assert height_of(b"\x1b[31m" + b"x" * 80 + b"\x1b[0m\n", 80) == 1


def test_output_is_held_until_something_is_said(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    held = paging.HeldOutput()
    held.write(b"a table\n")
    assert capfdbinary.readouterr().out == b""
    paging.HeldError(held).write("and a word\n")
    held.write(b"more\n")
    held.flush()
    assert capfdbinary.readouterr().out == b"a table\nmore\n"


# Prompt and toolbar


def test_the_prompt_and_the_toolbar_say_where_one_is() -> None:
    prod = Profile("prod", "k1:9092,k2:9092", guard="readonly", color="red")
    shell = Shell(Settings("k1:9092,k2:9092", {}, {}, prod), interactive=True)
    shell.cache.topic, shell.cache.group = "orders", "g" * 200
    prompt = prompt_of(shell)
    assert prompt.startswith("prod orders @ggg") and len(prompt) < 60 and "…" in prompt
    shell.run_line("topics nosuch")
    assert prompt_of(shell) == f"{prompt.removesuffix('> ')} [2]> "
    shell.run_line("\\timing")
    assert prompt_of(shell) == prompt
    parts = toolbar_of(shell)
    assert parts[0] == ("class:cluster.red", " prod (k1:9092 (+1)) ")
    assert ("class:guard", " readonly ") in parts
    shell.cache.error, shell.cache.refreshed = "not connected, trying again", 1.0
    shell.cache.under_replicated = 3
    parts = toolbar_of(shell)
    assert ("class:bad", "not connected, trying again") in parts
    assert ("class:poor", "3 under-replicated") in parts


def test_the_toolbar_fits_a_narrow_screen() -> None:
    shell = Shell(Settings("kafka-1.example.org:9092,k2:9092", {}, {}, None), interactive=True)
    cache = shell.cache
    cache.refreshed, cache.under_replicated, cache.controller = time.monotonic(), 12, 3
    cache.down, cache.brokers = frozenset((2,)), {1: "a", 2: "b", 3: "c"}

    def shown(width: int) -> str:
        return "".join(part[1] for part in toolbar_of(shell, width))

    assert "12 under-replicated · controller 3 · names " in shown(120)
    assert len(shown(80)) <= 80 and "kafka-1.example.org:9092 (+1)"[:8] in shown(80)
    assert "2 of 3 brokers · 12 URP · ctrl 3" in shown(60) and len(shown(60)) <= 60


@pytest.mark.parametrize("width", [80, 72, 60, 40, 24])
def test_the_toolbar_is_never_cut(width: int) -> None:
    """All that it may have to say at once, with a guard and names of any length."""
    for name in ("p", "production-of-the-european-region"):
        profile = Profile(name, "kafka-1.example.org:9092,k2:9092,k3:9092", guard="type-name")
        settings = Settings(profile.bootstrap or "", {}, {}, profile)
        shell = Shell(settings, interactive=True)
        cache = shell.cache
        cache.error, cache.refreshed = "not connected, trying again", time.monotonic()
        cache.under_replicated, cache.offline, cache.moving, cache.controller = 1200, 700, 40, 3
        cache.down, cache.brokers = frozenset((2,)), {1: "a", 2: "b", 3: "c"}
        shown = "".join(part[1] for part in toolbar_of(shell, width))
        assert len(shown) <= width, shown
        assert "type-name" in shown and shown.startswith(f" {name[:1]}"), shown
        if width >= 60:
            assert "not connected" in shown, shown


def test_a_long_name_loses_its_middle() -> None:
    assert cut_middle("short", 10) == "short"
    assert cut_middle("abcdefghijklmnop", 10) == "abcde…mnop"


def test_use_fills_in_what_is_not_named() -> None:
    shell = Shell(HERE, interactive=False)
    shell.cache.topic, shell.cache.group = "orders", "billing"
    assert shell.filled(["topics", "describe"]) == ["topics", "describe", "orders"]
    assert shell.filled(["topics", "describe", "x"]) == ["topics", "describe", "x"]
    assert shell.filled(["consume", "-n", "5"]) == ["consume", "-n", "5", "orders"]
    assert shell.filled(["consume", "-g", "app"]) == ["consume", "-g", "app", "orders"]
    assert shell.filled(["consume", "-t", "x"]) == ["consume", "-t", "x"]
    assert shell.filled(["groups", "lag"]) == ["groups", "lag", "billing"]
    assert shell.filled(["groups", "lag", "-t", "x"]) == ["groups", "lag", "-t", "x"]
    for line in (
        "consume --include x.*",
        "groups describe --all-groups",
        "groups members --all-groups",
        "groups reset-offsets --from-file x",
        "why lag -t x",
        "why lag -g x",
        "wait lag -t x",
    ):
        assert shell.filled([*line.split()]) == line.split()
    assert shell.filled(["topics", "list"]) == ["topics", "list"]
    assert shell.filled(["produce"]) == ["produce", "orders"]


MAY_CHANGE_WHAT_IS_USED = {"produce", "groups reset-offsets"}
"""Adds records, at a prompt that names the topic; shows a plan, and can be undone."""


@for_each("path", [path for path, command in commands(tree()) if command.changes], ids=" ".join)
def test_no_change_takes_its_target_from_use(path: tuple[str, ...]) -> None:
    shell = Shell(HERE, interactive=False)
    shell.cache.topic, shell.cache.group = "orders", "billing"
    filled = shell.filled([*path, "-y"])
    assert (filled != [*path, "-y"]) == (" ".join(path) in MAY_CHANGE_WHAT_IS_USED)


@for_each("path", [path for path, command in commands(tree()) if command.from_use], ids=" ".join)
def test_what_takes_its_target_from_use_has_one(path: tuple[str, ...]) -> None:
    shell = Shell(HERE, interactive=False)
    shell.cache.topic, shell.cache.group = "orders", "billing"
    assert shell.filled([*path])[len(path) :] in (["orders"], ["billing"])


def test_what_stands_instead_of_use_is_an_option() -> None:
    for path, command in commands(tree()):
        assert command.from_use or not command.instead_of_use, path
        assert all(command.takes(name) for name in command.instead_of_use), path


def test_partitions_of_the_used_topic_are_offered_only_where_it_is_the_target() -> None:
    remember(HERE.bootstrap, "topic", {"orders": "2 partitions"})
    cache = Cache(HERE)
    cache.topic = "orders"
    complete = ShellCompleter(tree(), cache)
    assert [c.word for c in complete.matches(["consume", "-p"], "")] == ["0", "1"]
    assert complete.matches(["topics", "trim", "-p"], "") == []


@for_each(
    "line",
    [
        "groups watch g",  # these two never end
        "schema-registry start",
        "consume t -g g --share",  # each run takes other records
        "consume t",
        "consume t -g g -e",
        "produce t",
        "top",
        "wait topic t",
        "test -- true",
        "profile edit",
        "spark pipeline run f",
        "topics trim t",
        "perf e2e",
    ],
)
def test_what_changes_something_or_does_not_end_is_not_repeated(line: str) -> None:
    shell = Shell(HERE, interactive=False)
    with pytest.raises(UsageError, match="repeats commands that show something and end"):
        shell._check(parse(line.split()), split_line(rf"{line} \w"))


@pytest.mark.parametrize(
    "line", ["consume t -e", "topics list", "isr", "log dump d", "schema list"]
)
def test_what_shows_something_and_ends_may_be_repeated(line: str) -> None:
    shell = Shell(HERE, interactive=False)
    shell._check(parse(line.split()), split_line(rf"{line} \w"))


def test_names_that_the_shell_tells_are_inert(capsys: pytest.CaptureFixture[str]) -> None:
    remember(HERE.bootstrap, "group", {"billing\x1b[2J": ""})
    shell = Shell(HERE, interactive=False)
    shell.run_line("use group billing")
    assert capsys.readouterr().err.endswith("did you mean billing\\x1b[2J?\n")


def test_no_thread_is_left_by_a_shell_that_was_not_started() -> None:
    before = threading.active_count()
    Shell(HERE, interactive=True)
    assert threading.active_count() <= before  # threads of other tests may end


# Commands in the engine


def _context() -> Context:
    parsed = parse(["topics", "list"])
    return Context(parsed.values, parsed.path, Streams())


def test_ctrl_c_reaches_a_command_that_listens_to_it() -> None:
    """`reassign apply` asks what should happen to the move, in the shell, too."""
    heard: list[str] = []
    ready = threading.Event()

    async def handler(context: Context) -> int:
        with listen_for_interrupts() as interrupts:
            ready.set()
            if await interrupts.or_until(trio.sleep_forever):
                heard.append("asks")
            ready.set()
            if await interrupts.or_until(trio.sleep_forever):
                heard.append("asks again")
        return 7

    with Engine(_no_background) as engine:
        job = Job(handler, _context(), retried=False)
        engine.start(job)
        for _ in range(2):
            assert ready.wait(60)
            ready.clear()
            engine.interrupt(job)
        assert job.done.wait(60)
    assert (heard, job.code) == (["asks", "asks again"], 7)


def test_the_third_ctrl_c_does_not_wait_any_longer() -> None:
    ready, over = threading.Event(), threading.Event()

    async def handler(context: Context) -> None:
        with trio.CancelScope(shield=True):
            ready.set()
            await trio.to_thread.run_sync(over.wait)

    with Engine(_no_background) as engine:
        job = Job(handler, _context(), retried=False)
        engine.start(job)
        assert ready.wait(60)
        engine.interrupt(job)
        engine.interrupt(job)
        assert not job.abandoned
        engine.interrupt(job)
        assert job.abandoned and not job.done.is_set()
        over.set()


def test_a_ctrl_c_may_come_while_the_lock_of_the_end_is_held() -> None:
    """The handler runs in the thread that waits, between any two of its steps."""
    with Engine(_no_background) as engine:
        job = Job(_nothing_to_do, _context(), retried=False)
        with job.done._cond:  # pyright: ignore[reportAttributeAccessIssue]
            for _ in range(4):
                engine.interrupt(job)
        assert job.abandoned


def test_a_ctrl_c_is_not_lost_in_a_finalizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python ignores what a `__del__` raises, but for a traceback."""
    ignored: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", ignored.append)

    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    shell, waits = Shell(HERE, interactive=False), threading.Event()
    with shell.guarding(), shell.on_interrupt(raise_interrupt), pytest.raises(KeyboardInterrupt):
        Interrupted()
        waits.wait(60)
    assert ignored == []


def test_a_ctrl_c_before_the_command_begins_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(words: list[str]) -> Parsed:
        signal.raise_signal(signal.SIGINT)
        return parse(words)

    monkeypatch.setattr(lines, "parse", slow)
    shell = Shell(HERE, interactive=False)
    with shell.guarding():
        assert shell.run_line("profile list")
    assert shell.last_code == Exit.INTERRUPTED


async def _nothing_to_do(context: Context) -> None:
    return


async def _no_background(session: object) -> None:
    return


def test_a_command_is_tried_again_where_the_connection_was_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tries = 0

    async def handler(context: Context) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise Disconnected("gone")
        return 0

    with Engine(_no_background) as engine:
        for retried, code, wanted in ((True, 0, 3), (False, Exit.NO_CONNECTION, 1)):
            tries = 0
            job = Job(handler, _context(), retried=retried)
            engine.start(job)
            assert job.done.wait(60)
            assert (job.code, tries) == (code, wanted)
    assert capsys.readouterr().err.count("is lost; trying again") == 1


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("topics list", [("", "topics list")]),
        ("topics list; groups list", [("", "topics list"), (";", "groups list")]),
        ("a && b ; c", [("", "a"), ("&&", "b"), (";", "c")]),
        ("a 'x; y' && b \"&& c\"", [("", "a 'x; y'"), ("&&", 'b "&& c"')]),
        ("produce t a;b", [("", "produce t a;b")]),
        ("a | sed 1d; wc && x", [("", "a | sed 1d; wc && x")]),
        ("a # b; c", [("", "a # b; c")]),
        ("a \\; b", [("", "a \\; b")]),
    ],
)
def test_commands_of_one_line(text: str, parts: list[tuple[str, str]]) -> None:
    assert split_commands(text) == parts
