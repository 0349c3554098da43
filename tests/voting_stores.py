"""Metadata stores that let any of several nodes be the controller."""

from __future__ import annotations

import itertools
import os

import pytest

VOTING = ["etcd", pytest.param("zookeeper", marks=pytest.mark.peer)]
"""Values of a parameter: with etcd, with ZooKeeper."""

_FRESH = itertools.count(1)


def address_in(store: str, request: pytest.FixtureRequest) -> str:
    """`pk.metadata.store` for a server that tests share, with a path that no other test uses."""
    server = request.getfixturevalue(store)
    return f"{store}://{server.address}/tests/{os.getpid()}-{next(_FRESH)}-nodes"


@pytest.fixture(params=VOTING)
def voting_store(request: pytest.FixtureRequest) -> str:
    """`pk.metadata.store`, with each of them."""
    return address_in(request.param, request)
