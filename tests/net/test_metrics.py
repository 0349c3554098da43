"""The metrics of a broker under load, read by Prometheus' own parser and compared with what clients
counted."""

import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise

import pytest
import trio
from confluent_kafka import Consumer, Producer
from nodes import caller_of, running_node, trio_test
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as open_metrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from pk.core.broker.metric_samples import metrics_of
from pk.core.broker.node_lifecycle import StartError
from pk.core.config import BrokerConfig, ConfigError
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.net.client.admin import open_admin
from pk.net.client.results import ConfigChange, ConfigResource, ResourceType
from pk.testing import Broker

Labels = frozenset[tuple[str, str]]
Values = dict[tuple[str, Labels], float]

LISTENER = {"pk.metrics.listener": "127.0.0.1:0"}


def get(url: str, accept: str = "") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers={"Accept": accept}), timeout=60
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()


def scrape(broker: Broker) -> Values:
    code, text = get(broker.metrics_url)
    assert code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def of(values: Values, name: str, **labels: str) -> float:
    return values.get((name, frozenset(labels.items())), -1)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(LISTENER | {"pk.faults.enable": "false"}) as kafka:
        kafka.create_topic("t", 2)
        yield kafka


def test_values_agree_with_what_clients_counted(broker: Broker) -> None:
    """The broker is scraped all the while."""
    scraped: list[Values] = []
    done = threading.Event()

    def scrape_on() -> None:
        while not done.is_set():
            scraped.append(scrape(broker))

    scraper = threading.Thread(target=scrape_on)
    scraper.start()
    delivered: list[int] = []
    try:
        producer = Producer({"bootstrap.servers": broker.url, "linger.ms": 0})
        for number in range(3000):
            producer.produce(
                "t", b"x" * (number % 50), on_delivery=lambda e, m: delivered.append(len(m))
            )
            producer.poll(0)
        assert producer.flush(60) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.url, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        read = 0
        while read < 3000:
            read += len(consumer.consume(3000, 1))
        values = scrape(broker)
    finally:
        done.set()
        scraper.join()
    assert len(delivered) == 3000
    assert of(values, "kafka_server_brokertopicmetrics_messagesin_total", topic="t") == 3000
    bytes_in = of(values, "kafka_server_brokertopicmetrics_bytesin_total", topic="t")
    assert bytes_in > sum(delivered)
    assert of(values, "kafka_server_brokertopicmetrics_bytesout_total", topic="t") >= bytes_in
    produced = of(values, "kafka_network_requestmetrics_requests_total", request="Produce")
    assert 0 < produced <= 3000
    counted = of(values, "kafka_network_requestmetrics_totaltimems_count", request="Produce")
    assert counted == produced
    group = {"protocol": "classic", "state": "Stable"}
    assert of(values, "kafka_server_group_coordinator_metrics_group_count", **group) == 1
    assert of(values, "kafka_server_replicamanager_partitioncount") == 3
    assert of(values, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert of(values, "kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    # Counters only grow, and each scrape was whole.
    for one, later in pairwise(scraped):
        for (name, labels), value in one.items():
            if name.endswith("_total"):
                assert later[name, labels] >= value, name
    consumer.close()


def test_produce_requests_of_the_general_way_are_counted_too() -> None:
    """Produce takes no fast path if faults are enabled."""
    with Broker(LISTENER) as broker:
        broker.create_topic("t")
        broker.fail_next("Produce", "INVALID_RECORD")
        producer = Producer({"bootstrap.servers": broker.url, "linger.ms": 0})
        for _ in range(2):
            producer.produce("t", b"x")
            assert producer.flush(60) == 0
        values = scrape(broker)
        assert of(values, "kafka_server_brokertopicmetrics_messagesin_total", topic="t") == 1
        assert of(values, "kafka_network_requestmetrics_requests_total", request="Produce") == 2


def test_open_connections(broker: Broker) -> None:
    name = "kafka_server_socket_server_metrics_connection"
    with (
        socket.create_connection(("127.0.0.1", broker.port)),
        socket.create_connection(("127.0.0.1", broker.port)),
    ):
        values: Values = {}
        for _ in range(1000):  # the kernel accepts before the broker does
            values = scrape(broker)
            if of(values, f"{name}_creation_total", listener="PLAINTEXT") == 2:
                break
        assert of(values, f"{name}_count", listener="PLAINTEXT") == 2
        assert of(values, f"{name}_close_total", listener="PLAINTEXT") == 0


def test_what_is_asked_for(broker: Broker) -> None:
    base = broker.metrics_url.removesuffix("/metrics")
    assert get(f"{base}/healthz") == (200, "ok\n")
    assert get(f"{base}/readyz") == (200, "ready\n")
    assert get(f"{base}/else")[0] == 404
    request = urllib.request.Request(f"{base}/metrics", data=b"", method="POST")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=60)
    assert caught.value.code == 405
    caught.value.close()
    code, text = get(broker.metrics_url, "application/openmetrics-text; version=1.0.0")
    assert code == 200 and text.endswith("# EOF\n")
    names = {family.name for family in open_metrics_families(text)}
    _, text = get(
        f"{broker.metrics_url}?name[]=kafka_server_replicamanager_leadercount&name[]=pk_build_info"
    )
    only = {family.name for family in text_string_to_metric_families(text)}
    assert only == {"kafka_server_replicamanager_leadercount", "pk_build_info"}
    assert {"kafka_server_replicamanager_leadercount", "process_cpu_seconds", "pk_build"} <= names


def test_every_metric_has_its_help_and_kafka_s_name(broker: Broker) -> None:
    _, text = get(broker.metrics_url)
    families = [f for f in text_string_to_metric_families(text) if f.name.startswith("kafka")]
    assert len(families) > 25
    for family in families:
        assert ":type=" in family.documentation, family.name


@trio_test
async def test_a_deleted_topic_is_forgotten() -> None:
    async with running_node() as node:
        node.broker.metrics.topic("gone").messages_in += 1
        found = await metrics_of(node.broker)
        assert not [s for m in found for s in m.samples if s.labels.get("topic") == "gone"]


@trio_test
async def test_a_node_that_ends_is_not_ready() -> None:
    async with running_node(pk__metrics__listener="127.0.0.1:0") as node:
        url = f"http://127.0.0.1:{node.metrics_port}/readyz"
        assert await trio.to_thread.run_sync(get, url) == (200, "ready\n")
        node.stop()  # it drains as soon as this task waits for something
        assert node._not_ready() == "stopping"


def test_an_address_in_use() -> None:
    with Broker(LISTENER) as broker:
        taken = broker.metrics_url.split("/")[2]
        with pytest.raises(StartError, match=r"pk\.metrics\.listener: .* in use"):
            Broker({"pk.metrics.listener": taken}).start()
    with pytest.raises(RuntimeError, match=r"pk\.metrics\.listener"), Broker() as broker:
        _ = broker.metrics_url


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for module in ("exposition", "listener"):
        monkeypatch.delitem(sys.modules, f"pk.net.metrics.{module}", raising=False)
    with pytest.raises(StartError, match=r"pk-broker\[metrics\]"):
        Broker(LISTENER).start()


@pytest.mark.parametrize("text", ["9404", "localhost:", ":x", "h:99999"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ConfigError, match=r"pk\.metrics\.listener must be HOST:PORT"):
        BrokerConfig.parse({"node.id": "1", "log.dirs": "/d", "pk.metrics.listener": text})


async def subscribe(url: str) -> None:
    """Ask producers for their metrics, often."""
    keys = (("metrics", "org.apache.kafka.producer."), ("interval.ms", "100"))
    resource = ConfigResource(ResourceType.CLIENT_METRICS, "all")
    async with open_admin(url) as admin:
        answers = await admin.alter_configs({resource: [ConfigChange(*key) for key in keys]})
        assert not answers.errors, answers


def test_librdkafka_pushes_its_metrics() -> None:
    with Broker(LISTENER) as broker:
        broker.create_topic("t")
        trio.run(subscribe, broker.url)
        producer = Producer({"bootstrap.servers": broker.url, "client.id": "shop"})
        producer.produce("t", b"x")
        assert producer.flush(60) == 0
        broker.wait_for_requests("PushTelemetry", client_id="shop")
        name = "kafka_client_org_apache_kafka_producer_connection_creation_total"
        found: list[tuple[str, Labels]] = []
        for _ in range(1000):  # the request came; its values are there when it is answered
            found = [k for k in scrape(broker) if k[0] == name and ("client_id", "shop") in k[1]]
            if found:
                break
        assert found


@trio_test
async def test_clients_are_asked_only_where_their_metrics_are_shown() -> None:
    async with running_node() as node, caller_of(node) as caller:
        asked = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        answer = await caller.call(asked, 4)
        assert not {71, 72} & {k.api_key for k in answer.api_keys}
        assert node.broker.client_metrics is None
