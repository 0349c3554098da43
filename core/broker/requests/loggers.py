"""This process's loggers as Kafka knows them (KIP-412): levels by name, changed while running,
forgotten at its end."""

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
"""Kafka's level → Python's."""


def level_name(level: int) -> str:
    """Kafka's name for a Python level: that of the lowest one that is not below."""
    return next((name for name, value in LEVELS.items() if level <= value), "FATAL")


def levels() -> dict[str, str]:
    """The level in force of every logger, and of the root."""
    found = {ROOT: level_name(logging.getLogger().getEffectiveLevel())}
    for name, logger in sorted(logging.Logger.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            found[name] = level_name(logger.getEffectiveLevel())
    return found


def check(name: str, level: str | None) -> None:
    """Raises KafkaError(INVALID_CONFIG) for a logger or a level that there is not, INVALID_REQUEST
    for the root's removal."""
    if name not in levels():
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"there is no logger {name}")
    if level is None:
        if name == ROOT:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the root logger keeps a level")
    elif level not in LEVELS:
        choice = ", ".join(LEVELS)
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"a level is one of {choice}, not {level}")


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level; None has it follow its parent again. The arguments have passed
    `check`."""
    logger = logging.getLogger(None if name == ROOT else name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])
