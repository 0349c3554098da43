"""The known name that a misspelt word may have meant."""

from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The names in `known` that `word` may have meant, best first, at most three."""
    import difflib

    known = list(known)
    found = difflib.get_close_matches(word, known, n=3, cutoff=0.6)
    starts = [name for name in known if name.startswith(word) and name not in found]
    return (found + sorted(starts))[:3]


def meant(word: str, known: Iterable[str]) -> str:
    """`; did you mean X?`, or nothing where no known name is near."""
    found = nearest(word, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""
