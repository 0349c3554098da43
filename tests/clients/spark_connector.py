"""Spark's own Kafka connector, to compare pk's with.

It is version 4.0.0 on pyspark 4.0.0, fetched once into the user's cache.
"""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

from clients.apache_kafka import locked

VERSION = "4.0.0"
ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.0",
    "org.apache.commons:commons-pool2:2.12.0",
)


def connector() -> tuple[Path, Path]:
    """The interpreter with the connector's pyspark, and the folder of its jars; fetched at the
    first call ever."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    home = Path(cache) / "pk-spark-kafka" / VERSION
    python, jars, complete = home / "venv" / "bin" / "python", home / "jars", home / ".complete"
    with locked(home / ".lock"):
        if not complete.exists():
            venv.create(home / "venv", with_pip=True)
            subprocess.run(
                [python, "-m", "pip", "install", "-q", f"pyspark=={VERSION}"], check=True
            )
            for artifact in ARTIFACTS:
                goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={jars}"]
                subprocess.run(["mvn", "-q", "-B", *goal], check=True)
            complete.touch()
    return python, jars
