"""Brokers of an earlier run: they are tried if none of the given addresses answers, and used if
they are still in that cluster."""

import contextlib
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest
from net_client.support import ScriptedBroker, scripted_broker, trio_test

from pk.core.wire.messages.metadata import MetadataResponse, MetadataResponseBroker
from pk.net.client.admin import open_admin
from pk.net.client.broker_store import BROKER_STORE, RememberedBrokers
from pk.net.client.errors import NoBrokers
from pk.net.client.node import Node

GONE = "127.0.0.1:1"


class Kept:
    """A memory of one cluster."""

    def __init__(self, found: RememberedBrokers = RememberedBrokers()) -> None:
        self.found = found

    def brokers(self, given: Iterable[Node]) -> RememberedBrokers:
        return self.found

    def store(self, given: Iterable[Node], found: RememberedBrokers) -> None:
        self.found = found


@pytest.fixture
def kept() -> Iterator[Kept]:
    memory = Kept()
    token = BROKER_STORE.set(memory)
    yield memory
    BROKER_STORE.reset(token)


@contextlib.asynccontextmanager
async def cluster(name: str) -> AsyncIterator[ScriptedBroker]:
    brokers: list[ScriptedBroker] = []

    async def handler(request: Any, version: int) -> MetadataResponse:
        nodes = [MetadataResponseBroker(node_id=1, host="127.0.0.1", port=brokers[0].port)]
        return MetadataResponse(cluster_id=name, brokers=nodes)

    async with scripted_broker(handler) as broker:
        brokers.append(broker)
        yield broker


@trio_test
async def test_what_metadata_names_is_learned_and_tried_later(kept: Kept) -> None:
    async with cluster("a") as broker:
        async with open_admin(broker.address) as admin:
            await admin.cluster.refresh(())
            assert admin.cluster.remembered_node is None
        assert kept.found == RememberedBrokers((broker.node,), "a")
        async with open_admin(GONE) as admin:
            await admin.cluster.refresh(())
            assert admin.cluster.metadata.cluster_id == "a"
            assert admin.cluster.remembered_node == broker.node


@trio_test
async def test_a_broker_of_another_cluster_is_not_taken(kept: Kept) -> None:
    async with cluster("b") as broker:
        kept.found = RememberedBrokers((broker.node,), "a")
        async with open_admin(GONE) as admin:
            with pytest.raises(NoBrokers):
                await admin.cluster.refresh(())
        kept.found = RememberedBrokers((broker.node,))
        async with open_admin(GONE) as admin:
            await admin.cluster.refresh(())
            assert admin.cluster.remembered_node == broker.node


@trio_test
async def test_an_address_that_answers_is_enough(kept: Kept) -> None:
    async with cluster("a") as here, cluster("a") as there:
        kept.found = RememberedBrokers((there.node,), "a")
        async with open_admin(f"{GONE},{here.address}") as admin:
            await admin.cluster.refresh(())
        assert there.connections == 0


@trio_test
async def test_those_that_do_not_answer_are_named(kept: Kept) -> None:
    kept.found = RememberedBrokers((Node(-1, "127.0.0.1", 2),), "a")
    async with open_admin(GONE) as admin:
        with pytest.raises(NoBrokers) as failed:
            await admin.cluster.refresh(())
    assert [f.address for f in failed.value.failures] == [GONE, "127.0.0.1:2"]
