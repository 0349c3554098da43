"""Runs other people's clients and frameworks on pk, and writes the results to
docs/compatibility.md.

`scripts/compatibility` runs all and writes the page; `--only CLIENT` (repeatable) runs some and
keeps the other rows of the page; `--broker apache` runs on Apache Kafka, for comparison, and writes
nothing. What a client fails on pk is run once more on Apache Kafka: the page says what that
answered. A client whose tools are missing is named in the page with the reason. Ends with 1 if a
client fails on pk what it does on Apache Kafka.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from clients import apache_kafka
from clients.fixtures import SETTINGS, Kafka
from clients.pk_broker import PkBroker
from compatibility import page
from compatibility.clients import CLIENTS
from compatibility.frameworks import FRAMEWORKS, run_framework
from compatibility.run import Row, run_client
from compatibility.scenarios import SCENARIOS


def builds() -> Path:
    """The folder that holds the clients' built programs for the next run."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "pk-compatibility"


@contextmanager
def pk() -> Iterator[Kafka]:
    """A broker of pk."""
    with PkBroker(config=SETTINGS) as broker:
        assert broker.directory is not None
        yield Kafka("pk", broker.bootstrap, broker.directory)


@contextmanager
def apache() -> Iterator[Kafka]:
    """A broker of Apache Kafka."""
    with apache_kafka.ApacheKafka(properties=SETTINGS) as peer:
        yield Kafka("apache", peer.bootstrap, peer.log_dir(1))


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def compare(rows: Sequence[Row]) -> None:
    """Run on Apache Kafka what failed on pk, and add to each reason what came of it there."""
    failed = {
        row["client"]: [name for name, answer in row["answers"].items() if _failed(answer)]
        for row in rows
    }
    if not any(failed.values()) or apache_kafka.available() is not None:
        return
    with apache() as kafka:
        for row in rows:
            client = next(each for each in CLIENTS if each.name == row["client"])
            asked = [each for each in SCENARIOS if each.name in failed[client.name]]
            if not asked:
                continue
            there = run_client(kafka, client, builds(), tell, asked)
            for name, answer in there["answers"].items():
                row["answers"][name]["apache"] = answer["outcome"]


def _failed(answer: page.Answer) -> bool:
    return answer["outcome"] == "failed"


NAMES: Final = [each.name for each in (*CLIENTS, *FRAMEWORKS)]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="scripts/compatibility", description=__doc__)
    parser.add_argument("--only", action="append", choices=NAMES, metavar="CLIENT", default=[])
    parser.add_argument("--broker", choices=("pk", "apache"), default="pk")
    parser.add_argument("--list", action="store_true", help="only list the names of --only")
    options = parser.parse_args()
    if options.list:
        print("\n".join(NAMES))
        return 0
    wanted = options.only or NAMES
    with ExitStack() as stack:
        asked = [client for client in CLIENTS if client.name in wanted]
        rows = list[Row]()
        if asked:
            kafka = stack.enter_context(pk() if options.broker == "pk" else apache())
            rows = [run_client(kafka, client, builds(), tell) for client in asked]
    if options.broker == "apache":
        return 0
    compare(rows)
    frameworks = [run_framework(each, tell) for each in FRAMEWORKS if each.name in wanted]
    results = page.load() if options.only and page.RESULTS.exists() else page.nothing()
    page.store(page.merged(results, rows, frameworks))
    wrong = [
        f"{row['client']}: {name}"
        for row in rows
        for name, answer in row["answers"].items()
        if _failed(answer) and answer.get("apache") != "failed"
    ]
    wrong += [each["name"] for each in frameworks if each["outcome"] == "failed"]
    for each in wrong:
        tell(f"fails on pk: {each}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
