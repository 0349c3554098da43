"""Runs Apache Kafka's command-line tools against a broker under test, and reads what they print."""

from __future__ import annotations

from typing import NamedTuple

from clients import apache_kafka
from clients.fixtures import Kafka

PACKAGE = "org.apache.kafka.tools."
GROUPS = "GroupsCommand"
SHARE_GROUPS = "consumer.group.ShareGroupCommand"
TRANSACTIONS = "TransactionsCommand"
CONSOLE_SHARE_CONSUMER = "consumer.ConsoleShareConsumer"
VERIFIABLE_PRODUCER = "VerifiableProducer"
VERIFIABLE_SHARE_CONSUMER = "VerifiableShareConsumer"


class Ended(NamedTuple):
    """How a tool ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[list[str]]:
        """The words of each line that is not empty."""
        return [line.split() for line in self.out.splitlines() if line.strip()]

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a table, without its head, in order."""
        return sorted(self.lines[1:])


def run(kafka: Kafka, tool: str, *args: str) -> Ended:
    """Runs a tool of Apache's to its end; `tool` is the name of its class within PACKAGE."""
    ran = apache_kafka.run_tool(PACKAGE + tool, "--bootstrap-server", kafka.bootstrap, *args)
    return Ended(ran.returncode, ran.stdout, ran.stderr)
