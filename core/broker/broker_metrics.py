"""The counters of a broker. Metrics that can be computed on request are in metric_samples.py."""

from __future__ import annotations

from typing import Final

from pk.core.errors import error_name
from pk.core.metrics import Counter, Histogram
from pk.core.wire.index import MESSAGES

TOPICS_MAX: Final = 100_000
"""The number of topics counted by name; records of further topics are counted under `OTHER`."""
OTHER: Final = "(other)"


class TopicMetrics:
    """The writes and reads of clients for a topic on this broker."""

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_produce",
        "messages_in",
        "replication_bytes_out",
    )

    def __init__(self) -> None:
        self.messages_in = 0
        self.bytes_in = 0
        """Bytes of record batches, as they were sent."""
        self.bytes_out = 0
        """Bytes sent to consumers."""
        self.replication_bytes_out = 0
        """Bytes sent to followers."""
        self.failed_produce = 0
        """Batches that were refused, or whose append failed."""


class RequestMetrics:
    """The requests of one API."""

    __slots__ = ("errors", "name", "total_time")

    def __init__(self, api_key: int) -> None:
        self.name = MESSAGES[api_key].name
        self.total_time = Histogram()
        """The time from a request's arrival until its response is ready, in ms; its count is the
        number of requests."""
        self.errors: dict[str, Counter] = {}
        """Requests that failed as a whole, by the error's name."""

    def failed(self, error_code: int) -> None:
        """Count a request that failed as a whole."""
        self.errors.setdefault(error_name(error_code), Counter()).value += 1


class ListenerMetrics:
    """The connections of one listener."""

    __slots__ = ("closed", "failed_authentication", "opened")

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.failed_authentication = 0


class BrokerMetrics:
    """The counters of a process."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicMetrics] = {}
        self.requests: dict[int, RequestMetrics] = {}
        self.listeners: dict[str, ListenerMetrics] = {}
        self.log_flush = Histogram()
        """How long syncs of logs took, in ms."""
        self.isr_shrinks = Counter()
        self.isr_expands = Counter()
        self.scrubbed_bytes = Counter()
        self.damaged_segments = Counter()
        self.replaced_segments = Counter()
        self.committed_truncated = Counter()
        """The number of times that a follower had to truncate its log below its high watermark to
        match its leader's."""

    def topic(self, name: str) -> TopicMetrics:
        """Return the counters of a topic."""
        found = self.topics.get(name)
        if found is None:
            if len(self.topics) >= TOPICS_MAX:
                name = OTHER
            found = self.topics.setdefault(name, TopicMetrics())
        return found

    def request(self, api_key: int) -> RequestMetrics:
        """Return the counters of an API."""
        found = self.requests.get(api_key)
        if found is None:
            found = self.requests[api_key] = RequestMetrics(api_key)
        return found

    def listener(self, name: str) -> ListenerMetrics:
        """Return the counters of a listener."""
        return self.listeners.setdefault(name, ListenerMetrics())

    def log_flushed(self, seconds: float) -> None:
        """Count a sync that took `seconds`."""
        self.log_flush.observe(seconds * 1000)
