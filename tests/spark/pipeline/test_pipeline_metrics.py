"""The metrics of a pipeline, how they are served, and the alerts that ask for them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from pk.cli.command_line.parse import parse
from pk.spark.errors import SparkFailed
from pk.spark.pipeline.metrics import metrics_of, serving
from pk.spark.pipeline.status import Status

ROOT = Path(__file__).resolve().parents[3]
ALERTS = ROOT / "docs" / "monitoring" / "pipeline-alerts.yml"
PAGE = (ROOT / "docs" / "pipelines.md").read_text(encoding="utf-8")
STATUS: Status = {
    "pipeline": "p",
    "state": "running",
    "error": None,
    "last_error": {"message": "no broker", "at_ms": 1_700_000_000_500},
    "restarts": 2,
    "pid": 1,
    "started_ms": 1,
    "updated_ms": 1,
    "dead_letters": 5,
    "queries": [
        {
            "name": "orders",
            "batch": 3,
            "rows": 1200,
            "rows_a_second": 9.5,
            "batch_ms": 1500,
            "ended_ms": 1_700_000_001_000,
            "lag": 7,
            "partitions": [
                {"topic": "in", "partition": 0, "offset": 93, "end": 100, "lag": 7},
                {"topic": "in", "partition": 1, "offset": 5, "end": 5, "lag": 0},
            ],
            "small_files": 12,
        }
    ],
}
SAMPLES = """\
pk_spark_pipeline_running{pipeline="p"} 1.0
pk_spark_pipeline_restarts_total{pipeline="p"} 2.0
pk_spark_pipeline_deadletters_total{pipeline="p"} 5.0
pk_spark_pipeline_lasterrorseconds{pipeline="p"} 1.7000000005e+09
pk_spark_pipeline_rows_total{pipeline="p",sink="orders"} 1200.0
pk_spark_pipeline_lastbatchseconds{pipeline="p",sink="orders"} 1.700000001e+09
pk_spark_pipeline_batchms{pipeline="p",sink="orders"} 1500.0
pk_spark_pipeline_smallfiles{pipeline="p",sink="orders"} 12.0
pk_spark_pipeline_lag{partition="0",pipeline="p",sink="orders",topic="in"} 7.0
pk_spark_pipeline_lag{partition="1",pipeline="p",sink="orders",topic="in"} 0.0
"""


def get(port: int | None, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def test_the_status_is_served_as_metrics_while_the_pipeline_runs() -> None:
    status = STATUS.copy()
    with serving(("127.0.0.1", 0), lambda: status) as port:
        code, text = get(port, "metrics")
        assert code == 200
        found = [line for line in text.splitlines() if line.startswith("pk_spark_pipeline_")]
        assert found == SAMPLES.splitlines()
        assert get(port, "readyz") == (200, "ready\n")
        status["state"] = "restarting"
        assert get(port, "readyz") == (503, "the pipeline is restarting\n")
        assert 'pk_spark_pipeline_running{pipeline="p"} 0.0' in get(port, "metrics")[1]
    with pytest.raises(urllib.error.URLError):
        get(port, "metrics")
    with serving(None, lambda: status) as port:
        assert port is None


def test_an_address_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = f"the metrics cannot be served: 127.0.0.1:{port} is in use"
        with pytest.raises(SparkFailed, match=said), serving(("127.0.0.1", port), lambda: STATUS):
            pass


def names() -> set[str]:
    return {
        metric.prometheus + ("_total" if metric.kind == "counter" else "")
        for metric in metrics_of(STATUS)
    }


def test_every_sample_has_the_labels_of_its_metric() -> None:
    for metric in metrics_of(STATUS):
        assert metric.samples
        for sample in metric.samples:
            assert set(sample.labels) == set(metric.labels), metric.name


def test_the_alerts_ask_for_what_is_there() -> None:
    alerts = ALERTS.read_text(encoding="utf-8").split("- alert: ")[1:]
    assert len(alerts) > 5
    for alert in alerts:
        asked = set(re.findall(r"\bpk_[a-z_]+", alert))
        assert asked and asked <= names(), alert
        (command,) = re.findall(r'command: "pk (.*)"', alert)
        assert parse(command.split()).path and "severity: " in alert
    if (promtool := shutil.which("promtool")) is not None:
        subprocess.run([promtool, "check", "rules", str(ALERTS)], check=True, timeout=60)


def test_the_page_lists_every_metric() -> None:
    assert set(re.findall(r"\bpk_spark_pipeline_[a-z_]+", PAGE)) == names()
