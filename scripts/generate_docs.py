"""Generates `docs/metrics-reference.md` from the metrics of a broker. A test fails if the page is
stale."""

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts" / "path"), str(ROOT / "tests")]

import trio
from nodes import running_node

from pk.core.broker.metric_samples import metrics_of
from pk.core.metrics import Metric

_METRICS = """\
# Metrics

This page lists every metric of a broker, grouped by its type in Kafka's JMX.
`scripts/generate_docs.py` generates the page from `core/broker/metric_samples.py`.
[Metrics and health](metrics.md) says where a broker serves them, and how to read them.

A counter begins at 0 when the broker starts. A histogram has buckets in ms, with `_bucket`, `_sum`
and `_count` at the end of its name. The metrics of the cluster, such as `globaltopiccount`, are
those of the active controller; other nodes do not have them.
"""
_PROCESS = """
## The process

On Linux, a broker also has the process metrics of Prometheus' own libraries:
`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_open_fds` and others.
Everywhere, it has `pk_build_info`, with the label `version`.
"""


def metrics_page(metrics: Iterable[Metric]) -> str:
    """Return the reference of a broker's metrics, grouped by Kafka's types."""
    by_type: dict[str, list[Metric]] = {}
    for metric in metrics:
        by_type.setdefault(metric.name.partition(",")[0], []).append(metric)
    lines = _METRICS.splitlines()
    for kind, found in sorted(by_type.items()):
        lines += ["", f"## {kind}", "", "| metric | kind | labels | meaning |", "|---|---|---|---|"]
        for metric in sorted(found, key=lambda metric: metric.name):
            name = metric.prometheus + ("_total" if metric.kind == "counter" else "")
            labels = ", ".join(metric.labels)
            lines.append(f"| `{name}` | {metric.kind} | {labels} | {metric.help} |")
    lines += _PROCESS.splitlines()
    return "\n".join(lines) + "\n"


async def metrics() -> list[Metric]:
    """Return the metrics of a broker that is also the controller."""
    async with running_node() as node:
        return await metrics_of(node.broker)


if __name__ == "__main__":
    page = metrics_page(trio.run(metrics))
    (ROOT / "docs" / "metrics-reference.md").write_text(page, encoding="utf-8")
