"""APIs whose handlers are imported with their first request."""

import json
import subprocess
import sys
from importlib import import_module

import pytest
from msgspec.structs import replace
from nodes import caller_of, running_node, trio_test

from pk.core.api.late import LATE, Late, late_modules
from pk.core.api.registry import AnyApi
from pk.core.log.memory_disk import MemoryDisk
from pk.core.wire.messages.describe_cluster import DescribeClusterRequest
from pk.core.wire.messages.list_groups import ListGroupsRequest


def outline(api: AnyApi) -> AnyApi:
    """What the server must know before the first request."""
    return replace(api, handle=len, error_response=None)


@pytest.mark.parametrize("each", LATE, ids=lambda each: f"{each.module}.{each.name}")
def test_the_table_says_of_an_api_what_its_module_says(each: Late) -> None:
    assert outline(each.api) == outline(getattr(import_module(each.module), each.name))


def imported_by(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(ran.stdout))


def test_a_node_starts_without_what_is_imported_late() -> None:
    late = set(late_modules())
    assert not late & imported_by("import pk.net.node")


@trio_test
async def test_a_late_api_answers_its_first_request() -> None:
    async with running_node(MemoryDisk()) as node, caller_of(node) as caller:
        assert (await caller.call(DescribeClusterRequest(), 1)).brokers
        assert (await caller.call(ListGroupsRequest(), 4)).groups == []
