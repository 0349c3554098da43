"""Keeps the metadata of a consumer's topics fresh, and finds leaders for partitions that have
none."""

from collections.abc import Callable, Mapping

import trio

from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.values import TopicPartition
from pk.net.client.cluster import Backoff, Cluster
from pk.net.client.config import ConsumerConfig
from pk.net.client.errors import ClientError
from pk.net.client.subscription import PartitionState


class Watch:
    """Refreshes the metadata of `topics()` (None: all topics) on request, when it is old, and while
    a leader is missing."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig,
        states: Mapping[TopicPartition, PartitionState],
        *,
        topics: Callable[[], set[str] | None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.cluster = cluster
        self.config = config
        self._states = states
        self._topics = topics
        self._on_failure = on_failure
        self._wanted = trio.Event()

    def want(self) -> None:
        """Request a refresh soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Refresh the metadata until cancelled."""
        backoff = Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
        while True:
            with trio.move_on_after(self.config.metadata_max_age_ms / 1000):
                await self._wanted.wait()
            self._wanted = trio.Event()
            topics = self._topics()
            try:
                if topics is None:
                    await self.cluster.refresh(None)
                elif topics:
                    create = self.config.allow_auto_create_topics
                    await self.cluster.refresh(sorted(topics), allow_auto_topic_creation=create)
            except (KafkaError, ClientError, ProtocolError):
                self._wanted.set()
            self._find_leaders()
            pause_ms = backoff.next_ms()
            if not self._wanted.is_set():
                backoff.reset()
            await trio.sleep(pause_ms / 1000)

    def _find_leaders(self) -> None:
        """Refresh while partitions have no leader, unless the topic has an error that a retry
        cannot change."""
        metadata = self.cluster.metadata
        for partition in self._states:
            info = metadata.topics.get(partition.topic)
            code = info.error_code if info is not None else 0
            if code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION):
                self._on_failure(KafkaError(code, f"topic {partition.topic!r}"))
            elif metadata.leader(partition)[0] < 0:
                self._wanted.set()
