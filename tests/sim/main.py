"""The simulator's command line: `scripts/simulate --help`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from time import monotonic

from sim import swarm
from sim.planted import PLANTED, search
from sim.simulation import Options, Result, run_seed

FAILURES_SHOWN = 20
PROGRESS_S = 60
AHEAD = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a run, small enough to pass between processes."""

    seed: int
    text: str
    """Empty if the run found nothing wrong."""
    cpu_s: float
    virtual_s: float
    messages: int
    records: int
    faults: int
    digest: int


def outcome_of(result: Result) -> Outcome:
    """The short of it."""
    text = str(result.violation) if result.violation is not None else result.error
    return Outcome(
        result.seed,
        text,
        result.cpu_s,
        result.virtual_s,
        result.messages,
        result.records,
        sum(result.faults.values()),
        result.digest,
    )


def run_one(seed: int, options: Options) -> Outcome:
    """Run a seed in this process."""
    return outcome_of(run_seed(seed, options))


def outcomes(seeds: Iterable[int], jobs: int, options: Options) -> Iterator[Outcome]:
    """Run seeds in `jobs` processes."""
    if jobs == 1:
        yield from (run_one(seed, options) for seed in seeds)
        return
    left = iter(seeds)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        # Seeds may be without end: only a few are handed out ahead.
        running = {pool.submit(run_one, seed, options) for seed in islice(left, AHEAD * jobs)}
        try:
            while running:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                running |= {pool.submit(run_one, seed, options) for seed in islice(left, len(done))}
                yield from (one.result() for one in done)
        finally:
            pool.shutdown(cancel_futures=True)


def run_many(seeds: Iterable[int], jobs: int, minutes: float | None, options: Options) -> int:
    """Run seeds until they or the time is up; how many failed."""
    started = told = monotonic()
    failed: list[Outcome] = []
    count, cpu_s, virtual_s, messages, records, faults = 0, 0.0, 0.0, 0, 0, 0
    for one in outcomes(seeds, jobs, options):
        count += 1
        cpu_s += one.cpu_s
        virtual_s += one.virtual_s
        messages += one.messages
        records += one.records
        faults += one.faults
        if one.text:
            failed.append(one)
            print(f"seed {one.seed}: {one.text.strip().splitlines()[-1]}", flush=True)
        if monotonic() - told > PROGRESS_S:
            told = monotonic()
            print(
                f"{count} seeds, {len(failed)} failed, {cpu_s / count:.2f} s CPU each", flush=True
            )
        if minutes is not None and monotonic() - started > minutes * 60:
            break
    print(
        f"{count} seeds: {len(failed)} failed; {virtual_s / 3600:.1f} virtual hours, {messages:,}"
        f" messages, {faults:,} faults, {records:,} records acknowledged; {cpu_s:.0f} s CPU,"
        f" {cpu_s / max(count, 1):.2f} s a seed"
    )
    for one in failed[:FAILURES_SHOWN]:
        print(f"  scripts/simulate --seed {one.seed} --timeline")
    return len(failed)


def run_with_timeline(seed: int, options: Options, planted: str | None) -> int:
    """Run one seed and tell what happened."""
    bug = PLANTED[planted] if planted is not None else None
    result = run_seed(seed, options, bug)
    about = result.violation.about if result.violation is not None else ""
    if options.detail:
        for line in result.chronicle.timeline(about):
            print(line)
    print(
        f"seed {seed} ({result.shape}): {result.virtual_s:.1f} virtual s, {result.cpu_s:.2f} s CPU,"
        f" {result.messages} messages, {result.records} records acknowledged,"
        f" faults {result.faults}, trace {result.digest:08x}"
    )
    if result.failed:
        print(f"FAILED: {result.violation or result.error}")
    return int(result.failed)


def parse_range(text: str) -> range:
    """`A..B`, both ends included."""
    first, dots, last = text.partition("..")
    if not dots:
        return range(int(first), int(first) + 1)
    return range(int(first), int(last) + 1)


def main() -> int:
    # By default SIGTERM would end only this process, and leave the ones that run the seeds behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seeds", type=parse_range, metavar="A..B", help="run these seeds")
    parser.add_argument("--seed", type=int, metavar="N", help="run one seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, help="stop after so long")
    parser.add_argument(
        "--timeline",
        action="store_true",
        help="with --seed: print what happened, message by message",
    )
    parser.add_argument(
        "--everything",
        action="store_true",
        help="every workload and kind of fault in each seed, and not the part that it draws",
    )
    parser.add_argument(
        "--always",
        action="append",
        default=[],
        choices=[name for name in swarm.PARTS if name not in swarm.NEEDS],
        help="a workload or setting that is on in each seed, beside what it draws",
    )
    parser.add_argument(
        "--planted",
        choices=[*PLANTED, "all"],
        help="plant a bug: with --seed run it so, else look for the first seed that finds it",
    )
    given = parser.parse_args()
    options = Options(
        detail=given.timeline, everything=given.everything, always=frozenset(given.always)
    )
    if given.seed is not None:
        return run_with_timeline(given.seed, options, given.planted)
    if given.planted is not None:
        names = list(PLANTED) if given.planted == "all" else [given.planted]
        return search(names, given.seeds or range(1, 501), given.jobs, options)
    seeds = given.seeds or (range(1, 1 << 30) if given.minutes is not None else range(1, 101))
    return int(run_many(seeds, given.jobs, given.minutes, options) > 0)


if __name__ == "__main__":
    if os.environ.get("PYTHONHASHSEED") != "0":
        os.execve(
            sys.executable,
            [sys.executable, "-m", "sim.main", *sys.argv[1:]],
            os.environ | {"PYTHONHASHSEED": "0"},
        )
    sys.exit(main())
