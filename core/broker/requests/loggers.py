"""This process's loggers as Kafka's clients see them (KIP-412): levels by name, which can be
changed at runtime and are not stored."""

import logging
from typing import Final

from pk.core.errors import ErrorCode, KafkaError

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
"""Kafka's level → Python's level."""


def level_name(level: int) -> str:
    """Return Kafka's name for a Python level: the lowest of Kafka's levels that is not below it."""
    return next((name for name, value in LEVELS.items() if level <= value), "FATAL")


def levels() -> dict[str, str]:
    """Return the effective level of every logger, and of the root."""
    found = {ROOT: level_name(logging.getLogger().getEffectiveLevel())}
    for name, logger in sorted(logging.Logger.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            found[name] = level_name(logger.getEffectiveLevel())
    return found


def check(name: str, level: str | None) -> None:
    """Raise KafkaError: INVALID_CONFIG if the logger or the level does not exist, INVALID_REQUEST
    if the root's level is removed."""
    if name not in levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"logger {name} does not exist")
    if level is None:
        if name == ROOT:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST, "the level of the root logger cannot be deleted"
            )
    elif level not in LEVELS:
        choice = ", ".join(LEVELS)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"a level must be one of {choice}, not {level}")


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level. None makes it inherit its parent's. `check` must have accepted the
    arguments."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
