"""`pk metrics`: values as clients counted them, rates, trends, and the message if there are
none."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from clients.apache_kafka import free_ports
from confluent_kafka import Producer

from pk.cli.cluster.metrics import Value, Values, source_of, sources, sparkline
from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.metrics.metrics import rows_of
from pk.cli.nouns.metrics.options import ShowMetrics
from pk.cli.nouns.metrics.rows import MetricRow, show_value
from pk.cli.output.formats import OutputOptions, render
from pk.cli.output.rows import listing
from pk.core.durations import Duration
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers
from pk.testing import Broker

Run = Callable[..., Any]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "metrics.md").read_text()
COMMANDS = re.findall(r"(?m)^\$ pk ((?:metrics|top) .*)$", PAGE)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with Broker({"pk.metrics.listener": address}) as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        kafka.create_topic("t")
        yield kafka


def produce(broker: Broker, count: int) -> None:
    producer = Producer({"bootstrap.servers": broker.url})
    for _ in range(count):
        producer.produce("t", b"x")
    assert producer.flush(60) == 0


def test_values(broker: Broker, pk: Run) -> None:
    produce(broker, 7)
    rows = json.loads(pk("metrics", "messagesin", "-f", "json").out)
    assert rows == [
        {
            "broker": "1",
            "metric": "kafka_server_brokertopicmetrics_messagesin",
            "labels": "topic=t",
            "value": 7,
            "rate": None,
            "trend": None,
        }
    ]
    names = {row["metric"] for row in json.loads(pk("metrics", "totaltimems", "-f", "json").out)}
    base = "kafka_network_requestmetrics_totaltimems"
    assert names == {f"{base}_{end}" for end in ("count", "sum", "p50", "p99")}


def test_rates_and_trends() -> None:
    def rounds(*values: tuple[float, float]) -> list[Values]:
        return [
            {("in", ""): Value(counter, True), ("now", ""): Value(gauge, False)}
            for counter, gauge in values
        ]

    source = source_of("1", "http://127.0.0.1:1")
    two_seconds = rounds((10, 5), (10, 5), (30, 5))
    rows = rows_of(source, two_seconds, ShowMetrics(period=Duration(2000)))
    assert [(r["value"], r["rate"], r["trend"]) for r in rows] == [(30, 10, "▁█"), (5, None, "▁▁▁")]
    (row,) = rows_of(source, two_seconds, ShowMetrics(period=Duration(2000), changed=True))
    assert row["metric"] == "in"


def test_nothing_happens(broker: Broker, pk: Run) -> None:
    produce(broker, 1)
    words = ("metrics", "topicmetrics_bytesin", "--for", "1", "-f", "json")
    (quiet,) = json.loads(pk(*words).out)
    assert (quiet["rate"], quiet["trend"]) == (0, "▁")
    assert json.loads(pk(*words, "--changed").out) == []


def test_by_url(broker: Broker, pk: Run) -> None:
    url = broker.metrics_url
    rows = json.loads(pk("metrics", "manager_partitioncount", "--url", url, "-f", "json").out)
    assert [(row["broker"], row["value"]) for row in rows] == [(url, 1)], rows


def test_top_shows_requests(broker: Broker, pk: Run) -> None:
    produce(broker, 1)
    words = ("top", "requests", "-n", "2", "-f", "jsonl", "--interval", "0.1")
    lines = [json.loads(line) for line in pk(*words).out.splitlines()]
    rows = {row["request"]: row for row in lines}  # the second snapshot's
    assert rows["Produce"]["broker"] == 1 and rows["Produce"]["rate"] == 0.0
    assert rows["Metadata"]["rate"] > 0  # top's own
    assert rows["Metadata"]["p99_ms"] >= rows["Metadata"]["p50_ms"] > 0
    assert {row["error_rate"] for row in rows.values()} == {0.0}


def test_top_without_metrics_says_why(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        ran = pk("top", "requests", "-f", "json", "--interval", "0.1")
        assert (ran.code, json.loads(ran.out)) == (0, [])
        assert "No broker serves metrics; set pk.metrics.listener" in ran.err


def test_top_knows_no_port_that_a_broker_chose(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker({"pk.metrics.listener": "127.0.0.1:0"}) as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        ran = pk("top", "requests", "-f", "json", "--interval", "0.1")
        assert (ran.code, json.loads(ran.out)) == (0, [])
        assert "chose the ports of pk.metrics.listener themselves; set one on each" in ran.err


def test_apache_kafka_is_not_advised_to_set_a_config_of_pk() -> None:
    class Apache:
        async def describe_cluster(self) -> Any:
            return SimpleNamespace(brokers=[SimpleNamespace(node_id=1, host="h")])

        async def describe_configs(self, resources: Any, **_: Any) -> Answers[Any, Any]:
            entry = SimpleNamespace(name="log.dirs", value="/data")
            return Answers((resource, (entry,)) for resource in resources)

    with pytest.raises(CommandError) as caught:
        trio.run(sources, cast("Admin", Apache()))
    assert "JMX" in str(caught.value) and "pk.metrics.listener" not in str(caught.value)


def test_the_page_s_commands_run(broker: Broker, pk: Run) -> None:
    assert len(COMMANDS) == 3
    produce(broker, 1)
    for words in COMMANDS:
        assert pk(*words.split()).code == 0


def test_what_is_said_where_there_are_none(pk: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        ran = pk("metrics")
        assert ran.code == Exit.FAILED and "No broker serves metrics" in ran.err
        ran = pk("metrics", "--url", f"http://{kafka.url}")
        assert ran.code == Exit.FAILED and "Traceback" not in ran.err
    with Broker({"pk.metrics.listener": "127.0.0.1:0"}) as kafka:
        monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.url)
        assert "--url" in pk("metrics").err
    for words in (("--url", "ftp://x"), ("(",), ("--changed",)):
        assert pk("metrics", *words).code == Exit.USAGE


def test_a_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([3, 3]) == "▁▁"
    assert sparkline([0, 7, 14]) == "▁▄█"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (7.0, "7"),
        (0.25, "0.25"),
        (1795988700.53, "1795988701"),
        (12345.678, "12346"),
        (1e18, "1e+18"),
    ],
)
def test_a_value_has_all_digits_before_the_point(value: float, shown: str) -> None:
    assert show_value(value) == shown


def test_a_start_is_shown_as_a_time() -> None:
    row: MetricRow = {
        "broker": "1",
        "metric": "process_start_time_seconds",
        "labels": "",
        "value": 1795988700.53,
        "rate": None,
        "trend": None,
    }
    shown = render(listing(MetricRow, [row]), OutputOptions(terminal=True, width=120)).decode()
    assert datetime.fromtimestamp(1795988700.53).strftime("%Y-%m-%d %H:%M:%S") in shown
