"""Exit code 4: the error of every command if an authorizer denies access to a topic or a group.
Apache Kafka has one."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from clients import apache_kafka
from clients.apache_kafka import ApacheKafka
from terminal import on_terminal

from pk.cli.main import main

Run = Callable[..., Any]
pytestmark = [pytest.mark.peer, pytest.mark.slow]
c: Any = confluent_kafka.admin  # its types are incomplete
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@contextlib.contextmanager
def authorizing() -> Iterator[ApacheKafka]:
    """Starts a broker of Apache Kafka with an authorizer. The test is skipped if it cannot run."""
    reason = apache_kafka.available()
    if reason is not None:
        pytest.skip(f"Apache Kafka cannot run here: {reason}")
    with ApacheKafka(1, properties=AUTHORIZER, heap="256m") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """A cluster where all access to the topic `secret` and the group `hidden` is denied."""
    with authorizing() as cluster:
        at = ("-b", cluster.bootstrap)
        for words in (
            ("topics", "create", "secret", "open"),
            ("produce", "secret", "value"),
            ("groups", "reset-offsets", "hidden", "-t", "secret", "--to", "start", "-y"),
        ):
            shown = on_terminal(main, (*words, *at))
            assert shown.code == 0, shown.screen
        admin = c.AdminClient({"bootstrap.servers": cluster.bootstrap})
        nobody = ("User:ANONYMOUS", "*", c.AclOperation.ALL, c.AclPermissionType.DENY)
        acls = [
            c.AclBinding(kind, name, c.ResourcePatternType.LITERAL, *nobody)
            for kind, name in ((c.ResourceType.TOPIC, "secret"), (c.ResourceType.GROUP, "hidden"))
        ]
        for made in admin.create_acls(acls).values():
            made.result(20)
        yield cluster.bootstrap


@pytest.fixture(scope="module")
def sealed() -> Iterator[str]:
    """A cluster where clients may neither describe nor alter the cluster itself."""
    with authorizing() as cluster:
        made = on_terminal(main, ("topics", "create", "open", "-b", cluster.bootstrap))
        assert made.code == 0, made.screen
        admin = c.AdminClient({"bootstrap.servers": cluster.bootstrap})
        # The brokers need this operation. An ACL on a resource denies all operations that it does
        # not name.
        binding = c.AclBinding(
            c.ResourceType.BROKER,
            "kafka-cluster",
            c.ResourcePatternType.LITERAL,
            "User:ANONYMOUS",
            "*",
            c.AclOperation.CLUSTER_ACTION,
            c.AclPermissionType.ALLOW,
        )
        for granted in admin.create_acls([binding]).values():
            granted.result(20)
        yield cluster.bootstrap


@pytest.mark.parametrize(
    "line",
    [
        "brokers describe 1",
        "brokers logdirs",
        "cluster health",
        "cluster quorum",
        "configs list",
        "configs describe broker 1",
        "configs alter broker 1 -c log.cleaner.threads=2 -y",
        "doctor",
        "reassign plan -t open --rf 1",
        "reassign apply --set open/0=1 -y",
        "reassign cancel --all -y",
        "reassign status",
        "reassign status -w",
        "reassign throttle",
        "reassign throttle 1MB/s -y",
        "reassign throttle --remove -y",
        "top -n 1",
        "top reassign -n 1",
        "users list",
        "wait reassign --timeout 1s",
        "why partition open/0",
    ],
)
def test_4_from_what_is_about_the_cluster(pk: Run, sealed: str, line: str) -> None:
    ran = pk(*line.split(), "-b", sealed)
    assert ran.code == 4, (ran.text, ran.err)
    assert "CLUSTER_AUTHORIZATION_FAILED" in ran.text + ran.err
    assert "Request(" not in ran.err and "is healthy" not in ran.err and "Traceback" not in ran.err


@pytest.mark.parametrize(
    "line",
    [
        "topics describe secret",
        "topics describe secret open",
        "topics alter secret -c retention.ms=7000000 -y",
        "topics delete secret -y",
        "topics add-partitions secret -n 1 -y",
        "topics trim secret -o end -y",
        "topics offsets secret",
        "produce secret value",
        "consume secret -o start..end",
        "consume open -g hidden -e",
        "cp secret open --once -y",
        "cp open secret --once -y",
        "groups describe hidden",
        "groups lag hidden",
        "groups members hidden",
        "groups watch hidden -n 1",
        "groups reset-offsets hidden -t open --to end -y",
        "groups reset-offsets other -t secret --to end -y",
        "groups delete hidden -y",
        "groups delete-offsets hidden -t secret -y",
        "groups remove-members hidden --all -y",
        "partitions list secret",
        "partitions elect-leaders secret -y",
        "isr secret",
        "isr -w secret",
        "configs describe topic secret",
        "configs alter topic secret -c retention.ms=7000000 -y",
        "configs edit topic secret --file {file} -y",
        "transactions producers secret",
        "why partition secret/0",
        "why lag hidden",
        "why config secret retention.ms",
        "wait topic secret --timeout 1s",
        "wait lag hidden --timeout 1s",
        "wait group-empty hidden --timeout 1s",
        "perf produce -t secret -n 10",
        "perf consume -t secret -n 1",
    ],
)
def test_4_from_every_family(pk: Run, closed: str, tmp_path: Any, line: str) -> None:
    (tmp_path / "text").write_text("retention.ms=90000\n")
    ran = pk(*line.format(file=tmp_path / "text").split(), "-b", closed)
    assert ran.code == 4, (ran.text, ran.err)
    assert "_AUTHORIZATION_FAILED" in ran.err and "Traceback" not in ran.err
