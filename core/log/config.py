"""The settings of one log: those of a topic's keys (same names, `.` for `_`) that the log itself
enforces."""

from dataclasses import fields
from typing import Any, Self

from pk.core.lazy_dataclass import dataclass

LONG_MAX = (1 << 63) - 1

LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Sizes in bytes, times in milliseconds; the defaults are Kafka's."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    file_delete_delay_ms: int = 60_000
    preallocate: bool = False
    compact: bool = False
    producer_id_expiration_ms: int = 86_400_000
    """A broker key: how long an idle producer is remembered."""

    @classmethod
    def of(cls, topic: Any, *, producer_id_expiration_ms: int = 86_400_000) -> Self:
        """From anything that has the topic's keys as attributes."""
        values: dict[str, Any] = {
            f.name: getattr(topic, f.name) for f in fields(cls) if hasattr(topic, f.name)
        }
        values["producer_id_expiration_ms"] = producer_id_expiration_ms
        return cls(**values)
