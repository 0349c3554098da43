"""The known name that a misspelled word may have meant, and the question about it in a message."""

from collections.abc import Iterable, Sequence


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The names in `known` that `word` may have meant, best first, at most three."""
    import difflib  # slow to import, and only typos need it

    known = list(known)
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    starts = [name for name in known if name.startswith(word) and name not in found]
    return (found + sorted(starts))[:3]


def did_you_mean(word: str, known: Iterable[str], otherwise: str = ".") -> str:
    """The end of a sentence about an unknown word: `; did you mean orders or order?`, else
    `otherwise`."""
    return did_you_mean_one_of(nearest(word, known), otherwise)


def did_you_mean_one_of(names: Sequence[str], otherwise: str = ".") -> str:
    """The same, if the names that may be meant are known."""
    if not names:
        return otherwise
    *rest, last = names
    return f"; did you mean {', '.join(rest)}{' or ' if rest else ''}{last}?"


def did_you_mean_key(word: str, known: Iterable[str]) -> str:
    """The same for a key or an option: the one name that is nearest, or nothing."""
    return did_you_mean_one_of(nearest(word, known)[:1], "")
