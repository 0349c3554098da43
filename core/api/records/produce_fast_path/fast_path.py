"""Accepts the simple Produce requests of one connection, and appends their batches in runs. The
package's docstring explains the method and the rules that keep it correct."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from pk.core.api.authorization import allows
from pk.core.api.records.produce_answer import (
    ACKS_ALL,
    ACKS_NONE,
    UNUSUAL,
    VERSION_TOPIC_ID,
    deadline_of,
)
from pk.core.api.records.produce_fast_path.answers import (
    AcceptedRequest,
    DelayedProduce,
    FailedProduce,
)
from pk.core.api.records.produce_fast_path.frames import (
    FramePattern,
    correlation_id_of,
    is_produce,
)
from pk.core.api.records.produce_fast_path.last_record import LastRecord
from pk.core.api.records.produce_fast_path.run import Run
from pk.core.auth.acls import Operation, ResourceType
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError, ProtocolError
from pk.core.meta.image import MetadataImage
from pk.core.record.batch import CODEC_BITS, TRANSACTIONAL_BIT
from pk.core.record.validation import (
    INLINE_RECORDS,
    UNIFORM_SPEEDUP,
    check_codec,
    is_small,
    read_one_batch,
    time_bounds,
    validate_inline,
    validate_uniform,
)
from pk.core.values import INTERNAL_TOPICS
from pk.core.wire.types import Part

FRAME_BYTES_MAX: Final = 2 << 20
"""The size of the largest frame accepted. Producers send at most a megabyte, unless they are
configured to send more."""
COMPRESSED_BYTES_MAX: Final = 64 * 1024
"""The size of the largest frame accepted with compressed batches, which take long to validate for
their size."""
RUN_REQUESTS_MAX: Final = 64
RUN_BYTES_MAX: Final = 128 * 1024
"""The size of the frames whose batches are appended together: a few hundred microseconds of
work."""
TOPICS_MAX: Final = 1024
"""The number of topic names that a connection remembers."""


Answered = bytes | list[Part] | DelayedProduce | FailedProduce
"""The result of `append` for a request: a response, a response that must wait, or a failure."""


class ProduceFastPath:
    """The fast path of one connection. Call `accept` for frames, then `append` before anything else
    of the connection is handled."""

    __slots__ = (
        "_bytes",
        "_context",
        "_image",
        "_last_record",
        "_names",
        "_pattern",
        "_runs",
        "_view",
        "accepted",
        "is_full",
    )

    def __init__(self, context: Context) -> None:
        """`context` is that of the connection; those of requests are copies of it."""
        self._context = context
        self._pattern: FramePattern | None = None
        self._names: dict[bytes, str | None] = {}
        """The names of topics by the bytes that stand for them in requests. None if the fast path
        does not write to the topic, or the client may not. ACLs are a part of the image."""
        self._image: MetadataImage | None = None
        """The image in which `_names` were looked up."""
        self.accepted: list[AcceptedRequest] = []
        """The accepted requests, in the order of `append`."""
        self._runs: dict[tuple[bytes, int], Run] = {}
        self._view: memoryview | None = None
        self._last_record = LastRecord()
        self._bytes = 0
        self.is_full = False
        """Whether the accepted requests should be appended now."""

    def accept(self, data: bytearray, start: int, end: int) -> bool:
        """Accept the frame from `start` to `end` if it is a request for the fast path, and return
        whether it was accepted. If so, `data` must not change until `append`. If not, nothing has
        changed, and requests accepted earlier must be appended before the frame is handled."""
        if end - start <= FRAME_BYTES_MAX and self._accept(data, start, end):
            return True
        if not self.accepted and self._view is not None:
            self._runs, self._view = {}, None
        return False

    def _accept(self, data: bytearray, start: int, end: int) -> bool:
        pattern = self._pattern
        batches = pattern.batches(data, start, end) if pattern is not None else None
        if batches is None:
            if self.accepted or not is_produce(data, start):
                return False
            # This is the first request, or the producer has changed its settings.
            with memoryview(data)[start:end] as frame:
                pattern, self._names = FramePattern.of(frame), {}
            self._pattern = pattern
            batches = pattern.batches(data, start, end) if pattern is not None else None
        if pattern is None or batches is None:
            return False
        view = self._view
        if view is None:
            view = self._view = memoryview(data)
        records, numbers = 0, list[int]()
        runs: list[Run] = []
        try:
            for placed in batches:
                topic, index = placed.topic, placed.partition
                run = self._runs.get((topic, index)) or self._begin(pattern, topic, index)
                if run is None:
                    break
                config = run.partition.config
                at = placed.start
                batch = view[at : placed.stop]
                header = read_one_batch(batch, config)
                bounds = run.bounds
                validated = self._last_record.validate(data, at, batch, header, config, bounds)
                if validated is None:
                    attributes = header.attributes
                    if attributes & UNUSUAL:
                        if attributes & TRANSACTIONAL_BIT:
                            break
                        check_codec(header, pattern.version)
                    small = is_small(header, config)
                    records += header.count if small else header.count // UNIFORM_SPEEDUP
                    if records > INLINE_RECORDS or (
                        attributes & CODEC_BITS and end - start > COMPRESSED_BYTES_MAX
                    ):
                        break
                    validate = validate_inline if small else validate_uniform
                    validated = validate(batch, header, config, bounds, data, at)
                    if validated is None:
                        break
                    self._last_record.remember(batch, header, config)
                numbers.append(len(run.batches))
                runs.append(run)
                run.batches.append(validated)
            else:
                correlation_id = correlation_id_of(data, start)
                self.accepted.append(
                    AcceptedRequest(pattern, correlation_id, batches, runs, numbers)
                )
                self._bytes += end - start
                self.is_full = (
                    self._bytes >= RUN_BYTES_MAX
                    or len(self.accepted) >= RUN_REQUESTS_MAX
                    or pattern.acks == ACKS_NONE
                )
                return True
        except KafkaError:
            pass
        for run in runs:
            run.batches.pop()
        return False

    def _begin(self, pattern: FramePattern, topic: bytes, index: int) -> Run | None:
        """Return a new run for a partition that this broker leads, or None if the general path must
        refuse the request."""
        state = self._context.broker.state
        image = state.image
        if image is not self._image or len(self._names) >= TOPICS_MAX:
            self._image, self._names = image, {}
        try:
            name = self._names[topic]
        except KeyError:
            name = _name_of(topic, pattern.version, image)
            if name is not None and not allows(
                self._context, Operation.WRITE, ResourceType.TOPIC, name, log=False
            ):
                name = None
            self._names[topic] = name
        partition = (
            self._context.broker.data.replicas.find(name, index) if name is not None else None
        )
        if partition is None or not partition.leads or partition.offline is not None:
            return None
        counted = state.metrics.topic(partition.tp.topic)
        bounds = time_bounds(partition.config, self._context.broker.clock.now_ms())
        run = self._runs[topic, index] = Run(partition, counted, bounds)
        return run

    def cost(self) -> tuple[Context, int]:
        """Return the client to charge for the accepted requests, and their size in bytes."""
        client_id = self.accepted[0].pattern.client_id
        if client_id != self._context.client_id:
            self._context = replace(self._context, client_id=client_id)
        return self._context, self._bytes

    def append(self, throttle_ms: int = 0) -> list[Answered]:
        """Append the accepted requests, and return their responses in order. Requests with acks=0
        have none. The last response tells the client to wait for `throttle_ms`.

        Raises ProtocolError if a request with acks=0 was refused: the connection must be closed.
        """
        accepted, runs = self.accepted, self._runs
        if throttle_ms:
            accepted[-1].throttle_ms = throttle_ms
        self.accepted, self._runs, self._view, self._bytes = [], {}, None, 0
        self.is_full = False
        acks = accepted[0].pattern.acks
        acks_all = acks == ACKS_ALL
        broker = self._context.broker
        now_ms = broker.clock.now_ms()
        must_wait = False
        for run in runs.values():
            run.append(now_ms, acks_all=acks_all)
            if acks != ACKS_NONE and not must_wait:
                end = run.partition.log.state.log_end_offset
                must_wait = run.must_wait(end, acks_all=acks_all)
        deadline = deadline_of(self._context, accepted[0].pattern.timeout_ms) if must_wait else 0.0
        answers: list[Answered] = []
        for request in accepted:
            answer: Answered | None = request.appended()
            if answer is None or must_wait:
                answer = self._partial_response(request, answer, deadline)
            if acks != ACKS_NONE or isinstance(answer, FailedProduce):
                answers.append(answer)
        return answers

    def _partial_response(
        self, request: AcceptedRequest, answer: bytes | None, deadline: float
    ) -> Answered:
        """Return the response to a request that was refused in part, or may have to wait. It is
        `answer` if nothing was refused."""
        results = request.results()
        if request.pattern.acks != ACKS_NONE:
            delayed = DelayedProduce(self._context, request, results, answer, deadline)
            if not delayed.is_ready:
                return delayed
        try:
            return answer or request.encode_results(self._context, results, {})
        except ProtocolError:
            raise
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            return FailedProduce(request, e)


def _name_of(topic: bytes, version: int, image: MetadataImage) -> str | None:
    """Return the name of a topic to which clients may write, or None. `topic` is its name or id, as
    in a request of `version`."""
    if version >= VERSION_TOPIC_ID:
        known = image.topic_by_id(topic)
        name = known.name if known is not None else None
    else:
        try:
            name = str(topic, "utf-8")
        except UnicodeDecodeError:
            name = None
    return None if name in INTERNAL_TOPICS else name
