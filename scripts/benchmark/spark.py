"""Compares pk in Spark with Spark's own Kafka connector, for an export and for streams.

pk starts with the archive of classes that `pk spark warm-up` creates before the first round. The
connector's programs start as its documentation describes.

scripts/bench --spark --records 2000000 --rounds 5
scripts/bench --spark --quick                     # once, with fewer records
scripts/bench --spark --only streams
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys

from clients.apache_kafka import ApacheKafka, available
from clients.pk_broker import pk_command, pk_environment
from clients.spark_connector import connector
from confluent_kafka.admin import AdminClient
from rich.console import Console

from benchmark import report, spark_export, spark_streams
from benchmark.spark_connector import TIMEOUT_S, fill

PARTS = {"export": spark_export.measure, "streams": spark_streams.measure}
RECORDS = {"export": 2_000_000, "streams": 1_000_000}
QUICK = {"export": 500_000, "streams": 400_000}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, help="of each part (default: by part)")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--quick", action="store_true", help="one round, fewer records")
    parser.add_argument("--only", choices=list(PARTS), help="one part")
    parser.add_argument("--bootstrap", help="a Kafka to read from (default: starts Apache Kafka)")
    options = parser.parse_args()
    reason = available()
    if reason is not None:
        print(f"skipped: {reason}", file=sys.stderr)
        return 0
    results = report.Results()
    rounds = 1 if options.quick else options.rounds
    with contextlib.ExitStack() as stack:
        bootstrap = options.bootstrap
        if bootstrap is None:
            bootstrap = stack.enter_context(ApacheKafka()).bootstrap
        connector()
        subprocess.run(pk_command("spark", "warm-up"), env=pk_environment(), check=True)
        for name in [options.only] if options.only else PARTS:
            records = options.records or (QUICK if options.quick else RECORDS)[name]
            topic = f"spark-{name}-{os.getpid()}"
            fill(bootstrap, topic, records, options.partitions)
            try:
                PARTS[name](bootstrap, topic, records, options.cores, rounds, results)
            finally:
                admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
                admin.delete_topics([topic])[topic].result(TIMEOUT_S)
    report.show(results, Console(width=None if sys.stdout.isatty() else 160))
    return 0


if __name__ == "__main__":
    sys.exit(main())
