"""Valid topic names. A topic's name is also part of directory names."""

from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import MAX_TOPIC_NAME_CHARS

_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


UNKNOWN_TOPIC: Final = "This server does not host this topic-partition."
UNKNOWN_TOPIC_ID: Final = "This server does not host this topic ID."


def check_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION) if the name is not a valid topic name."""
    shown = f"'{name}'"
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"{shown} is not allowed"
    elif len(name) > MAX_TOPIC_NAME_CHARS:
        wrong = (
            f"the length of {shown} is longer than the max allowed length {MAX_TOPIC_NAME_CHARS}"
        )
    elif not _LETTERS.issuperset(name):
        wrong = (
            f"{shown} contains one or more characters other than ASCII alphanumerics, '.', '_' "
            "and '-'"
        )
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {wrong}")


def is_name(name: str) -> bool:
    """Whether a topic may have this name."""
    try:
        check_name(name)
    except KafkaError:
        return False
    return True
