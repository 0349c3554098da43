"""Regular expressions of subscriptions: RE2, matched against whole topic names.

RE2 takes time and memory linear in the length of the text for any expression, so the broker can
safely evaluate clients' expressions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

from pk.core.errors import ErrorCode, KafkaError


def check_regex(regex: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION if `regex` is invalid."""
    try:
        _compiled(regex)
    except ValueError as e:
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {e}.",
        ) from None


def matcher(regex: str) -> Callable[[str], bool]:
    """Return a function that tells whether `regex` matches a whole text. Raises ValueError with
    RE2's reason."""
    compiled = _compiled(regex)
    return lambda text: compiled.fullmatch(text) is not None


def matching(
    regexes: Iterable[str],
    topics: Iterable[str],
    may_describe: Callable[[str], bool] | None = None,
) -> dict[str, frozenset[str]]:
    """Return the matches of each expression among `topics`, except topics that the client that
    caused the resolution may not describe. An invalid expression matches nothing."""
    names = list(topics)
    found: dict[str, frozenset[str]] = {}
    for regex in regexes:
        try:
            compiled = _compiled(regex)
        except ValueError:
            found[regex] = frozenset()
            continue
        matched = (name for name in names if compiled.fullmatch(name) is not None)
        found[regex] = frozenset(filter(may_describe, matched) if may_describe else matched)
    return found


def _compiled(regex: str) -> Any:
    """Compile an expression. Raises ValueError with RE2's reason."""
    import re2 as untyped  # pyright: ignore[reportMissingTypeStubs]  # when a group first has an expression: 5 ms

    re2 = cast(Any, untyped)

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as e:
        reason = e.args[0] if e.args else "unknown"
        raise ValueError(
            reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        ) from None
