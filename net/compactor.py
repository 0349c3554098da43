"""Compaction in a process of its own.

Measured on two busy cores: round trips in ms of a client that produces one record at a time, each
over 1 ms after the last, while 100 MB of 100-byte records are compacted:

    alone                                      p50 0.15   p99  2.8
    beside a process                           p50 0.16   p99  4.5
    beside a thread                            p50 0.31   p99 38.6
    beside a thread, switch interval 0.5 ms    p50 0.76   p99 32.6

A thread of the broker's process holds the interpreter for up to 5 ms at a time (its switch
interval), which delays the loop after every wait. A process shares only the disk, and it runs with
higher niceness, so on a busy machine the broker has priority.

The child reads its job from stdin, reports its steps on stdout (`core/log/compaction/job_cbor.py`),
and ends with its parent: it watches stdin, which reaches its end when the parent closes it or dies.
Otherwise, an orphan could continue to write `.cleaned` files while the next broker opens the log.
"""

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any, BinaryIO

import trio

from pk.core.broker.upkeep.cleaner import CompactorLost
from pk.core.cbor import CborError
from pk.core.errors import KafkaError
from pk.core.log.compaction import job_cbor
from pk.core.log.compaction.compact import Step, Worked, clean
from pk.core.log.compaction.job import Job
from pk.core.log.disk import RealDisk
from pk.core.log.failures import UnexpectedLogError, unexpected_errors

NICENESS = 10
RECEIVE_BYTES = 1 << 16

START = "import sys; sys.path[:] = sys.argv[1:]; from pk.net.compactor import main; main()"


class InProcess:
    """Runs compaction jobs on the real disk, each in a process of its own."""

    @asynccontextmanager
    async def run(self, job: Job, bytes_per_s: float) -> AsyncGenerator[AsyncIterator[Step]]:
        """See `Compactor`."""
        process = await trio.lowlevel.open_process(
            [sys.executable, "-c", START, *sys.path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            async with aclosing(self._steps(process, job, bytes_per_s)) as steps:
                yield steps
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                await process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream is not None:
                        await stream.aclose()

    async def _steps(
        self, process: trio.Process, job: Job, bytes_per_s: float
    ) -> AsyncGenerator[Step, None]:
        assert process.stdin is not None and process.stdout is not None
        try:
            await process.stdin.send_all(job_cbor.frame(job_cbor.job_body(job, bytes_per_s)))
        except trio.BrokenResourceError:
            raise CompactorLost(f"the compactor ended with status {await process.wait()}") from None
        data = bytearray()
        while True:
            received = await process.stdout.receive_some(RECEIVE_BYTES)
            if not received:
                status = await process.wait()
                if status or data:
                    raise CompactorLost(f"the compactor ended with status {status}")
                return
            data += received
            while len(data) >= job_cbor.LENGTH.size:
                end = job_cbor.LENGTH.size + job_cbor.LENGTH.unpack_from(data)[0]
                if len(data) < end:
                    break
                body = job_cbor.unframe(bytes(data[job_cbor.LENGTH.size : end]))
                del data[:end]
                yield _step_or_error(body)


def _step_or_error(body: Any) -> Step:
    match body:
        case ["os", number, message]:
            raise OSError(number, message)
        case ["kafka", code, message]:
            raise KafkaError(code, message)
        case _:
            return job_cbor.step_of(body)


def main() -> None:
    """Run one job from stdin to stdout, in the child."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    try:
        (length,) = job_cbor.LENGTH.unpack(source.read(job_cbor.LENGTH.size))
        job, bytes_per_s = job_cbor.job_of(job_cbor.unframe(source.read(length)))
    except (ValueError, CborError):
        sys.exit(2)
    threading.Thread(target=_end_with_parent, args=(source.fileno(),), daemon=True).start()
    os.nice(NICENESS)
    try:
        with unexpected_errors(f"compact {job.directory}"):
            for step in clean(RealDisk(), job):
                if isinstance(step, Worked):
                    time.sleep(step.bytes / bytes_per_s)
                else:
                    _tell(target, job_cbor.step_body(step))
    except OSError as e:
        _tell(target, ["os", e.errno or 5, str(e)])
    except UnexpectedLogError as e:
        traceback.print_exception(e)  # to the same stream as the broker's own tracebacks
        _tell(target, ["kafka", int(e.code), e.message])
    except KafkaError as e:
        _tell(target, ["kafka", int(e.code), str(e)])


def _tell(target: BinaryIO, body: list[object]) -> None:
    target.write(job_cbor.frame(body))
    target.flush()


def _end_with_parent(fd: int) -> None:
    """End this process when the parent has ended, since the result could no longer be used. Reads
    the file descriptor directly, because the buffered stream's lock would be held while this
    process ends."""
    os.read(fd, 1)
    os._exit(1)
