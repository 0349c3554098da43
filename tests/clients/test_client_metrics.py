"""Metrics that Java's clients push (KIP-714), asked for with Apache's own tool."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clients import apache_kafka
from clients.tools import PACKAGE
from pk.testing import Broker

pytestmark = pytest.mark.peer


def test_java_pushes_its_metrics() -> None:
    if (reason := apache_kafka.available()) is not None:
        pytest.skip(f"Apache Kafka's tools cannot run here: {reason}")
    with Broker({"pk.metrics.listener": "127.0.0.1:0"}) as broker:
        broker.create_topic("t")
        at = ("--bootstrap-server", broker.url)
        words = ("--alter", "--name", "all", "--metrics", "org.apache.kafka.", "--interval", "100")
        asked = apache_kafka.run_tool(f"{PACKAGE}ClientMetricsCommand", *at, *words)
        assert asked.returncode == 0, asked.stdout + asked.stderr
        listed = apache_kafka.run_tool(f"{PACKAGE}ClientMetricsCommand", *at, "--list")
        assert listed.stdout.split() == ["all"], listed.stderr
        with apache_kafka.start_tool(
            f"{PACKAGE}ConsoleProducer",
            *("--topic", "t", *at, "--command-property", "client.id=java"),
        ) as producer:
            try:
                # It lives until it has pushed: one that closes before its first push pushes
                # nothing.
                broker.wait_for_requests("PushTelemetry", client_id="java", timeout_s=60)
                producer.communicate("a\n", timeout=120)
            finally:
                producer.kill()
        assert producer.returncode == 0
        pushed = broker.requests("PushTelemetry", client_id="java")
        assert pushed[-1].message.terminating, "a client that closes pushes once more"
        with urllib.request.urlopen(broker.metrics_url, timeout=120) as answer:
            text = answer.read().decode()
    found = [
        sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("client_id") == "java"
    ]
    assert "kafka_client_org_apache_kafka_producer_connection_creation_total" in {
        sample.name for sample in found
    }
