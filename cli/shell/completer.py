"""Completion in the shell: the same candidates as in bash, matched fuzzily and shown with their
meaning.

All of this runs between two key presses, so the cost per candidate matters: each of thousands of
names is examined once or twice, by C code, and only the best few become menu entries.
"""

import re
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from pk.cli.command_line.completion.candidates import Candidate, matching
from pk.cli.command_line.tree import Command, Group
from pk.cli.shell.cache import Cache
from pk.cli.shell.words import is_after_output, parted, quoted
from pk.cli.terminal.text import cut_middle

SHELL_WORDS = (
    Candidate("use", "set the topic, group or profile for later commands"),
    Candidate("exit", "leave the shell"),
)
BACKSLASH_COMMANDS = (
    Candidate("\\?", "what the shell can do beyond the commands"),
    Candidate("\\w", "repeat the last command, highlighting changes"),
    Candidate("\\G", "the last command, a line for each value"),
    Candidate("\\timing", "show how long commands take, or stop"),
    Candidate("\\pager", "page output taller than the screen, or stop"),
    Candidate("\\refresh", "fetch the names for completion now"),
    Candidate("\\q", "leave the shell"),
)
COMMAND_SUFFIXES = (
    Candidate("\\w", "repeat every 2 seconds, or every N"),
    Candidate("\\G", "a line for each value"),
)

SHOWN_MAX = 200
_RANKED_MAX = 2_000
_MENU_WIDTH = 60


def fuzzy(typed: str, words: Iterable[Candidate], limit: int = SHOWN_MAX) -> list[Candidate]:
    """The best candidates that contain the letters of `typed` in order: first those that begin with
    them, then the tightest matches."""
    every = list(words)
    if not typed:
        return _cut(every, limit)
    low = typed.lower()
    holds = re.compile(".*?".join(map(re.escape, low)), re.IGNORECASE | re.DOTALL).search
    found = [c for c in every if holds(c.word)]
    prefixed = [c for c in found if c.word[: len(low)].lower() == low]
    if len(prefixed) >= limit:
        return _cut(prefixed, limit, len(found))
    prefixes = set(prefixed)
    others = [c for c in found if c not in prefixes]
    if len(others) <= _RANKED_MAX:
        # Search from every position, since the first match need not be the tightest.
        tightest = re.compile(f"(?=({'.*?'.join(map(re.escape, low))}))", re.IGNORECASE | re.DOTALL)
        ranked = [
            (min((len(m[1]), m.start()) for m in tightest.finditer(c.word)), c) for c in others
        ]
        ranked.sort(key=lambda entry: entry[0])
        # Widely scattered letters match by chance, so such matches are dropped if there are better
        # ones.
        near = [c for (length, _), c in ranked if length <= 2 * len(low) + 2]
        others = near if near or prefixed else [c for _, c in ranked]
    return _cut(prefixed + others, limit)


def _cut(found: list[Candidate], limit: int, of: int | None = None) -> list[Candidate]:
    """The first few candidates; the last one says how many more there are."""
    more = (of or len(found)) - limit
    if more <= 0:
        return found
    word, meaning = found[limit - 1]
    return [*found[: limit - 1], Candidate(word, f"{meaning} … and {more:,} more: type on".strip())]


class ShellCompleter(Completer):
    """Completes from the command tree and the cache; never waits for a broker."""

    def __init__(self, root: Group, cache: Cache) -> None:
        self._root = root
        self._cache = cache

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Part of prompt_toolkit's Completer: candidates for the word before the cursor."""
        self._cache.touched()
        text = document.text_before_cursor
        if is_after_output(text):
            return
        words, typed, quote = parted(text)
        start = -len(text) if not words and text.startswith("\\") else -len(typed)
        for candidate in self.matches(words, typed):
            yield Completion(
                quoted(candidate.word, quote),
                start_position=start,
                display=_shown(candidate.word),
                display_meta=candidate.meaning,
            )

    def matches(self, words: list[str], typed: str) -> list[Candidate]:
        """The candidates for `typed` after `words`, best first."""
        if words[:1] == ["pk"]:
            words = words[1:]
        if words[:1] == ["use"]:
            return fuzzy(typed, self._use(words))
        if typed.startswith("\\"):
            own = COMMAND_SUFFIXES if words else BACKSLASH_COMMANDS
            return [c for c in own if c.word.startswith(typed)]
        found = matching(self._root, words, typed, self._cache, fuzzy)
        if not words:
            found = [c for c in found if self._works_here(c.word)]
            found += fuzzy(typed, SHELL_WORDS)
        return found

    def _works_here(self, word: str) -> bool:
        node = self._root.child(word)
        return not isinstance(node, Command) or node.in_shell

    def _use(self, words: list[str]) -> Iterable[Candidate]:
        if len(words) == 1:
            return [Candidate("topic"), Candidate("group"), Candidate("profile")]
        if len(words) > 2:
            return ()
        if words[1] == "profile":
            from pk.cli.command_line.completion.candidates import profiles

            return profiles()
        return self._cache.names(words[1])


def _shown(word: str) -> str:
    """A name for the menu; very long names are cut in the middle."""
    word = word if word.isprintable() else "".join(c if c.isprintable() else "·" for c in word)
    return cut_middle(word, _MENU_WIDTH)
