"""A run: the batches for one partition in one connection's pipelined requests, appended
together."""

from __future__ import annotations

from pk.core.broker.broker_metrics import TopicMetrics
from pk.core.broker.replication.partition import Partition
from pk.core.errors import KafkaError, storable
from pk.core.log.failures import StorageError
from pk.core.log.log import Appended, Origin
from pk.core.record.batch import Timestamps
from pk.core.record.validation import ValidatedBatch

Outcome = int | Appended | Exception
"""The result for a batch: its base offset, an `Appended` if the batch was not appended in a run, or
the error for which it was refused."""


class Run:
    """The accepted batches for one partition, in order."""

    __slots__ = ("_counted", "batches", "bounds", "log_start_offset", "outcomes", "partition")

    def __init__(self, partition: Partition, counted: TopicMetrics, bounds: Timestamps) -> None:
        self.partition = partition
        self.bounds = bounds
        """The earliest and latest timestamps that the topic accepts, as of the beginning of the
        run."""
        self._counted = counted
        self.batches: list[ValidatedBatch] = []
        self.outcomes: list[Outcome] = []
        """The outcome of each batch, after `append`."""
        self.log_start_offset = 0
        """The log start offset, after `append`."""

    def append(self, now_ms: int, *, acks_all: bool) -> None:
        """Append the batches, as many as possible with one write. A batch that the log does not
        append in a run is appended by itself, as on the general path. An exception that is not a
        KafkaError is a bug; it becomes the outcome of the batches that caused it."""
        partition, batches, outcomes = self.partition, self.batches, self.outcomes
        log = partition.log.state
        before = log.log_end_offset
        while len(outcomes) < len(batches):
            rest = batches[len(outcomes) :] if outcomes else batches
            try:
                outcomes += partition.append_run(rest, now_ms, acks_all=acks_all)
            except StorageError as e:
                if not e.undone or len(rest) == 1:
                    # If the failed write was undone, try the batches one by one.
                    outcomes.append(storable(e))
            except KafkaError:
                pass  # nothing was appended; `_append_one` finds each batch's error
            except Exception as e:  # noqa: BLE001 (whatever it is, the clients get an answer)
                outcomes += [e] * len(rest)
            if len(outcomes) < len(batches):
                outcomes.append(self._append_one(batches[len(outcomes)], now_ms, acks_all))

        self.log_start_offset = log.log_start_offset
        counted = self._counted
        counted.messages_in += log.log_end_offset - before
        for batch, outcome in zip(batches, outcomes, strict=True):
            if isinstance(outcome, Exception):
                counted.failed_produce += 1
            else:
                counted.bytes_in += len(batch[0])

    def result(self, number: int) -> Appended | Exception:
        """Return the offsets of a batch, or the error for which it was refused."""
        outcome = self.outcomes[number]
        if not isinstance(outcome, int):
            return outcome
        last_offset = outcome + self.batches[number].header.last_offset_delta
        return Appended(outcome, last_offset, -1, self.log_start_offset, False)

    def _append_one(
        self, validated: ValidatedBatch, now_ms: int, acks_all: bool
    ) -> Appended | Exception:
        batch, header, timestamps = validated
        try:
            return self.partition.append(
                batch,
                header,
                now_ms=now_ms,
                acks_all=acks_all,
                origin=Origin.CLIENT,
                timestamps=timestamps,
            )
        except Exception as e:  # noqa: BLE001 (a refusal, or a bug: the client gets an answer)
            return storable(e)

    def must_wait(self, next_offset: int, *, acks_all: bool) -> bool:
        """Return whether the response for a batch that ends before `next_offset` must wait, because
        replicas have not fetched it, or a sync is under way."""
        partition = self.partition
        return partition.high_watermark < next_offset if acks_all else partition.flushing
