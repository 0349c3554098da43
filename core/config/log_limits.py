"""Checks of a broker's log keys, with Apache Kafka's messages, at start and when the keys change at
runtime."""

from collections.abc import Sequence
from typing import Final

from pk.core.config.keys import ConfigError

EVERY_DIRECTORY: Final = "*"
DEDUPE_BYTES_MIN: Final = 1 << 20
"""The minimum share of `log.cleaner.dedupe.buffer.size` of each cleaner, which must be exceeded."""


def check_cordoned(named: Sequence[str], log_dirs: Sequence[str]) -> None:
    """Raise ConfigError if `cordoned.log.dirs` (KIP-1066) names a directory that the broker does
    not have."""
    if EVERY_DIRECTORY in named:
        if len(named) > 1:
            raise ConfigError(
                "requirement failed: When cordoned.log.dirs is set to *, it must not contain other "
                "values"
            )
    elif stray := [path for path in named if path not in log_dirs]:
        raise ConfigError(
            "requirement failed: All entries in cordoned.log.dirs must be present in log.dirs or "
            f"log.dir. Missing entries : {', '.join(stray)}"
        )


def check_cleaners(threads: int, dedupe_bytes: int) -> None:
    """Raise ConfigError if there are no cleaners, or if they do not have enough memory. (Apache
    Kafka fails with `/ by zero` if there are none.)"""
    if threads < 1:
        raise ConfigError("Log cleaner threads should be at least 1")
    if dedupe_bytes // threads <= DEDUPE_BYTES_MIN:
        raise ConfigError(
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread."
        )


def check_cleaners_change(threads: int, now: int) -> None:
    """Raise ConfigError if a running broker must not change from `now` to `threads` cleaners in one
    step."""
    reason = ""
    if threads < 1:
        reason = "should be at least 1"
    elif threads < now // 2:
        reason = f"cannot be reduced to less than half the current value {now}"
    elif threads > now * 2:
        reason = f"cannot be increased to more than double the current value {now}"
    if reason:
        raise ConfigError(
            "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads "
            f"{reason} for configuration Invalid dynamic configuration"
        )
