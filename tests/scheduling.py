"""A pytest plugin that runs tests with the same expensive fixtures on one worker, and starts long
tests first, so that no worker is left with a long test at the end.

xdist has marks for groups (`--dist loadgroup`), which it passes to its scheduler by changing the
ids of tests. pytest 9.2 does not allow that. Therefore this plugin groups by file, or by folder.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

ROOT = Path(__file__).resolve().parents[1]
TOGETHER = frozenset(
    (
        "tests/cli/test_perf.py",  # each loads both cores
        "tests/clients/test_matrix.py",  # what each client wrote is written once
        "tests/spark/live/",  # one session of Spark
    )
)
"""Files and folders whose tests run in one worker. The same holds for files that start a broker, a
cluster or a session of Spark once for all their tests. Tests against pk and tests against Apache
Kafka are two groups."""

FIRST = (
    "tests/spark/test_killed_exports.py",
    "tests/clients/test_groups.py",
    "tests/sim/test_seeds.py",
    "tests/cli/test_readme.py",
    "tests/testing/test_plugin.py",
    "tests/testing/test_page.py",
    "tests/testing/test_examples_of_testing.py",
    "tests/test_bench_quick.py",
    "tests/cli/test_up.py",
    "tests/faults/test_full_disk.py",
)
"""Files with long tests. They start right after the files whose tests run in one worker."""


@cache
def shared_by(file: str) -> str | None:
    """The file or folder whose tests one worker runs, if this file's are among them."""
    for together in TOGETHER:
        if file == together or (together.endswith("/") and file.startswith(together)):
            return together
    return file if '(scope="module"' in (ROOT / file).read_text() else None


def group_of(nodeid: str) -> str:
    """The group of a test: the test itself, if it needs no other."""
    group = shared_by(nodeid.partition("::")[0])
    if group is None:
        return nodeid
    return f"{group}, apache" if re.search(r"[\[-]apache[\]-]", nodeid) else group


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put long tests first."""

    def place(item: pytest.Item) -> int:
        file = item.nodeid.partition("::")[0]
        if shared_by(file) is not None:
            return 0
        return 1 + FIRST.index(file) if file in FIRST else 1 + len(FIRST)

    items.sort(key=place)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        """For each test that ends, xdist's scheduler goes through all groups so far and searches
        the list of all tests. With ten thousand groups, that takes longer than the tests."""

        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

        @cached_property
        def _places(self) -> dict[str, int]:
            assert self.collection is not None
            return {nodeid: place for place, nodeid in enumerate(self.collection)}

        def _assign_work_unit(self, node: WorkerController) -> None:
            group, tests = self.workqueue.popitem(last=False)
            self.assigned_work[node][group] = tests
            node.send_runtest_some([self._places[test] for test, ran in tests.items() if not ran])

        def mark_test_complete(
            self, node: WorkerController, item_index: int, duration: float = 0
        ) -> None:
            nodeid = self.registered_collections[node][item_index]
            groups, group = self.assigned_work[node], group_of(nodeid)
            groups[group][nodeid] = True
            if all(groups[group].values()):
                del groups[group]
            self._reschedule(node)

    return Grouped(config, log)
