"""A standstill of eight days between a batch's publication and its repetition.

Brokers forget a transactional id that nobody used for seven days, with the producer's id and epoch,
and the producers of partitions after one. A batch that was published before, and that Spark has not
noted, must still be published once.
"""

from __future__ import annotations

import time
from pathlib import Path

import trio

from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin
from spark_faults.judge import Outcome, logged
from spark_faults.run import Plan, Run
from spark_faults.work import PARTITIONS

DAYS = 8
DIES = {"after_commit": 1.0}
"""The process that commits dies each time, when it has published."""

DIES_BEFORE = {"published": 1.0}
"""The same where executors have published all files, and the batch has no marker."""

FORGOTTEN = {
    "pk.faults.enable": "true",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
}
WAIT_S = 600


def stand_still(plan: Plan, folder: Path) -> Outcome:
    """Publishes a batch of each query, moves the clock, and has the queries go on. `plan` has the
    driver, the number of queries and, with `blind` among its chances, skips the checks for the
    marker. Raises TimeoutError."""
    plan.config = FORGOTTEN
    blind = {"blind": plan.chances.get("blind", 0.0)}
    run = Run(plan, folder)
    with run.cluster_of_three(), run.input() as given:
        queries = run.new_folder()
        driver = None
        deadline = time.monotonic() + WAIT_S
        try:
            while driver is None or not _published(run, queries):
                if driver is None or driver.ended:
                    driver = run.driver(queries, chances=DIES_BEFORE if plan.publish else DIES)
                if time.monotonic() > deadline:
                    raise TimeoutError("no batch was published")
                time.sleep(0.1)
        finally:
            if driver is not None:
                driver.close()
        run.outcome.kills["driver"] += 1
        run.look(queries)
        given.stop()
        run.set_clocks(DAYS)
        while run.transactions(queries) or _producers(run):
            if time.monotonic() > deadline:
                raise TimeoutError("the brokers remember the producers")
            time.sleep(0.1)
        plan.chances = blind
        run.finish(None, queries)
        run.judge.read()
        run.outcome.twice = 0
        run.judge.verdict(queries, plan.queries, run.outcome)
    return run.outcome


def _published(run: Run, queries: Path) -> bool:
    """Whether each query has a batch that readers see and Spark has not noted."""
    run.judge.read()
    return all(
        logged(queries / f"query-{query}") and run.judge.sees(queries, query)
        for query in range(run.plan.queries)
    )


def _producers(run: Run) -> int:
    """How many producers the leaders of the output remember."""
    tps = [
        TopicPartition(f"out-{query}", partition)
        for query in range(run.plan.queries)
        for partition in range(PARTITIONS)
    ]

    async def ask() -> int:
        async with open_admin(run.cluster.bootstrap) as admin:
            answers = await admin.describe_producers(tps)
        return len(answers.errors) + sum(map(len, answers.ok.values()))

    return trio.run(ask)
