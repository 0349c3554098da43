"""Measures how long commands take: pk's, compared with a bare `python -c pass`, and listing topics
with pk, Apache's tool and kcat.

Each figure is the median of several runs. Each run takes turns with a bare interpreter, so that
other load on the machine affects both.
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence

from clients import apache_kafka
from clients.apache_kafka import java_command
from clients.pk_broker import pk_command, pk_environment

from benchmark.report import Results
from benchmark.systems import TOOL_JVM, System

RUNS = 11
BARE = [sys.executable, "-c", "pass"]
BUDGETS = (
    ("pk --help", ("--help",), 150),
    ("completion of a topic", ("__complete", "topics", "describe", ""), 80),
    ("pk topics list", ("topics", "list"), 300),
)
"""(name, words of the command, the milliseconds that it may take more than a bare interpreter)."""


def took_ms(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return how long a command takes from its start to its end. Raises CalledProcessError."""
    start = time.perf_counter()
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1000


def over_bare_ms(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Return how much longer a command takes than a bare interpreter: the median of pairs."""
    took_ms(command, env)  # its files are in the page cache then
    return statistics.median(took_ms(command, env) - took_ms(BARE, env) for _ in range(RUNS))


def measure(system: System, results: Results) -> None:
    """Measure all commands with the broker of one system."""
    env = pk_environment() | {"PK_BOOTSTRAP_SERVER": system.bootstrap}
    for name, words, limit in BUDGETS:
        row = results.row(f"{name}: over `python -c pass`", "ms", "pk", higher=False, limit=limit)
        row.add(system.name, over_bare_ms(pk_command(*words), env))
    tools = {"pk topics list": (pk_command("topics", "list"), env)}
    if shutil.which("kcat"):
        tools["kcat -L"] = (["kcat", "-L", "-b", system.bootstrap], env)
    if apache_kafka.available() is None:
        lists = ["--bootstrap-server", system.bootstrap, "--list"]
        tools["kafka-topics --list"] = (
            java_command("org.apache.kafka.tools.TopicCommand", *lists, jvm=TOOL_JVM),
            env,
        )
    for name, (command, its_env) in tools.items():
        row = results.row(f"list topics: {name}", "ms", name.split()[0], higher=False)
        row.add(system.name, statistics.median(took_ms(command, its_env) for _ in range(3)))
