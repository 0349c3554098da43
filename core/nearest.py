"""Suggestions for misspelled words: the known names that are similar, and the question about them
in a message."""

from collections.abc import Iterable, Sequence


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Return at most three names in `known` that `word` may have meant, the best first."""
    import difflib  # This import is slow, and only typos need it.

    known = list(known)
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    starts = [name for name in known if name.startswith(word) and name not in found]
    return (found + sorted(starts))[:3]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = ".") -> str:
    """Return the end of a sentence about an unknown word: `; did you mean orders or order?`, or
    `otherwise`."""
    return did_you_mean_one_of(nearest(word, known), otherwise)


def did_you_mean_one_of(names: Sequence[str], otherwise: str = ".") -> str:
    """Return the same end of a sentence for the names that `nearest` has found."""
    if not names:
        return otherwise
    *rest, last = names
    return f"; did you mean {', '.join(rest)}{' or ' if rest else ''}{last}?"


def did_you_mean_key(word: str, known: Iterable[str]) -> str:
    """Return the same end of a sentence for a key or an option, with the nearest name only, or
    ""."""
    return did_you_mean_one_of(nearest(word, known)[:1], "")
