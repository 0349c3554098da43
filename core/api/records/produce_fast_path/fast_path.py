"""Takes the Produce requests of one connection that need nothing special, and appends them in runs.

The requests that a producer has pipelined are in the connection's buffer, one after another. `take`
looks at one of them: its bytes are like those before (frames.py), this broker leads its partitions,
its batches pass what every batch must. Then it waits in the buffer. `settle` appends what was
taken, by one write for each partition, and makes the answers.

What is left of a request's way is decided as on the general way (../produce.py), which stays the
reference: the same checks in the same order, the same answers to the byte. A request that is in any
way unusual is not taken; the caller settles first, so that the order of a connection's requests
holds, and the general way words the refusal. A batch that the log does not take into a run (a
duplicate, a sequence out of order, a full disk) is appended by itself, as there.

Nothing awaits between the first `take` and `settle`: the image, the configs and the leaders that
`take` saw are in force when `settle` appends, and nothing that was learned for one run is used for
the next. Topic ids are looked up again with each new image, and whether the client may write to
them is asked again. Whatever else may forbid a produce later must be asked in `_begin`, or in
`_take` for each request. A quota forbids nothing: the connection charges the client for what was
taken before it is settled.
"""

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
from pk.core.api.records.produce_fast_path.answers import DelayedProduce, FailedProduce, Taken
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
from pk.core.values import INTERNAL_TOPICS, new_tuple
from pk.core.wire.types import Part

FRAME_BYTES_MAX: Final = 2 << 20
"""Producers send a megabyte at most, unless their settings allow more."""
COMPRESSED_BYTES_MAX: Final = 64 * 1024
"""Of a request with compressed batches, which take long for their size."""
RUN_REQUESTS_MAX: Final = 64
RUN_BYTES_MAX: Final = 128 * 1024
"""So much is appended at once: a few hundred microseconds of work."""
TOPICS_MAX: Final = 1024
"""How many topics' names a connection remembers."""

_new = new_tuple

Settled = bytes | list[Part] | DelayedProduce | FailedProduce
"""What `settle` returns for a request: its answer, the produce that waits, or a failure."""


class ProduceFastPath:
    """Of one connection. `take` frames, then `settle` before anything else of the connection is
    handled."""

    __slots__ = (
        "_bytes",
        "_context",
        "_image",
        "_last_record",
        "_names",
        "_pattern",
        "_runs",
        "_view",
        "is_full",
        "taken",
    )

    def __init__(self, context: Context) -> None:
        """`context` is the pattern of every request's."""
        self._context = context
        self._pattern: FramePattern | None = None
        self._names: dict[bytes, str | None] = {}
        """The names of topics as requests name them; None where the fast path does not write to
        them, and where the client may not. ACLs are a part of the image."""
        self._image: MetadataImage | None = None
        """Of which they are."""
        self.taken: list[Taken] = []
        """What waits for `settle`."""
        self._runs: dict[tuple[bytes, int], Run] = {}
        self._view: memoryview | None = None
        self._last_record = LastRecord()
        self._bytes = 0
        self.is_full = False
        """Whether what is taken is enough to settle. A refusal without an answer (acks=0) closes
        the connection, and what comes after it must not be appended."""

    def take(self, data: bytearray, start: int, end: int) -> bool:
        """Whether the frame from `start` to `end` is a request for the fast path: then it is
        `taken`, and `data` must stay as it is until `settle`. Else nothing has happened; what was
        taken before must be settled before the frame is handled."""
        if end - start <= FRAME_BYTES_MAX and self._take(data, start, end):
            return True
        if not self.taken and self._view is not None:
            self._runs, self._view = {}, None
        return False

    def _take(self, data: bytearray, start: int, end: int) -> bool:
        pattern = self._pattern
        batches = pattern.batches(data, start, end) if pattern is not None else None
        if batches is None:
            if self.taken or not is_produce(data, start):
                return False
            # The first, or a producer that has changed its settings.
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
            for topic, index, _, _, at, stop in batches:
                run = self._runs.get((topic, index)) or self._begin(pattern, topic, index)
                if run is None:
                    break
                config = run.partition.config
                batch = view[at:stop]
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
                taken = pattern, correlation_id_of(data, start), batches, runs, numbers, 0
                self.taken.append(_new(Taken, taken))
                self._bytes += end - start
                self.is_full = (
                    self._bytes >= RUN_BYTES_MAX
                    or len(self.taken) >= RUN_REQUESTS_MAX
                    or pattern.acks == ACKS_NONE
                )
                return True
        except KafkaError:
            pass
        for run in runs:
            run.batches.pop()
        return False

    def _begin(self, pattern: FramePattern, topic: bytes, index: int) -> Run | None:
        """A run for a partition that this broker leads; None where the general way must say what is
        wrong."""
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
        partition = self._context.broker.replicas.find(name, index) if name is not None else None
        if partition is None or not partition.leads or partition.offline is not None:
            return None
        counted = state.metrics.topic(partition.tp.topic)
        bounds = time_bounds(partition.config, self._context.broker.clock.now_ms())
        run = self._runs[topic, index] = Run(partition, counted, bounds)
        return run

    def cost(self) -> tuple[Context, int]:
        """Whom what was taken is charged to, and how many bytes it is."""
        client_id = self.taken[0].pattern.client_id
        if client_id != self._context.client_id:
            self._context = replace(self._context, client_id=client_id)
        return self._context, self._bytes

    def settle(self, throttle_ms: int = 0) -> list[Settled]:
        """Append what was taken. An answer for each request, in order; for acks=0 none. The last
        tells the client to wait for `throttle_ms`.

        Raises ProtocolError where a request was refused that wants no answer: the connection must
        be closed.
        """
        taken, runs = self.taken, self._runs
        if throttle_ms:
            taken[-1] = taken[-1]._replace(throttle_ms=throttle_ms)
        self.taken, self._runs, self._view, self._bytes = [], {}, None, 0
        self.is_full = False
        acks = taken[0].pattern.acks
        acks_all = acks == ACKS_ALL
        broker = self._context.broker
        now_ms = broker.clock.now_ms()
        must_wait = False
        for run in runs.values():
            run.append(now_ms, acks_all=acks_all)
            if acks != ACKS_NONE and not must_wait:
                end = run.partition.log.state.log_end_offset
                must_wait = run.must_wait(end, acks_all=acks_all)
        deadline = deadline_of(self._context, taken[0].pattern.timeout_ms) if must_wait else 0.0
        settled: list[Settled] = []
        for request in taken:
            answer: Settled | None = request.appended()
            if answer is None or must_wait:
                answer = self._special(request, answer, deadline)
            if acks != ACKS_NONE or isinstance(answer, FailedProduce):
                settled.append(answer)
        return settled

    def _special(self, request: Taken, answer: bytes | None, deadline: float) -> Settled:
        """The answer to a request that was refused in part, or may have to wait; `answer` if it was
        not refused."""
        places = request.places()
        if request.pattern.acks != ACKS_NONE:
            delayed = DelayedProduce(self._context, request, places, answer, deadline)
            if not delayed.is_ready:
                return delayed
        try:
            return answer or request.worded(self._context, places, {})
        except ProtocolError:
            raise
        except Exception as e:  # noqa: BLE001 (whatever it is, the client gets an answer)
            return FailedProduce(request, e)


def _name_of(topic: bytes, version: int, image: MetadataImage) -> str | None:
    """The name of a topic that clients may write to, by what a request of `version` calls it."""
    if version >= VERSION_TOPIC_ID:
        known = image.topic_by_id(topic)
        name = known.name if known is not None else None
    else:
        try:
            name = str(topic, "utf-8")
        except UnicodeDecodeError:
            name = None
    return None if name in INTERNAL_TOPICS else name
