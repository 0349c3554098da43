"""Errors with which brokers refuse a producer's records. The producer retries these, and so does
not report them."""

from typing import Final

from pk.cli.phrases import partition_name
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import sentence
from pk.core.errors import ErrorCode, KafkaError
from pk.core.values import TopicPartition

_LASTING: Final = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS)
"""Refusals that may last until an operator acts."""


class Refusals:
    """Reports the refusals of a producer, for its `on_refusal`: says once what an operator must
    fix."""

    def __init__(self, context: Context) -> None:
        self.last: KafkaError | None = None
        self._context = context
        self._said: set[int] = set()
        """The error codes that were reported."""

    def note(self, tp: TopicPartition, error: KafkaError) -> None:
        """The callback of the producer before it sends a refused batch again."""
        self.last = error
        if error.code in _LASTING and error.code not in self._said:
            self._said.add(error.code)
            self._context.say(
                f"{partition_name(tp)} refuses records: {sentence(error).rstrip('.')}. Trying "
                "again; Ctrl-C stops."
            )
