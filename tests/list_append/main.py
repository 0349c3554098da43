"""Transactions of real clients on real brokers, under faults, held against what transactions
promise.

Three brokers; writers and workers of librdkafka, and copiers of aiokafka, of Java and of franz-go
where java and go are. Brokers are killed, paused, cut off, restarted and their clocks stepped. At
the end everything runs again, all inputs are processed, and the history is checked (`checker.py`):
lost writes, aborted reads, torn transactions, duplicates, order, cycles. Ends with 1 if something
is found, with 2 if it makes no progress for a minute (`watch.py`).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

from clients.cluster_topics import create_replicated
from clients.pk_cluster import PkCluster
from clients.wires import Wires
from confluent_kafka import KafkaException
from faults.cluster import VOTING, voting_store
from list_append.checker import Anomaly, Verdict, check
from list_append.clients import (
    INPUTS,
    OUTPUTS,
    PARTITIONS,
    STUCK_S,
    Client,
    Reader,
    Worker,
    Writer,
    commit_the_beginning,
    committed_offsets,
    read_committed,
    read_finally,
)
from list_append.copiers import Copier, commands, topics
from list_append.faults import READY_S, Faults
from list_append.history import History
from list_append.watch import PIPE, Pulse, watched

HERE = Path(__file__).resolve().parent
SETTLE_S = 300.0
"""How long everything may take to be processed once the faults are over."""

CONFIG = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "initial.broker.registration.timeout.ms": f"{READY_S * 1000:.0f}",
    "pk.etcd.session.timeout.ms": "3000",
    "pk.zookeeper.session.timeout.ms": "2000",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "2000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.session.timeout.ms": "10000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
}
Tell = Callable[[str], None]

NOT_SETTLED = "not settled"
WRONG_COPY = "wrong copy"


class Options(NamedTuple):
    """How a run goes."""

    seconds: float
    cycles: int | None = None
    """Stop after this many faults."""

    store: str = "embedded"
    kill_all: bool = False
    planted: str | None = None
    seed: int = 1
    copiers: bool = True
    keep: Path | None = None
    """A folder for the history, the brokers' files, what the copiers complain about, and what
    librdkafka says with debug=eos,msg,broker."""


class Report(NamedTuple):
    """The result of a run."""

    verdict: Verdict
    faults: Counter[str]
    seconds: float
    copiers: tuple[str, ...]
    """One line for each of the other clients, about its work."""

    replaced: int
    """Clients that were stuck in librdkafka."""

    @property
    def kinds(self) -> Counter[str]:
        """How many anomalies there are of each kind."""
        return Counter(one.kind for one in self.verdict.anomalies)

    def lines(self) -> Iterator[str]:
        """The report, for people."""
        v = self.verdict
        total = v.committed + v.aborted + v.unknown
        yield (
            f"{total:,} transactions in {self.seconds:.0f} s: {v.committed:,} committed,"
            f" {v.aborted:,} aborted, {v.unknown:,} of unknown outcome; {v.appends:,} records read"
        )
        reported = ", ".join(f"{n} × {name}" for name, n in sorted(self.faults.items()))
        yield f"{self.faults.total()} faults: {reported or 'none'}"
        yield f"copiers: {'; '.join(self.copiers) or 'none'}"
        yield f"clients replaced: {self.replaced}"
        yield f"{v.write_cycles} write cycles, which Kafka allows"
        kinds = ", ".join(f"{n} × {kind}" for kind, n in sorted(self.kinds.items()))
        yield f"{len(v.anomalies)} anomalies: {kinds or 'none'}"
        for anomaly in v.anomalies[:20]:
            yield f"  {anomaly}"


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Variables that the processes started within see."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def run(options: Options, say: bool = True) -> Report:
    """One run: start, faults, peace, and what the history says."""

    def tell(text: str) -> None:
        if say:
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    history = History()
    copiers: list[Copier] = []
    pulse = Pulse(
        lambda: (len(history.transactions), len(history.reads), sum(c.copied for c in copiers))
    )
    with ExitStack() as stack:
        folder = options.keep
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="pk-check-"))
            folder = Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        clock = folder / "clock"
        clock.write_text("0")
        paths = [str(HERE / "in_brokers"), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
        variables = {
            "PYTHONPATH": os.pathsep.join(p for p in paths if p),
            "PK_CHECK_CLOCK": str(clock),
            "PK_CHECK_PLANTED": options.planted or "",
        }
        stack.enter_context(_environment(**variables))
        wires = Wires()
        stack.callback(wires.close)
        address = None
        if options.store in VOTING:
            address = stack.enter_context(voting_store(options.store)).address()
        starting = stack.enter_context(ExitStack())
        starting.enter_context(pulse.bounded())
        cluster = stack.enter_context(
            PkCluster(3, store=address, config=CONFIG, directory=folder / "cluster", wires=wires)
        )
        for topic in (INPUTS, OUTPUTS):
            create_replicated(cluster.bootstrap, topic, PARTITIONS)
        debug = options.keep is not None
        if debug:
            stack.enter_context(_stderr_to(folder / "librdkafka.log"))
        clients: list[Client] = [
            Writer(f"w{n}", cluster.bootstrap, history, debug=debug) for n in range(3)
        ]
        protocols = ("classic", "classic")
        for group in set(protocols):
            commit_the_beginning(group, cluster.bootstrap)
        clients += [
            Worker(
                f"x{n}", cluster.bootstrap, history, debug=debug, protocol=protocol, group=protocol
            )
            for n, protocol in enumerate(protocols)
        ]
        for name, command in (commands(folder) if options.copiers else {}).items():
            for topic in topics(name):
                create_replicated(cluster.bootstrap, topic, 1)
            copiers.append(Copier(name, command, cluster.bootstrap, folder))
            copiers[-1].start()
        reader = Reader("r", cluster.bootstrap, history)
        for thread in (*clients, reader):
            thread.start()
        starting.close()
        started = time.monotonic()
        faults = Faults(
            cluster, wires, clock, Random(options.seed), pulse, kill_all=options.kill_all
        )
        team = Team(clients, tell)
        _faults(options, faults, team, started, tell)
        faults.mend()
        tell("the faults are over")
        stack.enter_context(pulse.bounded())  # each step below has a limit
        anomalies = _settle(cluster.bootstrap, team, reader, tell)
        for copier in copiers:
            copier.end_source()
        for copier in copiers:
            if wrong := copier.finish(SETTLE_S):
                anomalies.append(Anomaly(WRONG_COPY, f"{copier.name}: {wrong}"))
        tell("reads everything")
        if not read_finally("final", cluster.bootstrap, history, SETTLE_S):
            anomalies.append(Anomaly(NOT_SETTLED, "a partition could not be read to its end"))
        if options.keep is not None:
            history.save(folder / "history.jsonl")
        verdict = check(history, INPUTS)
        verdict = verdict._replace(anomalies=anomalies + verdict.anomalies)
        return Report(
            verdict,
            faults.done,
            time.monotonic() - started,
            tuple(f"{c.name} {c.copied:,} records, {c.starts} starts" for c in copiers),
            team.replaced,
        )


class Team:
    """The clients of a run; one that is stuck is replaced."""

    def __init__(self, clients: list[Client], tell: Tell) -> None:
        self.clients = clients
        self.replaced = 0
        self._tell = tell

    @property
    def writers(self) -> list[Writer]:
        """Those that write only."""
        return [client for client in self.clients if isinstance(client, Writer)]

    @property
    def workers(self) -> list[Worker]:
        """Those that read, process and write."""
        return [client for client in self.clients if isinstance(client, Worker)]

    def look(self) -> None:
        """Replace clients that are stuck. Raises a client's unexpected error."""
        for i, client in enumerate(self.clients):
            if client.failed is not None:
                raise client.failed
            if client.stuck:
                self._tell(f"{client.name} is stuck in librdkafka, and is replaced")
                self.replaced += 1
                self.clients[i] = client.again()
                self.clients[i].start()

    def stop(self, clients: Sequence[Client]) -> None:
        """Have clients end their round, and begin no other. Does not wait for one that is stuck."""
        for client in clients:
            client.stopping.set()
        for client in clients:
            client.join(STUCK_S)
            self.replaced += client.is_alive()
        self.clients = [c for c in self.clients if c not in clients or not c.is_alive()]


def _faults(options: Options, faults: Faults, team: Team, started: float, tell: Tell) -> None:
    random = Random(options.seed + 1)
    while time.monotonic() - started < options.seconds:
        if options.cycles is not None and faults.done.total() >= options.cycles:
            return
        team.look()
        time.sleep(min(random.uniform(2.0, 8.0), options.seconds))
        if time.monotonic() - started < options.seconds:
            tell(faults.cycle())


def _settle(bootstrap: str, team: Team, reader: Reader, tell: Tell) -> list[Anomaly]:
    """Stop the writers, have everything processed, stop the workers; what did not come to an
    end."""
    found: list[Anomaly] = []
    reader.stopping.set()
    team.stop(team.writers)
    until = time.monotonic() + SETTLE_S
    progress = _Progress(bootstrap, team.workers[0].group)
    until = time.monotonic() + SETTLE_S
    while (behind := progress.behind()) and time.monotonic() < until:
        team.look()
        time.sleep(1)
    if behind:
        found.append(Anomaly(NOT_SETTLED, behind))
    team.stop(team.workers)
    reader.join(STUCK_S)
    team.look()
    for worker in team.workers:
        worker.close()
    tell("all clients are done")
    return found


class _Progress:
    """How far the workers are with the inputs, which are complete."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._bootstrap = bootstrap
        self._group = group
        self._ends: dict[int, int] = {}
        """After the last committed record of each partition, when they were last read."""

    def behind(self) -> str:
        """The inputs that the workers have not fully processed; "" if they are at the end."""
        try:
            offsets = committed_offsets(self._bootstrap, self._group)
        except KafkaException as e:
            return f"the offsets of {self._group}: {e}"
        if self._ends and (wanting := self._wanting(offsets)):
            return wanting
        # A transaction that was open when the ends were read may have ended since.
        partitions = [(INPUTS, p) for p in range(PARTITIONS)]
        found, whole = read_committed("behind", self._bootstrap, partitions, 30)
        if not whole:
            return "the inputs cannot be read to their end"
        self._ends = {p: seen[-1][0] + 1 if seen else 0 for (_, p), seen in found.items()}
        return self._wanting(offsets)

    def _wanting(self, offsets: dict[int, int]) -> str:
        for partition, end in self._ends.items():
            if offsets[partition] < end:
                return f"{self._group} is at {offsets[partition]} of {end} in {INPUTS}/{partition}"
        return ""


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    """In the block, standard error, to which librdkafka's threads write, is a file."""
    before = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


def main() -> int:
    """The command line."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    parser = argparse.ArgumentParser(prog="scripts/check-transactions", description=__doc__)
    parser.add_argument("--minutes", type=float, default=None, help="how long faults happen (2)")
    parser.add_argument("--cycles", type=int, help="stop after so many faults")
    parser.add_argument("--store", choices=["embedded", *VOTING], default="embedded")
    parser.add_argument(
        "--kill-all", action="store_true", help="the only fault is kill -9 of every node at once"
    )
    parser.add_argument(
        "--planted", metavar="BUG", help="brokers have this bug (tests/sim/planted.py)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="which faults; their moments are the machine's"
    )
    parser.add_argument(
        "--no-copiers", action="store_true", help="without aiokafka, Java and franz-go"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR",
        help="keep the history, the brokers' files and librdkafka's debug log there",
    )  # fmt: skip
    given = parser.parse_args()
    minutes = given.minutes
    if minutes is None:
        minutes = 2.0 if given.cycles is None else 24 * 60.0
    options = Options(
        minutes * 60,
        given.cycles,
        given.store,
        given.kill_all,
        given.planted,
        given.seed,
        not given.no_copiers,
        given.keep,
    )
    report = run(options)
    for line in report.lines():
        print(line)
    return int(bool(report.verdict.anomalies))


if __name__ == "__main__":
    if PIPE not in os.environ:
        sys.exit(watched([sys.executable, "-m", "list_append.main", *sys.argv[1:]]))
    _code = main()
    sys.stdout.flush()
    os._exit(_code)  # a thread that is stuck in librdkafka would be waited for
