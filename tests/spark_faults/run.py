"""A run: a cluster, an input that grows, a driver with queries, faults one after another, and the
judge's verdict (spark_faults.main says which runs there are)."""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio
from clients.pk_broker import pk_environment
from clients.pk_cluster import PkCluster
from clients.spark_connector import connector
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from pk.core.wire.messages.pk_faults import PkFaultsRequest
from pk.net.client.admin import open_admin
from pk.net.client.results import TransactionDescription
from pk.spark.sink.sealed_files import LANES
from spark_faults.driver import Driver
from spark_faults.judge import Judge, Outcome, logged
from spark_faults.work import PARTITIONS, Work

PROCESSES = ("driver", "executor", "leader", "coordinator")
"""The processes whose kills a run counts, if it kills any of them."""

SPARK = "spark_faults.driver_main"
TOY = "spark_faults.toy_driver"
CONNECTOR = "spark_faults.connector_driver"

START_S = 600
STARTS = 5
END_S = 1_200
POLL_S = 60.0
DECIDED_S = 300
BATCH_S = 120
CHANCES = {"before": 0.02, "after": 0.02, "in_commit": 0.02, "after_commit": 0.02}
CONFIG = {
    "broker.session.timeout.ms": "3000",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "5",
    "min.insync.replicas": "2",
}
MASTERS = ((1, 2), (1, 3), (2, 1), (2, 2))
"""Executors and cores of each, one of which a driver gets."""

EXECUTORS = {
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
    "spark.task.maxFailures": "8",
    "spark.deploy.maxExecutorRetries": "-1",
}
DEATHS = ("in_commit", "sealed", "listed", "in_publish", "published", "after_commit")
"""How a driver dies by its own chance."""

UNDECIDED = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


@dataclass
class Plan:
    """The plan of a run."""

    kills: int
    kinds: tuple[str, ...]
    queries: int = 3
    start: str = "earliest"
    rate: int = 100
    """Input records a second."""

    minutes: float = 60
    chances: dict[str, float] = field(default_factory=lambda: dict(CHANCES))
    driver: str = SPARK
    executors: bool = False
    """Whether executors are processes of their own."""

    pause_s: float = 2
    """The longest pause between two faults, after a batch."""

    first_batch: bool = False
    """Each driver is killed inside its queries' batch 0, and the next one ends them."""

    until_twice: bool = False
    """The run ends as soon as a record came twice."""

    config: Mapping[str, str] = field(default_factory=dict)
    """The brokers' configs, beyond CONFIG."""

    publish: bool = False
    """Whether executors publish the batches, which then become visible bit by bit."""


class Input(threading.Thread):
    """Produces records until it is stopped. It does not count them, because the log shows which
    were written."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        super().__init__(name="input", daemon=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._topic = topic
        self._pause_s = 10 / rate
        self.over = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.over.wait(self._pause_s):
            for _ in range(10):
                self._producer.produce(self._topic, b"%d" % number, b"k%d" % (number % 97))
                number += 1
            self._producer.poll(0)

    def stop(self) -> None:
        """Returns when all are acknowledged."""
        self.over.set()
        self.join()
        left = self._producer.flush(END_S)
        assert left == 0, f"{left} input records were not acknowledged"


class Run:
    """One run of a plan. `folder` gets the checkpoints and the drivers' log."""

    def __init__(self, plan: Plan, folder: Path) -> None:
        self.plan = plan
        self.folder = folder
        self.outcome = Outcome()
        self._rounds = 0

    def __call__(self) -> Outcome:
        with self.cluster_of_three():
            if self.plan.first_batch:
                self._first_batches()
            else:
                self._strikes()
        return self.outcome

    @contextmanager
    def cluster_of_three(self) -> Iterator[None]:
        """The brokers, the topics and the judge."""
        topics = [f"out-{query}" for query in range(self.plan.queries)]
        with PkCluster(3, config=CONFIG | dict(self.plan.config)) as cluster:
            self.cluster = cluster
            self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
            for topic in ("in", *topics):
                new: Any = NewTopic(topic, PARTITIONS, 3, config={"retention.ms": "-1"})
                self.admin.create_topics([new])[topic].result(POLL_S)
            self.judge = Judge(cluster.bootstrap, "in", topics)
            try:
                yield
            finally:
                self.judge.close()

    @contextmanager
    def input(self) -> Iterator[Input]:
        """Records that come for as long as the block, or until it stops them."""
        given = Input(self.cluster.bootstrap, "in", self.plan.rate)
        given.start()
        try:
            yield given
        finally:
            given.over.set()

    # drivers

    def new_folder(self) -> Path:
        """A folder for the checkpoints of new queries."""
        folder = self.folder / f"round{self._rounds}"
        folder.mkdir()
        self._rounds += 1
        return folder

    def driver(
        self,
        folder: Path,
        *,
        former: Path | None = None,
        chances: Mapping[str, float] | None = None,
        word: str = "running",
    ) -> Driver:
        """A driver whose queries run, or that says another word of progress. Raises
        TimeoutError."""
        for _ in range(STARTS):
            command, environ = self._command(self._work(folder, former, chances))
            driver = Driver(command, environ, self.folder / "log")
            try:
                if driver.wait_for(word, START_S):
                    return driver
            except BaseException:
                driver.close()
                raise
            driver.close()
            self.outcome.kills["driver that did not start"] += 1
        raise TimeoutError(f"no driver came up: {self.folder / 'log'}")

    def finish(self, driver: Driver | None, folder: Path) -> None:
        """Has the queries of a folder run to the end of the input, by this driver or a new one.
        Raises TimeoutError."""
        self.cluster.wait_until_ready()
        (folder / "stop").touch()
        for _ in range(STARTS):
            if driver is None or driver.ended:
                driver = self.driver(folder)
            try:
                if driver.wait_for("done", END_S) and driver.ends(END_S):
                    return
            finally:
                driver.close()
        raise TimeoutError(f"the queries did not end: {self.folder / 'log'}")

    def _command(self, work: Work) -> tuple[Sequence[str], Mapping[str, str]]:
        if self.plan.driver == CONNECTOR:
            python, jars = connector()
            alone = str(Path(__file__).parents[1])
            environ = os.environ | {"PYTHONPATH": alone, "PYSPARK_PYTHON": str(python)}
            return [str(python), "-m", CONNECTOR, work.json(), str(jars)], environ
        path = os.pathsep.join(filter(None, sys.path))
        command = [sys.executable, "-m", self.plan.driver, work.json()]
        return command, pk_environment() | {"PYTHONPATH": path}

    def _work(self, folder: Path, former: Path | None, chances: Mapping[str, float] | None) -> Work:
        plan = self.plan
        conf = {}
        if plan.executors:
            executors, cores = random.choice(MASTERS)
            conf = EXECUTORS | {"spark.master": f"local-cluster[{executors},{cores},600]"}
        return Work(
            bootstrap=self.cluster.bootstrap,
            source="in",
            target="out",
            folder=str(folder),
            queries=plan.queries,
            cores=random.randint(1, 3),
            start=plan.start,
            chances=dict(plan.chances if chances is None else chances),
            conf=conf,
            publish=plan.publish,
            former="" if former is None else str(former),
        )

    # faults of queries that run

    def _strikes(self) -> None:
        plan, folder = self.plan, self.new_folder()
        deadline = time.monotonic() + plan.minutes * 60
        driver: Driver | None = None
        try:
            with self.input() as given:
                while self._kills() < plan.kills and time.monotonic() < deadline:
                    if driver is None:
                        driver = self.driver(folder)
                    self._wait_for_batch(driver, folder)
                    time.sleep(random.uniform(0, plan.pause_s))
                    if driver.ended or self._strike(driver, folder):
                        driver.close()
                        driver = None
                        self.look(folder)
                    self._count_notes()
                    print(f"{time.strftime('%H:%M:%S')} {self.outcome}", flush=True)
                    if plan.until_twice and self.outcome.twice:
                        return
                given.stop()
                self.finish(driver, folder)
                self._count_notes()
        finally:
            if driver is not None:
                driver.close()
        self.judge.read()
        self.outcome.twice = 0  # duplicates found during the run are found again
        self.judge.verdict(folder, plan.queries, self.outcome)

    def _kills(self) -> int:
        kills = self.outcome.kills
        if any(kind in PROCESSES for kind in self.plan.kinds):
            return sum(kills[kind] for kind in PROCESSES)
        return sum(kills[kind] for kind in DEATHS)

    def _wait_for_batch(self, driver: Driver, folder: Path) -> None:
        """Waits until a query has done one more batch: where nothing is done, a fault hits
        nothing."""
        before, deadline = _batches(folder), time.monotonic() + BATCH_S
        while not driver.ended and _batches(folder) == before and time.monotonic() < deadline:
            time.sleep(0.05)

    def _count_notes(self) -> None:
        """The faults that the sinks had by their own chance."""
        notes = [path.read_text().split() for path in self.folder.glob("round*/notes")]
        for kind, count in Counter(word for words in notes for word in words).items():
            self.outcome.kills[kind] = count

    def _strike(self, driver: Driver, folder: Path) -> bool:
        """One fault; whether the driver is dead now."""
        kind = random.choice(self.plan.kinds) if self.plan.kinds else ""
        if not kind:
            return False  # all faults come by chance
        if kind == "driver":
            driver.kill()
        elif kind == "worker":
            if not driver.kill_one("-m pyspark."):
                return False
        elif kind == "executor":
            if not driver.kill_one("CoarseGrainedExecutorBackend"):
                return False
        else:
            self.cluster.wait_until_ready()
            node = self._leader() if kind == "leader" else self._coordinator(folder)
            if node not in self.cluster.brokers:
                return False
            self.cluster.kill(node)
            time.sleep(random.uniform(0, 3))
            self.cluster.start(node, wait=False)
        self.outcome.kills[kind] += 1
        return kind == "driver"

    def _leader(self) -> int:
        topic = f"out-{random.randrange(self.plan.queries)}"
        found = self.admin.list_topics(topic, timeout=POLL_S).topics[topic]
        return found.partitions[random.randrange(PARTITIONS)].leader

    def _coordinator(self, folder: Path) -> int:
        described = list(self.transactions(folder).values())
        return random.choice(described).coordinator_id if described else -1

    def look(self, folder: Path) -> None:
        """Counts duplicates and partial batches when no driver runs and nothing is undecided."""
        self.cluster.wait_until_ready()
        deadline = time.monotonic() + DECIDED_S
        while any(each.state in UNDECIDED for each in self.transactions(folder).values()):
            if time.monotonic() > deadline:
                raise TimeoutError("a transaction is not decided")
            time.sleep(0.1)
        self.judge.read()
        self.outcome.twice = self.judge.twice
        if not self.plan.publish:
            self.outcome.split += self.judge.split(folder, self.plan.queries)

    def transactions(self, folder: Path) -> dict[str, TransactionDescription]:
        """The transactional ids of a folder's queries that brokers know."""
        names: list[str] = []
        for path in folder.glob("query-*/metadata"):
            name = f"pk-spark-{json.loads(path.read_text())['id']}"
            lanes = range(LANES) if self.plan.publish else ()
            names += [name, *(f"{name}-lane-{lane}" for lane in lanes)]

        async def ask() -> dict[str, TransactionDescription]:
            async with open_admin(self.cluster.bootstrap) as admin:
                answers = await admin.describe_transactions(names)
            return answers.ok

        return trio.run(ask) if names else {}

    def set_clocks(self, days: float) -> None:
        """Sets the brokers' time of day ahead of the machine's."""

        async def ask() -> None:
            async with open_admin(self.cluster.bootstrap) as admin:
                shift_ms = round(days * 24 * 3600 * 1000)
                await admin.ask_faults(PkFaultsRequest(action="set-clock", shift_ms=shift_ms))

        trio.run(ask)

    # queries that are killed in their first batch

    def _first_batches(self) -> None:
        plan, outcome = self.plan, self.outcome
        deadline = time.monotonic() + plan.minutes * 60
        window_s: float | None = None  # how long batch 0 takes, which the first driver shows
        former: Path | None = None
        driver: Driver | None = None
        try:
            with self.input() as given:
                while outcome.kills["driver"] < plan.kills and time.monotonic() < deadline:
                    folder = self.new_folder()
                    driver = self.driver(folder, former=former, word="starting")
                    moment_s = BATCH_S if window_s is None else random.uniform(0, window_s)
                    late_s = self._wait_inside(folder, moment_s)
                    driver.close()
                    open_ = [q for q in range(plan.queries) if not _commits(folder, q)]
                    if open_:
                        outcome.kills["driver"] += 1
                        for query in open_:
                            known = bool(logged(folder / f"query-{query}"))
                            word = "planned" if known else "not planned"
                            outcome.kills[f"query in batch 0, {word}"] += 1
                    else:
                        outcome.kills["driver after batch 0"] += 1
                    window_s = (window_s or BATCH_S) * 1.1 if late_s is None else late_s
                    if former is not None:
                        self._judge_round(former)
                    former = folder
                given.stop()
                if former is not None:
                    self.finish(None, former)
                    self._judge_round(former)
        finally:
            if driver is not None:
                driver.close()

    def _wait_inside(self, folder: Path, moment_s: float) -> float | None:
        """Waits for `moment_s`, or until all queries are done with batch 0: how long that took."""
        began = time.monotonic()
        while (gone := time.monotonic() - began) < moment_s:
            if all(_commits(folder, query) for query in range(self.plan.queries)):
                return gone
            time.sleep(0.005)
        return None

    def _judge_round(self, folder: Path) -> None:
        self.judge.read()
        self.judge.verdict(folder, self.plan.queries, self.outcome)
        print(f"{time.strftime('%H:%M:%S')} {self.outcome}", flush=True)


def _batches(folder: Path) -> int:
    """How many batches the queries have done."""
    return sum(path.name.isdecimal() for path in folder.glob("query-*/commits/*"))


def _commits(folder: Path, query: int) -> int:
    """How many batches Spark has noted as done."""
    return sum(p.name.isdecimal() for p in (folder / f"query-{query}").glob("commits/*"))
