"""The shell at a terminal: prompt, completion menu, toolbar and history. For terminals without
cursor control, a plain line reader."""

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from pk.cli.runtime.paths import make_user_dir
from pk.cli.shell.lines import raise_interrupt
from pk.cli.shell.words import joined
from pk.cli.terminal.stdin import wait_for_input
from pk.cli.terminal.streams import Streams
from pk.cli.terminal.styles import COLORS
from pk.cli.terminal.text import cut_middle

if TYPE_CHECKING:
    from prompt_toolkit.application import Application
    from prompt_toolkit.formatted_text import StyleAndTextTuples

    from pk.cli.shell.lines import Shell

_PROMPT_NAMES = 28
"""The longest name in the prompt, in columns."""


def cluster_of(shell: "Shell") -> str:
    """The cluster's name in the prompt: that of its profile, or else its first address."""
    profile = shell.settings.profile
    return profile.name if profile else shell.settings.bootstrap.split(",")[0]


def prompt_of(shell: "Shell") -> str:
    """`prod orders @billing> `; after a failed command `prod orders @billing [1]> `."""
    return "".join(prompt_parts(shell))


def prompt_parts(shell: "Shell") -> tuple[str, str, str]:
    """The parts of the prompt: the cluster, topic and group; the exit code of the last line if it
    failed; the end."""
    cache = shell.cache
    parts = [cut_middle(cluster_of(shell), _PROMPT_NAMES)]
    if cache.topic:
        parts.append(cut_middle(cache.topic, _PROMPT_NAMES))
    if cache.group:
        parts.append("@" + cut_middle(cache.group, _PROMPT_NAMES))
    return " ".join(parts), f" [{shell.last_code}]" if shell.last_code else "", "> "


def toolbar_of(shell: "Shell", width: int = 200) -> "StyleAndTextTuples":
    """The toolbar: cluster, brokers, health, controller, and the age of the names, abbreviated if
    the terminal is narrow."""
    profile = shell.settings.profile
    cluster = shell.settings.cluster_name
    facts = _facts(shell)
    guard = f" {profile.guard} " if profile and profile.guard != "confirm" else ""
    room = width - len(guard) - sum(3 + len(long) for long, _, _ in facts) - 2
    for i in reversed(range(len(facts))):
        long, short, style = facts[i]
        if room < min(len(cluster), 24):
            facts[i] = (short, short, style)
            room += len(long) - len(short)
    while room < min(len(cluster), 12) and facts:  # the most important parts come first
        room += 3 + len(facts.pop()[0])
    name = f" {cut_middle(cluster, max(room, 1))} "
    parts: StyleAndTextTuples = [
        (f"class:cluster.{profile.color}" if profile and profile.color else "class:cluster", name)
    ]
    if guard:
        parts.append(("class:guard", guard))
    for i, (text, _, style) in enumerate(facts):
        parts += [("", " · " if i or guard else " "), (style, text)]
    return parts


def _facts(shell: "Shell") -> list[tuple[str, str, str]]:
    """The parts of the toolbar: long form, short form and style."""
    cache = shell.cache
    facts: list[tuple[str, str, str]] = []
    if cache.error is not None:
        facts.append((cache.error, cache.error.partition(",")[0], "class:bad"))
    if cache.refreshed is not None:
        brokers, number = cache.brokers_up(), cache.under_replicated
        facts.append((brokers, brokers, "class:bad" if cache.down else ""))
        style = "class:poor" if number else ""
        facts.append((f"{number} under-replicated", f"{number} URP", style))
        if cache.offline:
            facts.append((f"{cache.offline} offline", f"{cache.offline} offline", "class:bad"))
        if cache.moving:
            facts.append((f"{cache.moving} moving", f"{cache.moving} moving", "class:poor"))
        if cache.controller is not None:
            facts.append((f"controller {cache.controller}", f"ctrl {cache.controller}", ""))
    age = cache.age()
    facts.append((age, age.removeprefix("names "), ""))
    return facts


def _style_rules() -> dict[str, str]:
    rules = {
        "bottom-toolbar": "noreverse bg:ansibrightblack fg:ansiwhite",
        "cluster": "bold",
        "guard": "reverse",
        "command": "bold",
        "unknown": "ansired",
        "option": "ansicyan",
        "quote": "ansigreen",
        "own": "ansimagenta",
        "output": "ansibrightblack",
        "bad": "bg:ansired fg:ansiwhite bold",
        "poor": "bg:ansiyellow fg:ansiblack",
    }
    for color in COLORS:
        text = "ansiwhite" if color in ("red", "blue", "magenta") else "ansiblack"
        rules[f"cluster.{color}"] = f"bg:ansi{color} fg:{text} bold"
    return rules


def interact(shell: "Shell") -> None:
    """Read and run lines until the end of the input."""
    profile = shell.settings.profile
    name = shell.settings.cluster_name
    guard = f", guarded as {profile.guard}" if profile and profile.guard != "confirm" else ""
    greeting = f"pk on {name}{guard}. Tab completes, \\? lists the rest, Ctrl-D leaves."
    sys.stdout.write(f"{Streams().folded(greeting)}\n")
    if os.environ.get("TERM", "dumb") in ("dumb", "", "unknown"):
        _read_plainly(shell)
    else:
        _read_with_editor(shell)


def _read_with_editor(shell: "Shell") -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.formatted_text import FormattedText
    from prompt_toolkit.history import History, InMemoryHistory
    from prompt_toolkit.styles import Style

    from pk.cli.command_line.tree import tree
    from pk.cli.shell.completer import ShellCompleter
    from pk.cli.shell.history import History as KeptHistory
    from pk.cli.shell.lexer import LineLexer

    history: History
    try:
        history = KeptHistory(os.path.join(make_user_dir("state"), "history"))
    except OSError as e:
        sys.stderr.write(f"Cannot write the history ({e.strerror}).\n")
        history = InMemoryHistory()
    plain = bool(os.environ.get("NO_COLOR"))

    def message() -> "FormattedText":
        profile = shell.settings.profile
        color = profile.color if profile else None
        style = "" if plain else f"bold ansi{color}" if color else "bold"
        where, failed, end = prompt_parts(shell)
        return FormattedText(
            [(style, where), ("" if plain else "bold ansired", failed), (style, end)]
        )

    prompts: PromptSession[str] = PromptSession(
        history=history,
        completer=ShellCompleter(tree(), shell.cache),
        lexer=LineLexer(tree()),
        complete_while_typing=True,
        multiline=Condition(lambda: get_app().current_buffer.text.endswith("\\")),
        prompt_continuation="> ",
        auto_suggest=AutoSuggestFromHistory(),
        bottom_toolbar=lambda: toolbar_of(shell, os.get_terminal_size().columns),
        refresh_interval=1.0,
        enable_open_in_editor=True,
        enable_suspend=True,
        style=None if plain else Style.from_dict(_style_rules()),
    )
    shell.cache.changed = lambda: _offer_again(prompts.app)
    while True:
        try:
            # On a low screen, the space for the menu would scroll the last output off the screen.
            prompts.reserve_space_for_menu = min(8, os.get_terminal_size().lines // 3)
            # Ctrl-C is a key here. The shell's handler ignores a signal from another process.
            text = prompts.prompt(message, handle_sigint=False)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        for line in joined(text.splitlines()):
            if not shell.run_line(line):
                return


def _offer_again(app: "Application[str]") -> None:
    """Update the menu if names arrived during typing, unless the user is choosing from it.

    Called in the engine's thread.
    """

    def offer() -> None:
        buffer = app.current_buffer
        state = buffer.complete_state
        if buffer.text and (state is None or state.current_completion is None):
            buffer.cancel_completion()  # an open menu prevents a new one
            buffer.start_completion(select_first=False)

    loop = app.loop
    if loop is not None:
        with contextlib.suppress(RuntimeError):  # the prompt has just ended
            loop.call_soon_threadsafe(offer)


def _read_plainly(shell: "Shell") -> None:
    """Read lines at a plain prompt, on a terminal without cursor control."""
    while True:
        sys.stdout.write(prompt_of(shell))
        sys.stdout.flush()
        try:
            with shell.on_interrupt(raise_interrupt):
                wait_for_input(sys.stdin.buffer)
                raw = sys.stdin.buffer.readline()
        except KeyboardInterrupt:
            sys.stdout.write("\n")
            continue
        if not raw:
            sys.stdout.write("\n")
            return
        if not shell.run_line(raw.decode(errors="replace")):
            return
