"""The pytest plugin, as a project outside this repository uses it: it only has pk installed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from clients.apache_kafka import free_ports
from clients.pk_broker import pk_environment
from testing_project import run_project

ORDERS = """
from confluent_kafka import Consumer, Producer


def test_a_record_comes_back(kafka, kafka_topic):
    print("URL", kafka.url)
    producer = Producer({"bootstrap.servers": kafka.url})
    producer.produce(kafka_topic, "hello")
    assert producer.flush(60) == 0
    consumer = Consumer(
        {"bootstrap.servers": kafka.url, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([kafka_topic])
    assert consumer.poll(60).value() == b"hello"
    consumer.close()


def test_a_failure_is_survived(kafka, kafka_topic):
    print("URL", kafka.url)
    kafka.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    said = []
    producer = Producer({"bootstrap.servers": kafka.url})
    producer.produce(kafka_topic, "hello", on_delivery=lambda error, _: said.append(error))
    assert producer.flush(60) == 0
    assert said == [None]
    assert len(kafka.requests("Produce")) == 3
"""
BILLING = """
import pytest


@pytest.mark.kafka_config(num__partitions=3, auto__create__topics__enable="false")
def test_every_test_has_a_broker_of_its_own(kafka, kafka_url, kafka_topic):
    print("URL", kafka_url)
    assert kafka_url == kafka.url
    assert kafka_topic == "test_every_test_has_a_broker_of_its_own"
    assert kafka.requests() == []
"""
OWN_PORTS = """
import pytest


def pytest_collection_modifyitems(items):
    for item, port in zip(items, PORTS, strict=True):
        item.add_marker(pytest.mark.kafka_config(listeners=f"PLAINTEXT://127.0.0.1:{port}"))
"""
"""Gives each test's broker a port that no other test gets, so that a listener found afterwards is a
leftover."""

UNUSED = """
import sys


def test_pk_is_not_imported_before_a_fixture_is_used():
    # `pk.core` itself holds the version, and nothing else.
    assert not [name for name in sys.modules if name.startswith(("pk.core.", "pk.net"))]
"""
SHARED = """
import pytest
from pk.testing import KafkaError

URLS = set()


@pytest.fixture(scope="session")
def filled(kafka, kafka_url):
    kafka.create_topic("orders", 2)
    kafka.produce("orders", "1 book", None, key="alice", headers=[("h", b"1")])
    kafka.produce("orders", "2 books", partition=1 - kafka.records("orders")[0].partition)
    return kafka_url


@pytest.mark.parametrize("n", [1, 2])
def test_one_broker_has_the_records(filled, kafka, kafka_topic, n):
    URLS.add(filled)
    print("URL", filled)
    assert len(URLS) == 1
    found = kafka.records("orders", 3)
    assert sorted(str(r.value) for r in found) == ["None", "b'1 book'", "b'2 books'"]
    assert [r.offset for r in found if r.key == b"alice"] == [0, 1]
    assert kafka.records(kafka_topic) == []
    assert kafka.produce(kafka_topic, "x")[0].offset == 0
    with pytest.raises(TimeoutError, match="of 2 records"):
        kafka.records(kafka_topic, 2, timeout_s=0.2)


class TestOther:
    @pytest.mark.parametrize("n", [1, 2])
    def test_one_broker_has_the_records(self, kafka_topic, n):
        assert kafka_topic == f"test_one_broker_has_the_records-{n}--2"
"""
CLUSTER = """
def test_a_leader_moves(kafka_cluster):
    kafka = kafka_cluster(2, {"num.partitions": "1"})
    print("URL", *kafka.url.split(","), sep="\\nURL ")
    kafka.create_topic("orders")
    assert {kafka.move_leader("orders"), kafka.move_leader("orders")} == {1, 2}
    kafka.fail_next("Metadata", "UNKNOWN_SERVER_ERROR", client_id="nobody", times=5)
    assert kafka.clear_faults() == 2  # one of each broker
    kafka.drop_connections()
    kafka.set_clock(3600)
    kafka.produce("orders", "1 book")
    assert [record.value for record in kafka.records("orders")] == [b"1 book"]
"""


@pytest.mark.thorough
def test_a_project_of_three_tests_in_two_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_orders.py").write_text(ORDERS)
    (tmp_path / "test_billing.py").write_text(BILLING)
    (tmp_path / "conftest.py").write_text(OWN_PORTS.replace("PORTS", str(free_ports(3))))
    said, seconds = run_project(tmp_path, "-n", "2")
    assert "3 passed" in said
    assert len(re.findall(r"(?m)^URL ", said)) == 3
    with capsys.disabled():
        print(f"\nthree tests with a broker each, in two processes: {seconds:.2f} s")


def test_the_plugin_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    (tmp_path / "test_unused.py").write_text(UNUSED)
    assert "1 passed" in run_project(tmp_path)[0]


SHOWS_IMPORTS = """
import sys

import pytest


@pytest.fixture(autouse=True, scope="session")
def show_imports():
    wanted = {"pk.testing.broker_thread", "pk.core.api.groups.find_coordinator"}
    print("IMPORTED", wanted <= set(sys.modules))


def pytest_unconfigure():
    print("IMPORTED AT THE END", "pk.testing.broker_thread" in sys.modules)
"""


@pytest.mark.thorough
def test_the_broker_is_imported_before_the_first_test_runs(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(ORDERS)
    (tmp_path / "conftest.py").write_text(SHOWS_IMPORTS)
    assert "\nIMPORTED True\n" in run_project(tmp_path)[0]


OWN_KAFKA = """
import sys

import pytest


@pytest.fixture
def kafka():
    return "ours"


def test_it(kafka):
    assert kafka == "ours"
    assert "pk.testing.broker_thread" not in sys.modules
"""


def test_a_fixture_of_the_same_name_is_the_projects_own(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(OWN_KAFKA)
    assert "1 passed" in run_project(tmp_path)[0]


def test_collecting_alone_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(ORDERS)
    (tmp_path / "conftest.py").write_text(SHOWS_IMPORTS)
    said, _ = run_project(tmp_path, "--collect-only")
    assert "2 tests collected" in said and "\nIMPORTED AT THE END False\n" in said


NOT_FOR_A_BROKER = (
    "asyncio", "cryptography", "google", "h11", "http.client", "prometheus_client",
    "prompt_toolkit", "pyarrow", "pyspark", "rich", "tomlkit", "typer", "pk.cli",
    "pk.core.api.groups.join_group", "pk.core.schemas", "pk.net.client.admin",
    "pk.net.client.producer", "pk.net.http", "pk.net.metrics", "pk.spark",
)  # fmt: skip


def test_a_broker_in_memory_imports_only_what_it_needs() -> None:
    """The import is nearly all of the time that a small suite takes."""
    program = (
        "import gc, sys; before = gc.isenabled(); from pk.testing import Broker; "
        "assert gc.isenabled() is before is True; print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env=pk_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = set(ran.stdout.split())
    assert {"trio", "pk.net.node"} <= found
    under = tuple(f"{name}." for name in NOT_FOR_A_BROKER)
    assert [name for name in found if name in NOT_FOR_A_BROKER or name.startswith(under)] == []


@pytest.mark.thorough
def test_one_broker_for_all_tests(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(SHARED)
    said, _ = run_project(tmp_path, "-o", "kafka_scope=session")
    assert "4 passed" in said


def test_a_config_of_one_test_needs_a_broker_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "test_billing.py").write_text(BILLING)
    with pytest.raises(AssertionError, match="kafka_config on a test needs a broker of its own"):
        run_project(tmp_path, "-o", "kafka_scope=session")


@pytest.mark.slow
def test_a_project_with_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "test_cluster.py").write_text(CLUSTER)
    assert "1 passed" in run_project(tmp_path)[0]
