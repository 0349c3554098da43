"""How many connections may come in a second, and how many a listener may have."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
from nodes import caller_of, config_of, decide, running_node, trio_test

from pk.core.config import ConfigError
from pk.core.meta import client_quotas
from pk.core.quota.entity import IP, USER
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.net.connection_quotas import ConnectionQuotas
from pk.net.node import Node

HOUR = {"quota__window__num": "2", "quota__window__size__seconds": "3600"}
"""A window longer than any test: at one connection a second, 3,600 may come at once."""


async def set_quota(node: Node, kind: str, name: str | None, key: str, value: float) -> None:
    change = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name)], ops=[OpData(key=key, value=value)]
    )
    request = AlterClientQuotasRequest(entries=[change])
    await decide(node.broker, lambda image: client_quotas.alter(image, request))


@trio_test
async def test_an_address_has_its_own_quota_or_the_default() -> None:
    async with running_node(None, **HOUR) as node:
        quotas = ConnectionQuotas(node.broker)
        key = "connection_creation_rate"
        assert all(quotas.refusal_delay_s("10.0.0.1") == 0 for _ in range(8000)), (
            "there is no quota"
        )
        await set_quota(node, USER, None, "producer_byte_rate", 1)
        await set_quota(node, IP, None, key, 1)
        await set_quota(node, IP, "10.0.0.2", key, 2)
        for host, count in (("10.0.0.1", 3600), ("10.0.0.2", 7200), ("10.0.0.3", 3600)):
            assert all(quotas.refusal_delay_s(host) == 0 for _ in range(count)), host
            assert quotas.refusal_delay_s(host) > 0, host
            assert quotas.refusal_delay_s(host) > 0, (
                "who is refused is refused again, and counts once"
            )


@trio_test
async def test_the_name_of_a_host_stands_for_its_addresses() -> None:
    async with running_node(None, **HOUR) as node:
        quotas = ConnectionQuotas(node.broker)
        await set_quota(node, IP, "localhost", "connection_creation_rate", 1)
        assert quotas.refusal_delay_s("127.0.0.1") == 0
        assert quotas.unknown_hosts == ["localhost"]
        await quotas.look_up()
        assert [quotas.refusal_delay_s("127.0.0.1") for _ in range(3601)][-1] > 0


@trio_test
async def test_the_rate_of_the_broker_and_of_a_listener() -> None:
    own = {"listener.name.plaintext.max.connection.creation.rate".replace(".", "__"): "2"}
    async with running_node(None, max__connection__creation__rate="1", **HOUR) as node:
        quotas = ConnectionQuotas(node.broker)
        assert [quotas.wait_s("PLAINTEXT") > 0 for _ in range(3601)] == [False] * 3600 + [True]
    async with running_node(None, **own, **HOUR) as node:
        quotas = ConnectionQuotas(node.broker)
        assert [quotas.wait_s("PLAINTEXT") > 0 for _ in range(7201)] == [False] * 7200 + [True]
        assert quotas.wait_s("OTHER") == 0


@trio_test
async def test_the_listener_among_brokers_is_not_held_up_by_the_brokers_limit() -> None:
    keys = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
        "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
        "max__connection__creation__rate": "1",
    }
    async with running_node(None, **keys, **HOUR) as node:
        quotas = ConnectionQuotas(node.broker)
        assert all(quotas.wait_s("PLAINTEXT") == 0 for _ in range(8000))
        assert quotas.wait_s("CLIENTS") > 0, "they count all the same"


@trio_test
async def test_a_listener_has_only_so_many_connections() -> None:
    keys = {"listener.name.plaintext.max.connections".replace(".", "__"): "1"}
    async with running_node(None, **keys) as node, caller_of(node) as first:
        await first.call(ApiVersionsRequest(), 0)
        async with caller_of(node) as second:
            assert await second.at_end()
        await first.call(ApiVersionsRequest(), 0)


@trio_test
async def test_one_connection_too_many_of_an_address_is_closed() -> None:
    async with running_node() as node, trio.open_nursery() as nursery, caller_of(node) as first:
        await first.call(ApiVersionsRequest(), 0)
        await set_quota(node, IP, "127.0.0.1", "connection_creation_rate", 1)
        closed = trio.Event()

        async def come() -> None:
            async with caller_of(node) as caller:
                try:
                    await caller.call(ApiVersionsRequest(), 0)
                except (EOFError, trio.BrokenResourceError):
                    closed.set()

        while not closed.is_set():
            nursery.start_soon(come)
            await trio.lowlevel.checkpoint()
            with trio.move_on_after(0.01):
                await closed.wait()
        await first.call(ApiVersionsRequest(), 0)


@trio_test
async def test_connections_that_come_too_fast_come_later() -> None:
    rate = {"max__connection__creation__rate": "100", "quota__window__num": "2"}
    async with running_node(None, **rate) as node:
        began = trio.current_time()
        for _ in range(150):
            async with caller_of(node) as caller:
                await caller.call(ApiVersionsRequest(), 0)
        assert trio.current_time() - began >= 0.4


@pytest.mark.parametrize("text", ["-1", "x"])
def test_a_limit_of_a_listener_must_be_a_number(text: str) -> None:
    with pytest.raises(ConfigError):
        config_of(listener__name__plaintext__max__connections=text)
