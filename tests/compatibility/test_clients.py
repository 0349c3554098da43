"""Other people's clients pass every scenario on pk that they know; `scripts/compatibility` makes
docs/compatibility.md of the same.

Those that must be built are slow: `scripts/test -m slow tests/compatibility`.
"""

from __future__ import annotations

import pytest
from clients.fixtures import Kafka
from compatibility.clients import CLIENTS, Client, MissingError
from compatibility.main import builds
from compatibility.run import run_client

INSTALLED = {"confluent-kafka", "kafka-python", "aiokafka", "kcat", "java"}
"""Those that need no build."""

NOT_TO_BE_HAD = {"kcl", "kaf"}


def had() -> list[object]:
    return [
        pytest.param(
            client,
            id=client.name,
            marks=pytest.mark.peer if client.name in INSTALLED else pytest.mark.slow,
        )
        for client in CLIENTS
        if client.name not in NOT_TO_BE_HAD
    ]


@pytest.mark.parametrize("client", had())
def test_what_the_client_knows_passes(pk_kafka: Kafka, client: Client) -> None:
    try:
        client.command(builds())
    except MissingError as error:
        pytest.skip(str(error))
    row = run_client(pk_kafka, client, builds(), lambda _: None)
    failed = {
        name: answer["why"]
        for name, answer in row["answers"].items()
        if answer["outcome"] == "failed"
    }
    assert row["answers"] and not failed, failed
