"""Apache's own checks of a cluster: ClientCompatibilityTest, and what kafka-features and kafka-acls
say."""

from __future__ import annotations

import re

import pytest

from clients import apache_kafka
from clients.fixtures import Kafka, fresh_name
from clients.topics import create_topic

pytestmark = pytest.mark.peer

TOOLS = "org.apache.kafka.tools"


def test_apaches_compatibility_test_succeeds(kafka: Kafka) -> None:
    topic = create_topic(kafka, fresh_name("compatible"), 1)
    supported = (
        "offsets-for-times",
        "cluster-id",
        "create-topics",
        "describe-acls",
        "describe-configs",
        "idempotent-producer",
    )
    ran = apache_kafka.run_tool(
        f"{TOOLS}.ClientCompatibilityTest",
        *("--bootstrap-server", kafka.bootstrap, "--topic", topic, "--num-cluster-nodes", "1"),
        *("--expect-record-too-large-exception", "False"),
        *(word for name in supported for word in (f"--{name}-supported", "True")),
    )
    assert ran.returncode == 0 and "SUCCESS." in ran.stdout, ran.stdout + ran.stderr


def test_the_metadata_version_is_finalized(kafka: Kafka) -> None:
    ran = apache_kafka.run_tool(
        f"{TOOLS}.FeatureCommand", "--bootstrap-server", kafka.bootstrap, "describe"
    )
    (line,) = [row for row in ran.stdout.splitlines() if "metadata.version" in row]
    found = re.search(r"SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)", line)
    assert found is not None and found.groups() == ("4.3-IV0", "4.3-IV0"), ran.stdout


@pytest.mark.parametrize(
    "action, said",
    [
        ("--list", "No Authorizer is configured on the broker"),
        ("--add", "No Authorizer is configured on the broker"),
        ("--remove", "No Authorizer is configured."),
    ],
)
def test_access_rules_need_an_authorizer(kafka: Kafka, action: str, said: str) -> None:
    rule = () if action == "--list" else ("--allow-principal", "User:a", "--operation", "Read")
    ran = apache_kafka.run_tool(
        f"{TOOLS}.AclCommand",
        *("--bootstrap-server", kafka.bootstrap, action, "--topic", "t", "--force", *rule),
    )
    assert f"SecurityDisabledException: {said}\n" in ran.stdout + ran.stderr
