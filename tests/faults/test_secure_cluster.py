"""Three brokers that prove themselves to each other by SCRAM over TLS, and a client that notices
nothing: neither of certificates and users that change, nor of brokers that are killed."""

from __future__ import annotations

import os
import signal
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
import trio
from clients.topics import wait_until
from faults.load import Load
from up_process import WAIT_S, Cluster

from pk.cli.runtime.cluster_files import ClusterState, command, read_state
from pk.cli.runtime.settings import read_properties
from pk.cli.up.certificates import Authority
from pk.core.auth.scram import Mechanism
from pk.net.client.admin import open_admin
from pk.net.client.admin_operations.users import NewPassword
from pk.net.client.results import NewTopic

pytestmark = pytest.mark.faults

TOPIC, PARTITIONS = "orders", 3
SHORT = ("-X", "broker.session.timeout.ms=3000", "-X", "broker.heartbeat.interval.ms=500")


@pytest.fixture
def up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path / variable.lower()))
    cluster = Cluster("--brokers", "3", "--secure", "--data", str(tmp_path / "data"), *SHORT)
    yield cluster
    if cluster.process.poll() is None:
        cluster.process.kill()
        cluster.process.wait()


def state_of(data: Path) -> ClusterState:
    state = read_state(str(data))
    assert state is not None
    return state


def serial_at(address: str, trust: Path) -> int:
    """The serial number of the certificate that a new connection is shown."""
    host, _, port = address.rpartition(":")
    context = ssl.create_default_context(cafile=str(trust))
    with (
        socket.create_connection((host, int(port)), WAIT_S) as plain,
        context.wrap_socket(plain, server_hostname=host) as secured,
    ):
        shown = secured.getpeercert()
    assert shown is not None
    return int(str(shown["serialNumber"]), 16)


def read_partition(security: dict[str, str], partition: int) -> list[int]:
    consumer = confluent_kafka.Consumer(
        {**security, "group.id": "reader", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([confluent_kafka.TopicPartition(TOPIC, partition, 0)])
    found: list[int] = []
    try:
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return found
            found.append(int(message.value() or b""))
    finally:
        consumer.close()


def test_nothing_is_lost_and_nobody_else_notices(up: Cluster, tmp_path: Path) -> None:
    data = tmp_path / "data"
    folder = data / "secure"
    assert "Cluster of 3 brokers is ready" in up.line, up.said
    security = dict(read_properties(str(folder / "librdkafka.properties")))
    as_admin = read_properties(str(folder / "client.properties"))
    del as_admin["bootstrap.servers"]

    async def make_topic() -> None:
        async with open_admin(up.bootstrap, as_admin) as admin:
            await admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])

    async def change_users(number: int) -> None:
        async with open_admin(up.bootstrap, as_admin) as admin:
            for name in ("bob", "carol"):
                change = NewPassword(name, Mechanism.SCRAM_SHA_512, f"secret-{number}", 4096)
                assert not (await admin.set_passwords([change])).errors
            if number:
                gone = await admin.delete_scram_users(Mechanism.SCRAM_SHA_512, ["carol"])
                assert not gone.errors

    trio.run(make_topic)
    with Load(up.bootstrap, TOPIC, PARTITIONS, security=security) as load:
        load.wait_for(200)
        for number, node in enumerate((1, 2, 3)):
            address = state_of(data).node(node).address
            assert address is not None
            before = serial_at(address, folder / "ca.pem")
            renewed = tmp_path / f"renewed-{node}.pem"
            Authority.in_directory(str(folder)).give(str(renewed), f"node-{node}")
            os.replace(renewed, folder / f"node-{node}.pem")
            trio.run(change_users, number)
            wait_until(
                "a new certificate",
                lambda address=address, before=before: (
                    serial_at(address, folder / "ca.pem") != before
                ),
                WAIT_S,
            )
            load.wait_for(200)
        for node in (2, 3):
            command(state_of(data), "kill", node, WAIT_S)
            load.wait_for(200)
            command(state_of(data), "start", node, WAIT_S)
            load.wait_for(200)
        load.finish()
    for partition in range(PARTITIONS):
        assert read_partition(security, partition) == list(range(partition, load.sent, PARTITIONS))
    assert up.end() == -signal.SIGINT
    said = "".join(up.said)
    assert "Traceback" not in said and "Failed authentication" not in said, said[-5000:]
