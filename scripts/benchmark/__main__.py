"""Measures pk and Apache Kafka on the same machine, and prints a table of ratios.

On a machine that does other work as well, only ratios within one run are meaningful.

Each broker has an empty directory in the same file system. They take turns: in every round, each
measurement is made on one and then on the other, in an order that alternates between rounds. A
figure is the median of the rounds. A broker is paused (SIGSTOP) while another is measured, since an
idle JVM sometimes uses the cores for milliseconds. All brokers are warmed up first (with 2 GB,
unless --quick). They have the same clients with the same settings. CPU is user plus system time of
the broker's whole process tree. On two cores the client uses one of them, so throughput depends as
much on the client as on the broker.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from clients import apache_kafka
from rich.console import Console

from benchmark import console as console_tools
from benchmark import report, startup, work
from benchmark.systems import Apache, Pk, System, awake, pause, resume, running

DESCRIPTION = "Measures pk and Apache Kafka side by side and prints a table of ratios."
PARTS = ("start", "produce", "requests", "latency", "idle", "java", "cli", "console", "hostile")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=DESCRIPTION,
        epilog="docs/benchmarks.md lists the other measurements, such as --cluster and --scale.",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, three rounds")
    parser.add_argument("--rounds", type=int, help="rounds a measurement (default 5; --quick 3)")
    parser.add_argument("--only", action="append", choices=PARTS, help="measure this part only")
    parser.add_argument("--without-apache", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--without-pk", action="store_true", help="leave pk out")
    parser.add_argument("--json", type=Path, default=Path("bench-results.json"), metavar="FILE")
    parser.add_argument("--dir", type=Path, help="the directory for the data (default: temporary)")
    options = parser.parse_args()
    if not Path("/proc/self/stat").exists():
        print("scripts/bench reads CPU and memory from /proc, so it needs Linux.", file=sys.stderr)
        return 1
    # If piped, the table is as wide as it needs to be.
    console = Console(width=None if sys.stdout.isatty() else 200)
    log = Console(stderr=True)
    names = [] if options.without_pk else ["pk"]
    if not options.without_apache:
        reason = apache_kafka.available()
        if reason is None:
            apache_kafka.jars()
            names.append("apache")
        else:
            log.print(f"Apache Kafka is skipped: {reason}.")
    size = work.QUICK if options.quick else work.FULL
    rounds = options.rounds or size.rounds
    parts = options.only or list(PARTS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the brokers end too
    results = report.Results()
    with tempfile.TemporaryDirectory(prefix="pk-bench-", dir=options.dir) as folder:
        if "start" in parts:
            _measure_starts(names, rounds, results, Path(folder), log)
        if set(parts) != {"start"}:
            _measure_work(names, rounds, parts, size, results, Path(folder), log)
    report.show(results, console)
    settings = {"size": dataclasses.asdict(size), "rounds": rounds, "parts": parts}
    report.write(results, settings, options.json)
    log.print(f"Written to {options.json}.")
    return 0


def make(name: str, directory: Path, properties: Mapping[str, str] | None = None) -> System:
    """Return a system with a directory of its own."""
    directory.mkdir(parents=True)
    if name == "pk":
        return Pk(directory, apache_kafka.free_ports(1)[0], properties)
    return Apache(directory, properties)


def in_turn(names: list[str], number: int) -> list[str]:
    """Return the order of the systems in a round. It begins with another system in each round."""
    return names if number % 2 == 0 else names[::-1]


def _measure_starts(
    names: list[str], rounds: int, results: report.Results, folder: Path, log: Console
) -> None:
    for number in range(rounds):
        for name in in_turn(names, number):
            log.print(f"round {number + 1}: start of {name}")
            system = make(name, folder / f"start-{name}-{number}")
            try:
                work.first_acknowledged(system, results)
                work.memory(system, results, "at start")
            finally:
                system.close()


def _command_line(system: System, size: work.Size, results: report.Results, lines: Path) -> None:
    """Measure how long the system's commands take to start, and its console tools."""
    startup.measure(system, results)
    work.command_line(system, size, results, lines)


def _measure_work(
    names: list[str],
    rounds: int,
    parts: Sequence[str],
    size: work.Size,
    results: report.Results,
    folder: Path,
    log: Console,
) -> None:
    lines = folder / "lines.txt"
    with lines.open("w") as file:
        file.writelines(f"line {n:07d} {'x' * 86}\n" for n in range(size.console_lines))
    measurements: dict[str, Callable[[System], None]] = {
        "produce": lambda system: work.produce(system, size, results),
        "requests": lambda system: work.one_record_requests(system, size, results),
        "latency": lambda system: work.latencies(system, size, results),
        "idle": lambda system: work.idle_consumer(system, size, results),
        "java": lambda system: work.java_tools(system, size, results),
        "cli": lambda system: _command_line(system, size, results, lines),
        "console": lambda system: console_tools.measure(system, size, results, folder),
    }
    if apache_kafka.available() is not None:
        del measurements["java"]
    with contextlib.ExitStack() as stack:
        systems = {}
        for name in names:
            system = make(name, folder / name)
            systems[name] = stack.enter_context(running(system, folder / name))
            log.print(f"warming {name}")
            work.warm(system, size)
            pause(system)
            stack.callback(resume, system)  # a paused system cannot stop cleanly
        for number in range(rounds):
            for part in (each for each in measurements if each in parts):
                for name in in_turn(names, number):
                    log.print(f"round {number + 1} of {rounds}: {part} on {name}")
                    with awake(systems[name]) as system:
                        measurements[part](system)
        for name in names:
            work.memory(systems[name], results, "after load")
        if "hostile" in parts and "pk" in systems:
            for number in range(rounds):
                log.print(f"round {number + 1} of {rounds}: hostile connections to pk")
                with awake(systems["pk"]) as system:
                    work.hostile(system, size, results)


if __name__ == "__main__":
    sys.exit(main())
