"""docs/metrics.md, the dashboard and the alerts name the metrics that there are."""

import json
import re
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from nodes import caller_of, running_node, trio_test

from pk.cli.main import main
from pk.core.broker.metric_samples import metrics_of
from pk.core.errors import ErrorCode
from pk.core.metrics import Metric
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.testing import Broker

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = (DOCS / "metrics.md").read_text()
ALERTS = DOCS / "monitoring" / "alerts.yml"
DASHBOARD = json.loads((DOCS / "monitoring" / "grafana-dashboard.json").read_text())
NAME = re.compile(r"\b(?:kafka|process|pk)_[a-z_]+")
PARTS = ("bucket", "sum", "count")
FROM_THE_LIBRARY = {
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "pk_build_info",
}


def metrics() -> list[Metric]:
    """Those of a broker that is also the controller, with every label in use."""
    found: list[Metric] = []

    @trio_test
    async def collect() -> None:
        async with running_node() as node, caller_of(node) as caller:
            node.broker.metrics.request(0).failed(ErrorCode.INVALID_REQUEST)
            await caller.call(ApiVersionsRequest(client_software_name="t"), 3)
            found.extend(await metrics_of(node.broker))

    collect()
    return found


def names() -> set[str]:
    """Every name that a query may use."""
    found: set[str] = set()
    for metric in metrics():
        match metric.kind:
            case "counter":
                found.add(f"{metric.prometheus}_total")
            case "gauge":
                found.add(metric.prometheus)
            case "histogram":
                found.update(f"{metric.prometheus}_{end}" for end in PARTS)
    return found


def test_the_reference_is_fresh() -> None:
    made = runpy.run_path(str(DOCS.parent / "scripts" / "generate_docs.py"))["metrics_page"](
        metrics()
    )
    stale = "docs/metrics-reference.md is stale; run scripts/generate_docs.py"
    assert (DOCS / "metrics-reference.md").read_text(encoding="utf-8") == made, stale


def test_every_sample_has_the_labels_that_the_reference_says() -> None:
    for metric in metrics():
        for sample in metric.samples:
            assert tuple(sample.labels) == tuple(metric.labels), metric.name


def test_the_dashboard_asks_for_what_is_there() -> None:
    known = names() | FROM_THE_LIBRARY
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) > 10
    for panel in panels:
        for target in panel["targets"]:
            asked = set(NAME.findall(target["expr"]))
            assert asked and asked <= known, panel["title"]
    for variable in DASHBOARD["templating"]["list"]:
        assert set(NAME.findall(str(variable["query"]))) <= known


def test_the_alerts_ask_for_what_is_there() -> None:
    text = ALERTS.read_text()
    alerts = text.split("- alert: ")[1:]
    assert len(alerts) > 5
    known = names()
    for alert in alerts:
        assert set(NAME.findall(alert)) & known, alert.split("\n")[0]
        assert set(NAME.findall(alert)) <= known
        assert re.search(r'command: "pk [a-z]+', alert) and "severity: " in alert
    if (promtool := shutil.which("promtool")) is not None:
        subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True, timeout=60)


def test_the_commands_about_client_metrics_run(capfd: pytest.CaptureFixture[str]) -> None:
    commands = re.findall(r"(?m)^\$ pk (configs \w+ client-metrics .*)$", PAGE)
    assert len(commands) == 3
    with Broker() as broker:
        for words in commands:
            assert main([*words.split(), "-b", broker.url]) == 0, capfd.readouterr().err
    assert "60000" in capfd.readouterr().out
