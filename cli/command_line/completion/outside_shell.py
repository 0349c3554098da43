"""Completion outside the shell. It takes the names of a cluster from the files that earlier
commands left on this machine, so that Tab waits for no broker and works if none is reachable."""

import os
from collections.abc import Iterable, Mapping, Sequence

from pk.cli.command_line.completion.candidates import Candidate, locate, matching


class CachedNames:
    """The names in the files that earlier commands left. Old names are refreshed for the next
    time."""

    def __init__(self, words: Sequence[str], *, fetch: bool = False) -> None:
        self.words = words
        self._fetch = fetch
        self._known: str | None = None

    def names(self, kind: str) -> Iterable[Candidate]:
        """Part of `Names`."""
        from pk.cli.runtime.name_cache import recall_meanings

        if kind in ("topic", "group", "broker", "feature", "member", "instance"):
            found = recall_meanings(self._cluster(), kind)
            return [Candidate(name, meaning) for name, meaning in found.items()]
        if kind == "topic/":
            return [Candidate(f"{name}/", meaning) for name, meaning in self.names("topic")]
        if kind.endswith("-config"):
            return [Candidate(name) for name in recall_meanings("", kind)]
        if kind == "bootstrap":
            found = recall_meanings(self._cluster(), "broker")
            return [Candidate(address, f"broker {b}") for b, address in found.items() if address]
        return ()

    def configs(self, kind: str, name: str) -> Mapping[str, str]:
        """Part of `Names`."""
        from pk.cli.runtime.name_cache import recall_configs

        return recall_configs(self._cluster()).get(name, {}) if kind == "topic" else {}

    def current(self, kind: str) -> str | None:
        """Part of `Names`: only the shell has current objects."""
        return None

    def _cluster(self) -> str:
        """The address of the cluster whose names are completed."""
        if self._known is None:
            given = self._given()
            self._known = _bootstrap(given)
            if self._fetch:
                from pk.cli.command_line.completion.name_refresh import refresh_soon

                refresh_soon(self._known, given)
        return self._known

    def _given(self) -> dict[str, object]:
        from pk.cli.command_line.completion.name_refresh import CONNECTING
        from pk.cli.command_line.tree import tree

        given: dict[str, object] = {}
        pairs: list[list[str]] = []
        for option, text in locate(tree(), self.words).given:
            if option.dest == "client_properties" and text and "=" in text:
                pairs.append(text.split("=", 1))
            elif option.dest in CONNECTING and text:
                given[option.dest] = text
        return {**given, "client_properties": pairs} if pairs else given


def _bootstrap(given: Mapping[str, object]) -> str:
    from pk.cli.exits import CommandError
    from pk.cli.runtime.settings import DEFAULT_BOOTSTRAP, choose_profile

    if given.get("bootstrap_server"):
        return str(given["bootstrap_server"])
    named = given.get("profile")
    if not named and os.environ.get("PK_BOOTSTRAP_SERVER"):
        return os.environ["PK_BOOTSTRAP_SERVER"]
    try:
        profile = choose_profile(str(named) if named else None)
    except CommandError:
        profile = None
    return (profile.bootstrap if profile else None) or DEFAULT_BOOTSTRAP


def answer(words: Sequence[str], *, fetch: bool = False) -> str:
    """The output for the scripts in `completions/`: a line for each candidate, with a tab between
    its word and its meaning.

    If `fetch`, a background process refreshes old names for the next time.
    """
    from pk.cli.command_line.tree import tree

    *before, typed = words or [""]
    found = matching(tree(), before, typed, CachedNames(before, fetch=fetch))
    return "".join(f"{_line(c.word)}\t{_line(c.meaning)}\n" for c in found if c.word)


def _line(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
