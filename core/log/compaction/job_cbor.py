"""Compaction jobs and their steps as CBOR, exchanged between a broker and its compaction process.

document    uint32 length (big endian), and that many bytes of CBOR, marked with kind and version
"""

from struct import Struct
from typing import Any, Final

from pk.core import cbor
from pk.core.log.compaction.compact import Cleaned, Done, Step, Worked
from pk.core.log.compaction.job import Job
from pk.core.log.segment import Part
from pk.core.log.txnindex import AbortedTxn

KIND: Final = "pk.compaction"
VERSION: Final = 1
LENGTH: Final = Struct(">I")


def frame(body: Any) -> bytes:
    """Encode a document, after its length."""
    data = cbor.dumps(KIND, VERSION, body)
    return LENGTH.pack(len(data)) + data


def unframe(data: bytes) -> Any:
    """Decode a document without its length. Returns the body. Raises CborError."""
    return cbor.loads(KIND, data, VERSION)[1]


def job_body(job: Job, bytes_per_s: float) -> list[Any]:
    """Encode a job as a body."""
    return [
        job.directory,
        [list(part) for part in job.parts],
        [
            job.first_dirty_offset,
            job.end_offset,
            job.now_ms,
            job.delete_retention_ms,
            job.keys_max,
            job.buffer_bytes,
            job.segment_bytes,
            job.index_bytes_max,
            job.index_interval_bytes,
        ],
        [list(producer) for producer in job.producers],
        [list(aborted) for aborted in job.aborted],
        bytes_per_s,
    ]


def job_of(body: Any) -> tuple[Job, float]:
    """Decode a job and its limit in bytes per second."""
    directory, parts, numbers, producers, aborted, bytes_per_s = body
    job = Job(
        directory,
        tuple(Part(*part) for part in parts),
        *numbers,
        producers=tuple((i, o, e) for i, o, e in producers),
        aborted=tuple(AbortedTxn(*a) for a in aborted),
    )
    return job, bytes_per_s


def step_body(step: Step) -> list[Any]:
    """Encode a step as a body."""
    if isinstance(step, Cleaned):
        return ["cleaned", step.base_offset, [list(part) for part in step.replaced], step.sizes]
    if isinstance(step, Done):
        return ["done", *step]
    return ["worked", step.bytes]


def step_of(body: Any) -> Step:
    """Decode a step. Raises ValueError."""
    match body:
        case ["cleaned", base, replaced, sizes]:
            return Cleaned(base, tuple(Part(*part) for part in replaced), sizes)
        case ["done", first_dirty, keys, full]:
            return Done(first_dirty, keys, full)
        case ["worked", count]:
            return Worked(count)
        case _:
            raise ValueError(f"no step of compaction: {body!r}")
