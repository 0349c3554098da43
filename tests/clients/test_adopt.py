"""Directories change hands: what Apache Kafka wrote is served by pk, and what pk wrote by Apache
Kafka, record for record."""

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from clients import apache_kafka
from clients.apache_kafka import ApacheKafka
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker, pk_command, pk_environment
from clients.topics import group_admin, wait_for_marks, wait_until
from pk.core.auth.acls import AclBinding, AclFilter
from pk.core.auth.scram import Mechanism
from pk.net.client.admin import open_admin
from pk.net.client.admin_operations.users import NewPassword

pytestmark = pytest.mark.peer

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
GROUP = "adopted-group"
SESSION = {
    "group.consumer.session.timeout.ms": "600000",
    "group.consumer.max.session.timeout.ms": "600000",
}
"""How long a static member may be away: longer than a busy machine needs to look at everything."""

Seen = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")


def create(bootstrap: str, topics: dict[str, int], **configs: dict[str, str]) -> None:
    new = [
        NewTopic(name, num_partitions=n, replication_factor=1, config=configs.get(name, {}))
        for name, n in topics.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics(new).values():
        future.result(60)


def fill(bootstrap: str, topic: str, codec: str, count: int, **config: Any) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 20,
            "enable.idempotence": True,
            **config,
        }
    )
    for i in range(count):
        producer.produce(
            topic,
            key=f"{codec}-{i % 50}".encode(),
            value=None if i % 97 == 96 else b"%d " % i + b"payload " * (i % 13),
            headers=[("n", b"%d" % i), ("n", None)] if i % 5 == 0 else None,
            timestamp=1_700_000_000_000 + i * 1000,
        )
        producer.poll(0)
    assert producer.flush(60) == 0


def transactions(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"txn-{topic}"})
    producer.init_transactions(60)
    for commits in (True, False, True):
        producer.begin_transaction()
        for i in range(20):
            producer.produce(topic, key=b"%d" % i, value=b"committed" if commits else b"aborted")
        producer.flush(60)
        producer.commit_transaction(60) if commits else producer.abort_transaction(60)
    wait_for_marks(Kafka("apache", bootstrap, Path()), topic, 3 * (20 + 1))


def everything(bootstrap: str, topics: dict[str, int], isolation: str) -> dict[str, Seen]:
    """Every record of the topics by partition, with all that a client sees of it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    places = [TopicPartition(t, p, -2) for t, n in topics.items() for p in range(n)]
    found: dict[str, Seen] = {f"{p.topic}-{p.partition}": [] for p in places}
    consumer.assign(places)
    at_end: set[str] = set()
    while len(at_end) < len(places):
        message = consumer.poll(60)
        assert message is not None, f"nothing more came; at the end: {sorted(at_end)}"
        name = f"{message.topic()}-{message.partition()}"
        if (error := message.error()) is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            at_end.add(name)
            continue
        found[name].append(
            (
                message.offset(),
                message.timestamp(),
                message.key(),
                message.value(),
                message.headers(),
            )
        )
    low_high = {
        f"{p.topic}-{p.partition}": consumer.get_watermark_offsets(p, timeout=60) for p in places
    }
    consumer.close()
    return found | {f"{name} bounds": [bounds] for name, bounds in low_high.items()}


def commit(bootstrap: str, places: Iterable[TopicPartition]) -> None:
    request = ConsumerGroupTopicPartitions(GROUP, list(places))
    admin = group_admin(Kafka("apache", bootstrap, Path()))
    for future in admin.alter_consumer_group_offsets([request]).values():
        future.result(60)


def committed(bootstrap: str) -> dict[tuple[str, int], int]:
    admin = group_admin(Kafka("any", bootstrap, Path()))
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(GROUP)]).values()
    return {(p.topic, p.partition): p.offset for p in future.result(60).topic_partitions}


def in_consumer_group(bootstrap: str) -> set[int]:
    """The partitions assigned to a static member of a group of the consumer protocol. It goes as
    one that means to be back, and has SESSION for that."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "by-coordinator",
            "group.protocol": "consumer",
            "group.instance.id": "always-there",
            "auto.offset.reset": "latest",
        }
    )
    consumer.subscribe(["codecs"])
    assigned: set[int] = set()
    while len(assigned) < 3:
        consumer.poll(0.1)
        assigned = {p.partition for p in consumer.assignment()}
    consumer.close()
    return assigned


def consumer_group(bootstrap: str) -> dict[str, Any]:
    """Epochs and members of that group, as `pk groups` has them; the member's id is another each
    time."""
    found = pk("groups", "describe", "by-coordinator", "-b", bootstrap, "-f", "json")
    assert found.returncode == 0, found.stderr
    group = json.loads(found.stdout)
    (group,) = group if isinstance(group, list) else [group]
    (member,) = group["members"]
    return {
        **{name: group[name] for name in ("group_epoch", "assignment_epoch")},
        **{n: member[n] for n in ("instance_id", "subscribed", "assignment", "target")},
    }


def pk(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        pk_command(*words),
        capture_output=True,
        text=True,
        env=pk_environment(),
        timeout=120,
        check=False,
    )


def test_pk_serves_what_apache_kafka_wrote(tmp_path: Path) -> None:
    topics = {"codecs": 3, "deleted": 1, "compacted": 1, "txn": 1, "empty": 2}
    properties = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "3"}
    apache = ApacheKafka(directory=tmp_path, properties=properties | SESSION)
    with apache:
        bootstrap = apache.bootstrap
        create(
            bootstrap,
            topics,
            compacted={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
            deleted={"segment.bytes": "1048576", "retention.ms": "-1"},
            codecs={"retention.ms": "-1"},
        )
        for codec in CODECS:
            fill(bootstrap, "codecs", codec, 400)
        fill(bootstrap, "deleted", "none", 3000, **{"batch.size": 2000})
        fill(bootstrap, "compacted", "lz4", 500)
        transactions(bootstrap, "txn")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for future in admin.delete_records([TopicPartition("deleted", 0, 1234)]).values():
            future.result(60)
        commit(bootstrap, [TopicPartition("codecs", 1, 77), TopicPartition("txn", 0, 9)])
        before = {i: everything(bootstrap, topics, i) for i in IsolationLevelNames}
        offsets = committed(bootstrap)
        assigned = in_consumer_group(bootstrap)
        by_coordinator = consumer_group(bootstrap)
        data = apache.log_dir(1)
        refused = pk("log", "adopt", str(data), "-y")
        assert (refused.returncode, "is in use" in refused.stderr) == (1, True), refused.stderr
        beside = pk("log", "verify", str(data))
        assert beside.returncode == 0, beside.stdout + beside.stderr
        apache.stop(1)

        checked = pk("log", "verify", str(data))
        assert checked.returncode == 0, checked.stdout + checked.stderr
        dry = pk("log", "adopt", str(data), "--dry-run", "-f", "json")
        assert dry.returncode == 0, dry.stderr
        assert (data / "__cluster_metadata-0").exists() and not (data / "pk-metadata").exists()
        taken = pk("log", "adopt", str(data), "-y", "-c", "empty:retention.ms=12345")
        assert taken.returncode == 0, taken.stderr
        assert not (data / "__cluster_metadata-0").exists()
        assert any((data / "apache-kafka" / "__cluster_metadata-0").iterdir())

        with PkBroker(directory=data, config=SESSION) as broker:
            at = broker.bootstrap
            for isolation, seen in before.items():
                assert everything(at, topics, isolation) == seen, isolation
            assert committed(at) == offsets
            assert consumer_group(at) == by_coordinator
            # Its member is back in its place. What the group reads has the hash that Apache wrote:
            # no epoch is new.
            assert in_consumer_group(at) == assigned == {0, 1, 2}
            assert consumer_group(at) == by_coordinator
            described = pk("configs", "describe", "topic", "compacted", "-b", at, "-f", "json")
            assert (
                '"min.cleanable.dirty.ratio"' in described.stdout and '"0.01"' in described.stdout
            )
            described = pk("configs", "describe", "topic", "empty", "-b", at, "-f", "json")
            assert '"12345"' in described.stdout
            fill(at, "codecs", "zstd", 100)  # and it goes on
            after = everything(at, {"codecs": 3}, "read_committed")
            assert sum(len(after[f"codecs-{p}"]) for p in range(3)) == 5 * 400 + 100
            assert broker.stop() == 0
        again = pk("log", "verify", str(data))
        assert again.returncode == 0, again.stdout + again.stderr


IsolationLevelNames = ("read_uncommitted", "read_committed")


def test_apache_kafka_serves_what_pk_wrote(tmp_path: Path) -> None:
    topics = {"codecs": 2, "deleted": 1}
    ours = tmp_path / "pk"
    ours.mkdir()
    with PkBroker(directory=ours) as broker:
        at = broker.bootstrap
        create(
            at,
            topics,
            deleted={"segment.bytes": "1048576", "retention.ms": "-1"},
            codecs={"retention.ms": "-1"},
        )
        for codec in CODECS:
            fill(at, "codecs", codec, 300)
        fill(at, "deleted", "none", 2000, **{"batch.size": 2000})
        admin = AdminClient({"bootstrap.servers": at})
        for future in admin.delete_records([TopicPartition("deleted", 0, 500)]).values():
            future.result(60)
        before = everything(at, topics, "read_uncommitted")
        assert broker.stop() == 0
    before.pop("deleted-0 bounds")

    apache = ApacheKafka(directory=tmp_path / "apache")
    with apache:
        retention = {"retention.ms": "-1"}
        create(apache.bootstrap, topics, codecs=retention, deleted=retention)
        data = apache.log_dir(1)
        wait_until(
            "their directories", lambda: all(has_directory(data, *t) for t in topics.items())
        )
        apache.stop(1)
        for name, count in topics.items():
            for partition in range(count):
                put(ours / f"{name}-{partition}", data / f"{name}-{partition}")
        apache.start(1)
        after = everything(apache.bootstrap, topics, "read_uncommitted")
        after.pop("deleted-0 bounds")
        # Where a log starts is in the data directory's checkpoint, which stays Apache's.
        after["deleted-0"] = [r for r in after["deleted-0"] if r[0] >= 500]
        assert after == before


def has_directory(data: Path, topic: str, partitions: int) -> bool:
    """Whether a broker has made the directories of a topic: its controller answers before."""
    return all((data / f"{topic}-{p}" / "partition.metadata").exists() for p in range(partitions))


def put(ours: Path, theirs: Path) -> None:
    """Our files in place of theirs, all but the one that says of which topic they are."""
    for file in theirs.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    for file in ours.iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, theirs / file.name)


STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def test_acls_users_and_quotas_come_along(tmp_path: Path) -> None:
    """Also those that were changed and deleted; and a user logs in at pk with the password that
    Apache Kafka had."""
    keys = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}

    async def change(bootstrap: str) -> None:
        async with open_admin(bootstrap) as admin:
            rules = [
                AclBinding(2, name, pattern, "User:alice", "*", 3, 3)
                for name, pattern in (("orders", 3), ("orders-", 4), ("gone", 3))
            ]
            assert not (await admin.create_acls(rules)).errors
            await admin.delete_acls([AclFilter(2, "gone", 3, None, None, 1, 1)])
            for user in ("alice", "bob"):
                for mechanism in Mechanism:
                    change = NewPassword(user, mechanism, f"{user}-secret", 4096)
                    assert not (await admin.set_passwords([change])).errors
            await admin.delete_scram_users(Mechanism.SCRAM_SHA_512, ["bob"])

    kafka = ApacheKafka(properties=keys, directory=tmp_path / "kafka")
    with kafka:
        trio.run(change, kafka.bootstrap)
        for words in (
            (
                "--add-config",
                "producer_byte_rate=1000000",
                "--entity-type",
                "users",
                "--entity-name",
                "alice",
            ),
            (
                "--add-config",
                "consumer_byte_rate=5000",
                "--entity-type",
                "clients",
                "--entity-default",
            ),
        ):
            ran = apache_kafka.run_tool(
                "kafka.admin.ConfigCommand",
                "--bootstrap-server",
                kafka.bootstrap,
                "--alter",
                *words,
            )
            assert ran.returncode == 0, ran.stderr
        data = kafka.log_dir(1)
    adopted = subprocess.run(
        pk_command("log", "adopt", str(data), "-y"),
        capture_output=True, text=True, check=True, env=pk_environment(), timeout=120,
    )  # fmt: skip
    assert "with 2 ACLs, 3 passwords for SCRAM and 2 quotas" in adopted.stderr, adopted.stderr
    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ours = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
        "listener.name.clients.scram-sha-256.sasl.jaas.config": (
            f'{login} username="admin" password="a";'
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:admin;User:bob",
    }

    async def look(bootstrap: str) -> None:
        keys = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "bob",
            "sasl.password": "bob-secret",
        }
        async with open_admin(bootstrap, keys) as admin:
            rules = await admin.describe_acls()
            assert {rule.resource_name for rule in rules} == {"orders", "orders-"}
            users = await admin.describe_scram_users()
            assert {
                (one.user, one.mechanism.name) for answer in users.ok.values() for one in answer
            } == {
                ("alice", "SCRAM_SHA_256"),
                ("alice", "SCRAM_SHA_512"),
                ("bob", "SCRAM_SHA_256"),
            }

    with PkBroker(directory=data, config=ours) as broker:
        trio.run(look, broker.bootstrap)
