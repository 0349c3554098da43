"""What a topic may be called: the name is that of a directory too."""

from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import MAX_TOPIC_NAME_CHARS

_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_name(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) where no topic may have this name."""
    if not name:
        wrong = "it is empty"
    elif name in (".", ".."):
        wrong = "it would be a directory of another meaning"
    elif len(name) > MAX_TOPIC_NAME_CHARS:
        wrong = f"it has {len(name)} characters, more than {MAX_TOPIC_NAME_CHARS}"
    elif not _LETTERS.issuperset(name):
        wrong = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    else:
        return
    raise KafkaError(
        ErrorCode.INVALID_TOPIC_EXCEPTION, f"no topic can be called {name[:80]!r}: {wrong}"
    )


def is_name(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_name(name)
    except KafkaError:
        return False
    return True
