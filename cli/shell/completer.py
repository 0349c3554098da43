"""Completion in the shell: the same candidates as for bash, matched fuzzily, with what they mean beside them."""

import re
from collections.abc import Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from pk.cli.complete import Candidate, candidates, locate
from pk.cli.grammar import Group
from pk.cli.shell.cache import Cache
from pk.cli.shell.words import before_cursor

OWN_WORDS = (
    Candidate("use", "set the topic or group that commands are about"),
    Candidate("exit", "leave the shell"),
)
NOT_HERE = frozenset(("up", "shell", "completion"))
"""Commands that make no sense inside the shell."""


def fuzzy(typed: str, words: Iterable[Candidate]) -> list[Candidate]:
    """The candidates that hold the letters of `typed` in order: prefixes first, then the tightest match."""
    if not typed:
        return list(words)
    # Looked for at every place: the first match need not be the tightest.
    pattern = re.compile(f"(?=({'.*?'.join(map(re.escape, typed))}))", re.IGNORECASE)
    ranked = []
    for order, candidate in enumerate(words):
        found = [(len(m[1]), m.start()) for m in pattern.finditer(candidate.word)]
        if found:
            later = not candidate.word.lower().startswith(typed.lower())
            ranked.append((later, *min(found), order, candidate))
    ranked.sort(key=lambda entry: entry[:4])
    return [entry[4] for entry in ranked]


class ShellCompleter(Completer):
    """Completes from the tree and the cache; never waits for a broker."""

    def __init__(self, root: Group, cache: Cache) -> None:
        self._root = root
        self._cache = cache

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Candidates for the word before the cursor."""
        words, typed = before_cursor(document.text_before_cursor)
        for candidate in self.matches(words, typed):
            yield Completion(
                candidate.word,
                start_position=-len(typed),
                display_meta=candidate.meaning[:70],
            )

    def matches(self, words: list[str], typed: str) -> list[Candidate]:
        """The candidates for `typed` after `words`, best first."""
        if words[:1] == ["use"]:
            return fuzzy(typed, self._use(words))
        found = [c for c in self._candidates(words, typed) if words or c.word not in NOT_HERE]
        if not words:
            found += OWN_WORDS
        return fuzzy(typed, found)

    def _use(self, words: list[str]) -> Iterable[Candidate]:
        if len(words) == 1:
            return [Candidate("topic"), Candidate("group")]
        return self._cache.names(words[1]) if len(words) == 2 else ()

    def _candidates(self, words: list[str], typed: str) -> list[Candidate]:
        place = locate(self._root, words)
        wanted = place.option.complete if place.option else None
        if wanted in ("config-key", "topic-config", "broker-config"):
            name, equals, _ = typed.partition("=")
            if equals:
                return self._cache.config_values(name)
            kind = (place.plain[0] if place.plain else "").removesuffix("s")
            if wanted == "topic-config":
                return self._cache.config_keys(place.plain[0] if place.plain else None)
            if kind == "topic":
                return self._cache.config_keys(place.plain[1] if len(place.plain) > 1 else None)
        return candidates(self._root, words, typed, self._cache)
