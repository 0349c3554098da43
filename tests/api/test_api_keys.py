"""The table of APIs, and the handlers that are found by it."""

import json
import subprocess
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path

from each import for_each
from nodes import caller_of, running_node, trio_test

from pk.core.api.index import AT_CONTROLLER, apis_of, handler_modules
from pk.core.api_keys import API_KEYS, BROKER, CONTROLLER, DIVIDED, FORWARDED, ApiKey
from pk.core.config import BrokerConfig
from pk.core.log.memory_disk import MemoryDisk
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.describe_cluster import DescribeClusterRequest
from pk.core.wire.messages.list_groups import ListGroupsRequest


@for_each("row", API_KEYS.values(), ids=lambda row: row.name)
def test_a_rows_modules_answer_its_request(row: ApiKey) -> None:
    modules = [import_module(m) for m in handler_modules([row.key]) if m.endswith(row.module)]
    if row.controller_module is not None:
        modules.append(import_module(f"pk.core.api.controller.{row.controller_module}"))
    assert modules
    for module in modules:
        for name in ("handle", "handle_at_controller"):
            if (function := getattr(module, name, None)) is not None:
                _, request = signature(function).parameters.values()
                assert MESSAGES[row.key].request.__name__ in str(request.annotation)
    if row.served == DIVIDED:
        assert hasattr(modules[0], "handle_at_controller")


def test_every_file_of_a_handler_has_a_row() -> None:
    """A file that no row names would answer nothing."""
    named = set(handler_modules())
    root = Path(__file__).resolve().parents[2]
    for file in (root / "core/api").glob("*/*.py"):
        module = f"pk.core.api.{file.parent.name}.{file.stem}"
        assert module in named or not hasattr(import_module(module), "handle"), module


def test_versions_are_served_that_messages_have() -> None:
    for key, row in API_KEYS.items():
        first, last = MESSAGES[key].request.VERSIONS
        assert first <= row.served_versions[0] <= row.versions[0] <= row.versions[1] <= last


def test_an_api_that_needs_a_config_is_served_with_it_alone() -> None:
    with_nothing = {api.key for api in apis_of(BrokerConfig.parse({"node.id": "1"}))}
    config = {"node.id": "1", "pk.faults.enable": "true", "pk.metrics.listener": "127.0.0.1:0"}
    with_all = {api.key for api in apis_of(BrokerConfig.parse(config))}
    assert with_all - with_nothing == {71, 72, 10_000}
    assert with_all == {key for key, row in API_KEYS.items() if row.served != CONTROLLER}


def test_a_controller_takes_in_envelopes_what_brokers_pass_on() -> None:
    passed_on = {k for k, row in API_KEYS.items() if row.served in (FORWARDED, DIVIDED)}
    assert passed_on == {key for key, api in AT_CONTROLLER.items() if api.forwarded}
    assert AT_CONTROLLER.keys() == {k for k, row in API_KEYS.items() if row.served != BROKER}


def test_only_nodes_ask_what_needs_cluster_action_alone() -> None:
    """Those that have clusterAction in Apache Kafka 4.3.1, and pk's own."""
    assert {key for key, row in API_KEYS.items() if row.is_among_nodes} == {
        *(27, 56, 58, 59, 62, 63, 67, 70, 73, 83, 84, 85, 86, 87, 10_001)
    }


def imported_by(statement: str) -> set[str]:
    code = f"{statement}; import json, sys; print(json.dumps([*sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    return set(json.loads(ran.stdout))


def test_a_node_starts_without_the_handlers() -> None:
    assert not set(handler_modules()) & imported_by("import pk.net.node")


@trio_test
async def test_a_handler_is_imported_with_its_first_request() -> None:
    async with running_node(MemoryDisk()) as node, caller_of(node) as caller:
        assert (await caller.call(DescribeClusterRequest(), 1)).brokers
        assert (await caller.call(ListGroupsRequest(), 4)).groups == []
