"""A pytest plugin: which tests one worker runs one after another, since they share what is dear to start.

xdist has marks for that (`--dist loadgroup`), which it tells its scheduler by changing the ids of tests; pytest 9.2 does not
let it. So the scheduler is told here, by file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.scheduler import LoadScopeScheduling

TOGETHER = frozenset(
    (
        "tests/cli/test_perf.py",  # each loads both cores
        "tests/clients/test_cluster_cli.py",  # clusters of four, of pk and of Apache Kafka
        "tests/clients/test_same_answers.py",  # every question is asked before the first answer is looked at
        "tests/meta/test_cluster_against_kafka.py",  # five JVMs
    )
)
"""Files whose tests stay together; those against pk and those against Apache Kafka are two groups."""


def group_of(nodeid: str) -> str:
    """What a test is scheduled with: itself, if it needs nobody."""
    file = nodeid.partition("::")[0]
    if file not in TOGETHER:
        return nodeid
    return f"{file}, apache" if re.search(r"[\[-]apache[\]-]", nodeid) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    from xdist.scheduler import LoadScopeScheduling

    class Grouped(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return group_of(nodeid)

    return Grouped(config, log)
