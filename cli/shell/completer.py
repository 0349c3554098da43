"""Completion in the shell: the same candidates as for bash, matched fuzzily, with what they mean beside them.

Everything here runs between two keys, so it is counted in candidates: of thousands of names each is looked at once or
twice, with what C does fast, and only the best few become something that is shown.
"""

import re
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from pk.cli.command_line.completion.candidates import Candidate, matching
from pk.cli.command_line.tree import Group
from pk.cli.shell.cache import Cache
from pk.cli.shell.shell_commands import NOT_HERE
from pk.cli.shell.words import is_after_output, parted, quoted
from pk.cli.terminal.text import cut_middle

OWN_WORDS = (
    Candidate("use", "set the topic, group or profile that commands are about"),
    Candidate("exit", "leave the shell"),
)
BACKSLASHED = (
    Candidate("\\?", "what the shell can do beside the commands"),
    Candidate("\\w", "look at the last command again and again"),
    Candidate("\\G", "the last command, a line for each value"),
    Candidate("\\timing", "say how long commands take, or no more"),
    Candidate("\\pager", "page what is too tall, or no more"),
    Candidate("\\refresh", "fetch the names for completion now"),
    Candidate("\\q", "leave the shell"),
)
BEHIND_COMMANDS = (
    Candidate("\\w", "look again every 2 seconds, or so many as follow"),
    Candidate("\\G", "a line for each value"),
)

SHOWN_MAX = 200
_RANKED_MAX = 2_000
_MENU_WIDTH = 60


def fuzzy(typed: str, words: Iterable[Candidate], limit: int = SHOWN_MAX) -> list[Candidate]:
    """The best candidates that hold the letters of `typed` in order: prefixes first, then the tightest match."""
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
        # Looked for at every place: the first match need not be the tightest.
        tightest = re.compile(f"(?=({'.*?'.join(map(re.escape, low))}))", re.IGNORECASE | re.DOTALL)
        ranked = [
            (min((len(m[1]), m.start()) for m in tightest.finditer(c.word)), c) for c in others
        ]
        ranked.sort(key=lambda entry: entry[0])
        # Letters strewn far apart are chance, where there is anything better.
        near = [c for (length, _), c in ranked if length <= 2 * len(low) + 2]
        others = near if near or prefixed else [c for _, c in ranked]
    return _cut(prefixed + others, limit)


def _cut(found: list[Candidate], limit: int, of: int | None = None) -> list[Candidate]:
    """The first few; the last of them says how many more there are."""
    more = (of or len(found)) - limit
    if more <= 0:
        return found
    word, meaning = found[limit - 1]
    return [*found[: limit - 1], Candidate(word, f"{meaning} … and {more:,} more: type on".strip())]


class ShellCompleter(Completer):
    """Completes from the tree and the cache; never waits for a broker."""

    def __init__(self, root: Group, cache: Cache) -> None:
        self._root = root
        self._cache = cache

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Candidates for the word before the cursor."""
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
            own = BEHIND_COMMANDS if words else BACKSLASHED
            return [c for c in own if c.word.startswith(typed)]
        found = matching(self._root, words, typed, self._cache, fuzzy)
        if not words:
            found = [c for c in found if c.word not in NOT_HERE]
            found += fuzzy(typed, OWN_WORDS)
        return found

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
    """A name as it stands in the menu: very long ones lose their middle."""
    word = word if word.isprintable() else "".join(c if c.isprintable() else "·" for c in word)
    return cut_middle(word, _MENU_WIDTH)
