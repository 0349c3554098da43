"""The settings of one log: the topic configs (same names, `.` replaced with `_`) that the log
itself enforces."""

from typing import Any, Self

from msgspec import Struct

LONG_MAX = (1 << 63) - 1

LOG_APPEND_TIME = "LogAppendTime"


class LogConfig(Struct, frozen=True):
    """The settings of a log. Sizes are in bytes, times in ms. The defaults are Kafka's."""

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
    remote_storage_enable: bool = False
    producer_id_expiration_ms: int = 86_400_000
    """How long an idle producer is kept. This is a broker config."""

    @classmethod
    def of(cls, topic: Any, *, producer_id_expiration_ms: int = 86_400_000) -> Self:
        """Copy the settings from any object whose attributes are the topic's configs."""
        values: dict[str, Any] = {
            name: getattr(topic, name) for name in cls.__struct_fields__ if hasattr(topic, name)
        }
        values["producer_id_expiration_ms"] = producer_id_expiration_ms
        return cls(**values)
