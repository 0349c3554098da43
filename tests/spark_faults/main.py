"""Kills processes that take part in streams of Spark, and then checks that each input record is in
the output exactly once.

    scripts/spark-faults --kills 200
    scripts/spark-faults --kills 50 --first-batch  # from `latest`, the driver killed inside batch 0
    scripts/spark-faults --standstill              # eight days between a batch and its repetition
    scripts/spark-faults --kills 20 --blind        # no check for the marker: must find duplicates
    scripts/spark-faults --kills 20 --connector    # Spark's own connector: must find duplicates
    scripts/spark-faults --kills 20 --local        # executors are threads of the driver
    scripts/spark-faults --kills 200 --toy         # a driver without Spark, back within a second
    scripts/spark-faults --kills 60 --publish      # executors publish the batches, by write_batch

A run has three brokers of pk, an input that always grows, and several queries in one driver: one
passes records through, one repartitions them with rand(), and one joins them with adaptive
execution; speculation is on. SIGKILL ends the driver with all its processes, executors, the leader
of an output partition, and the coordinator of a query's transactions. It also ends single Python
workers and, at random points in the sink (spark_faults.faulty), the process that commits, during
and after its commit; --kills does not count these. Tasks raise errors before and after they write.
A killed driver starts again with other executors and cores. With --publish, the driver dies between
sealing, list, publication and markers, and tasks fail between a file's records and its marker;
--blind then skips the check for a file's marker.

The judge is librdkafka with isolation.level=read_committed (spark_faults.judge). With --blind and
--connector, the run ends at the first record that comes twice, and fails if there is none.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from spark_faults.large import POINTS
from spark_faults.run import CONNECTOR, TOY, Plan, Run
from spark_faults.standstill import stand_still

KINDS = ("driver", "worker", "leader", "leader", "coordinator", "coordinator")
EXECUTOR = ("executor",) * 4


def as_toy(plan: Plan) -> Plan:
    """The same plan with a driver that starts quickly."""
    kinds = tuple(kind for kind in plan.kinds if kind not in ("worker", "executor"))
    chances = dict.fromkeys(plan.chances, 0.05)
    return replace(
        plan, kinds=kinds, driver=TOY, pause_s=1, chances=chances, executors=False, rate=200
    )


def as_blind(plan: Plan) -> Plan:
    """The same plan without checks for the marker, and with batches repeated often."""
    often = "published" if plan.publish else "after_commit"
    return replace(plan, until_twice=True, chances=plan.chances | {often: 0.2, "blind": 1.0})


def as_publishing(plan: Plan) -> Plan:
    """The same plan with executors that publish the batches, and with the faults of that way."""
    chance = max(plan.chances.values())
    return replace(plan, publish=True, chances=dict.fromkeys(POINTS, chance))


def as_connector(plan: Plan) -> Plan:
    """The same plan with Spark's own connector, whose executors are threads of the driver."""
    kinds = ("driver", "leader")
    return replace(
        plan,
        driver=CONNECTOR,
        kinds=kinds,
        executors=False,
        until_twice=True,
        chances={"after": 0.1},
    )


def as_first_batch(plan: Plan) -> Plan:
    """The same plan with queries that start at `latest`, and a driver that is killed inside their
    first batch."""
    return replace(
        plan, kinds=("driver",), start="latest", chances={}, executors=False, first_batch=True
    )


def parser_of_options() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200, help="how many in all")
    parser.add_argument("--minutes", type=float, default=90, help="no fault comes later")
    parser.add_argument("--queries", type=int, default=3)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--first-batch", action="store_true", help="kill inside batch 0")
    kind.add_argument("--standstill", action="store_true", help="move the brokers' clock by 8 days")
    kind.add_argument("--connector", action="store_true", help="Spark's own connector")
    parser.add_argument("--publish", action="store_true", help="executors publish the batches")
    parser.add_argument("--blind", action="store_true", help="do not look for the marker")
    parser.add_argument("--local", action="store_true", help="executors are not processes")
    parser.add_argument("--toy", action="store_true", help="a driver without Spark: many kills")
    parser.add_argument("--keep", type=Path, help="a new folder for logs and checkpoints")
    return parser


def main() -> int:
    parser = parser_of_options()
    given = parser.parse_args()
    if given.connector and (given.blind or given.toy or given.publish):
        parser.error("--connector is neither blind nor a toy, and executors always publish there")
    plan = Plan(
        given.kills,
        KINDS if given.local else KINDS + EXECUTOR,
        queries=given.queries,
        minutes=given.minutes,
        executors=not given.local,
    )
    if given.first_batch:
        plan = as_first_batch(plan)
    if given.toy:
        plan = as_toy(plan)
    if given.publish:
        plan = as_publishing(plan)
    if given.blind:
        plan = as_blind(plan)
    if given.connector:
        plan = as_connector(plan)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leaves no process behind
    folder = given.keep or Path(tempfile.mkdtemp(prefix="pk-spark-faults-"))
    folder.mkdir(parents=True, exist_ok=True)
    if given.standstill:
        outcome = stand_still(replace(plan, executors=False), folder)
    else:
        outcome = Run(plan, folder)()
    print(outcome)
    if not given.keep:
        shutil.rmtree(folder)
    if plan.until_twice:
        print("records came twice" if outcome.twice else "NOTHING CAME TWICE")
        return 0 if outcome.twice else 1
    return 0 if outcome.exact else 1


if __name__ == "__main__":
    sys.exit(main())
