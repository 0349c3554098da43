"""Whatever is advertised is honoured: every version of every API takes a request and answers in its
own shape."""

import logging

import pytest
from nodes import caller_of, make_topic, running_node, trio_test
from wire.values import Maker

from pk.core.api.index import APIS
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest

SEEDS = 6
JOIN_GROUP, FETCH, PRODUCE, SYNC_GROUP = 11, 1, 0, 14


def cases() -> list[tuple[int, int]]:
    return [(api.key, v) for api in APIS for v in range(api.versions[0], api.versions[1] + 1)]


def tame(request: object, key: int) -> None:
    """Keep a random request from waiting, and from asking for ten thousand partitions."""
    for name in ("max_wait_ms", "timeout_ms", "session_timeout_ms", "rebalance_timeout_ms"):
        if hasattr(request, name):
            setattr(request, name, 0)
    if key == PRODUCE:
        request.acks = -1  # type: ignore[attr-defined]


def fill(value: object, topic: str) -> None:
    """Name a topic that exists, wherever a name is asked for."""
    for name in getattr(value, "FIELDS", ()):
        inner = getattr(value, name)
        if name in ("name", "topic") and isinstance(inner, str):
            setattr(value, name, topic)
        elif name in ("num_partitions", "count") and isinstance(inner, int):
            setattr(value, name, 2)
        elif isinstance(inner, list):
            for item in inner:
                fill(item, topic)


@pytest.mark.parametrize("api_key", [api.key for api in APIS])
def test_every_version_answers(api_key: int, caplog: pytest.LogCaptureFixture) -> None:
    api = next(api for api in APIS if api.key == api_key)

    @trio_test
    async def run() -> None:
        async with running_node() as node, caller_of(node) as admin:
            await make_topic(admin, "known", 2)
            for version in range(api.versions[0], api.versions[1] + 1):
                for seed in range(SEEDS):
                    request = Maker(seed, small=True).message(MESSAGES[api_key].request, version)
                    tame(request, api_key)
                    if seed % 2:
                        fill(request, "known")
                    async with caller_of(node) as caller:
                        response = await caller.call(request, version)
                        assert type(response) is MESSAGES[api_key].response

    with caplog.at_level(logging.WARNING):
        run()
    faults = [r for r in caplog.records if r.exc_info or r.levelno >= logging.ERROR]
    assert not faults, faults[0].exc_text or faults[0].getMessage()


@trio_test
async def test_what_is_advertised_is_what_is_served() -> None:
    async with running_node() as node, caller_of(node) as caller:
        response = await caller.call(
            ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4
        )
    reported = {k.api_key: (k.min_version, k.max_version) for k in response.api_keys}
    assert reported[PRODUCE] == (0, 13), "as Apache Kafka says, for librdkafka's sake"
    assert reported == {api.key: api.versions for api in APIS}
    for api in APIS:
        low, high = MESSAGES[api.key].versions
        # Older versions than Apache's may be served, for clients that it has left behind.
        assert api.versions[0] <= low, f"{MESSAGES[api.key].name}: Apache serves {low}-{high}"
        assert api.versions[1] == high, f"{MESSAGES[api.key].name}: Apache serves {low}-{high}"
