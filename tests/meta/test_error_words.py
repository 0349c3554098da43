"""Errors of admin requests in Apache's words, which scripts look for: from pk, and from Apache
Kafka if it is installed."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from clients.fixtures import Kafka, fresh_name
from meta.test_against_kafka import Asking, described
from meta.world import topic

from pk.core.config.keys import parse_properties
from pk.core.meta.events import BROKER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.wire.messages import alter_configs as legacy
from pk.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from pk.core.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from pk.core.wire.messages.create_topics import CreateTopicsRequest
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from pk.core.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from pk.core.wire.messages.unregister_broker import UnregisterBrokerRequest
from pk.core.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

T = "@"
"""In a case, the topic that exists, with two partitions."""

NO_SUCH = "This server does not host this topic-partition."
CHARS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
MANUAL = "The manual partition assignment includes"
FEATURE = "The update failed for all features since the following feature had an error:"
DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)
DYNAMIC = "Invalid value org.apache.kafka.common.config.ConfigException:"
THROTTLED = "leader.replication.throttled.replicas"
SET, APPEND, SUBTRACT = 0, 2, 3


def create(*wanted: Any) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(wanted), timeout_ms=30_000, validate_only=True)


def delete(*names: str) -> DeleteTopicsRequest:
    states = [DeleteTopicState(name=name) for name in names]
    return DeleteTopicsRequest(topics=states, timeout_ms=30_000)


def grow(name: str, count: int, *brokers: list[int], twice: bool = False) -> Any:
    assigned = [CreatePartitionsAssignment(broker_ids=nodes) for nodes in brokers] or None
    one = CreatePartitionsTopic(name=name, count=count, assignments=assigned)
    return CreatePartitionsRequest(
        topics=[one] * (1 + twice), timeout_ms=30_000, validate_only=True
    )


def alter(
    kind: int, name: str, given: str, operation: int = SET, *, null: bool = False
) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(name=key, config_operation=operation, value=None if null else value)
        for line in given.split()
        for key, value in parse_properties(line).items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def alter_all(name: str, key: str, value: str | None) -> legacy.AlterConfigsRequest:
    resource = legacy.AlterConfigsResource(
        resource_type=TOPIC,
        resource_name=name,
        configs=[legacy.AlterableConfig(name=key, value=value)],
    )
    return legacy.AlterConfigsRequest(resources=[resource], validate_only=True)


def describe(kind: int, name: str) -> DescribeConfigsRequest:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return DescribeConfigsRequest(resources=[resource])


def elect(name: str, partition: int, kind: int = 0) -> ElectLeadersRequest:
    wanted = TopicPartitions(topic=name, partitions=[partition])
    return ElectLeadersRequest(election_type=kind, topic_partitions=[wanted], timeout_ms=30_000)


def reassign(name: str, partition: int, *replicas: int) -> AlterPartitionReassignmentsRequest:
    one = ReassignablePartition(partition_index=partition, replicas=list(replicas))
    return AlterPartitionReassignmentsRequest(
        timeout_ms=30_000, topics=[ReassignableTopic(name=name, partitions=[one])]
    )


def feature(name: str, level: int, kind: int = 1) -> UpdateFeaturesRequest:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    return UpdateFeaturesRequest(timeout_ms=30_000, feature_updates=[update], validate_only=True)


CASES: dict[str, tuple[Any, str]] = {
    "create an existing topic": (create(topic(T)), "Topic '@' already exists."),
    "create a topic twice": (create(topic("x"), topic("x")), "Duplicate topic name."),
    "create a nameless topic": (
        create(topic("")),
        "Topic name is invalid: the empty string is not allowed",
    ),
    "create ..": (create(topic("..")), "Topic name is invalid: '..' is not allowed"),
    "create a bad name": (create(topic("a b")), f"Topic name is invalid: 'a b' {CHARS}"),
    "create a long name": (
        create(topic("x" * 250)),
        (
            f"Topic name is invalid: the length of '{'x' * 250}' is longer than the max allowed "
            "length 249"
        ),
    ),
    "create the metadata log": (
        create(topic("__cluster_metadata")),
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    "create with no partitions": (
        create(topic(partitions=0)),
        "Number of partitions was set to an invalid non-positive value.",
    ),
    "create with too many partitions": (
        create(topic(partitions=10_001)),
        "Excessively large number of partitions per request.",
    ),
    "create with no replicas": (
        create(topic(factor=0)),
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    "create with factor and assignment": (
        create(topic(partitions=-1, assigned={0: [1]})),
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    "create with count and assignment": (
        create(topic(factor=-1, assigned={0: [1]})),
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    "create with a gap": (
        create(topic("t", -1, -1, {0: [1], 2: [1]})),
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "create on a broker twice": (
        create(topic("t", -1, -1, {0: [1, 1]})),
        f"{MANUAL} the broker 1 more than once.",
    ),
    "create without a replica": (
        create(topic("t", -1, -1, {0: []})),
        f"{MANUAL} an empty replica list.",
    ),
    "create on a missing broker": (
        create(topic("t", -1, -1, {0: [9]})),
        f"{MANUAL} broker 9, but no such broker is registered.",
    ),
    "create with an unknown key": (
        create(topic(own={"nope": "1"})),
        "Unknown topic config name: nope",
    ),
    "create without a value": (
        create(topic(own={"retention.ms": None})),
        "Null value not supported for topic configs: retention.ms",
    ),
    "create with no number": (
        create(topic(own={"retention.ms": "soon"})),
        "Invalid value soon for configuration retention.ms: Not a number of type LONG",
    ),
    "create with no boolean": (
        create(topic(own={"preallocate": "yes"})),
        (
            "Invalid value yes for configuration preallocate: Expected value to be either true or "
            "false"
        ),
    ),
    "create below a bound": (
        create(topic(own={"segment.bytes": "100"})),
        "Invalid value 100 for configuration segment.bytes: Value must be at least 1048576",
    ),
    "create above a bound": (
        create(topic(own={"min.cleanable.dirty.ratio": "2"})),
        (
            "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more "
            "than 1"
        ),
    ),
    "create out of bounds": (
        create(topic(own={"compression.gzip.level": "0"})),
        (
            "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and "
            "9 or equal to -1"
        ),
    ),
    "create with no choice": (
        create(topic(own={"cleanup.policy": "shred"})),
        (
            "Invalid value shred for configuration cleanup.policy: String must be one of: compact, "
            "delete"
        ),
    ),
    "create with a contradiction": (
        create(topic(own={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"})),
        "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (3)",
    ),
    "create with tiered storage": (
        create(topic(own={"remote.storage.enable": "true"})),
        (
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        ),
    ),
    "create with a bad throttle": (
        create(topic(own={THROTTLED: "x"})),
        (
            f"Invalid value [x] for configuration {THROTTLED}: {THROTTLED} must be the literal "
            "'*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        ),
    ),
    "delete an unknown topic": (delete("nope"), NO_SUCH),
    "delete a bad name": (delete("a b"), NO_SUCH),
    "delete a topic twice": (delete(T, T), "Duplicate topic name."),
    "grow to as many": (grow(T, 2), "Topic already has 2 partition(s)."),
    "grow to fewer": (
        grow(T, 1),
        "The topic @ currently has 2 partition(s); 1 would not be an increase.",
    ),
    "grow with too few assignments": (
        grow(T, 4, [1]),
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    ),
    "grow to a missing broker": (
        grow(T, 3, [9]),
        f"{MANUAL} broker 9, but no such broker is registered.",
    ),
    "grow twice": (grow(T, 3, twice=True), "Duplicate topic name."),
    "alter an unknown topic": (
        alter(TOPIC, "nope", "flush.ms=1"),
        "The topic 'nope' does not exist.",
    ),
    "alter a bad name": (
        alter(TOPIC, "a b", "flush.ms=1"),
        f"Topic name is invalid: 'a b' {CHARS}",
    ),
    "alter no topic": (
        alter(TOPIC, "", "flush.ms=1"),
        "Default topic resources are not allowed.",
    ),
    "alter an unknown key": (alter(TOPIC, T, "nope=1"), "Unknown topic config name: nope"),
    "alter without a value": (
        alter(TOPIC, T, "flush.ms", null=True),
        "Null value not supported for : flush.ms",
    ),
    "alter a key twice": (
        alter(TOPIC, T, "flush.ms=1 flush.ms=2"),
        "Error due to duplicate config keys",
    ),
    "append to no list": (
        alter(TOPIC, T, "retention.ms=1", APPEND),
        "Can't APPEND to key retention.ms because its type is not LIST.",
    ),
    "subtract from no list": (
        alter(TOPIC, T, "retention.ms=1", SUBTRACT),
        "Can't SUBTRACT to key retention.ms because its type is not LIST.",
    ),
    "alter all keys of an unknown topic": (
        alter_all("nope", "flush.ms", "1"),
        "The topic 'nope' does not exist.",
    ),
    "alter all without a value": (
        alter_all(T, "flush.ms", None),
        "Null value not supported for : flush.ms",
    ),
    "alter no broker": (
        alter(BROKER, "x", "log.retention.ms=5"),
        "Node id must be an integer, but it is: x",
    ),
    "alter another broker": (
        alter(BROKER, "9", "log.retention.ms=5"),
        "Unexpected broker id, expected 1, but received 9",
    ),
    "alter a broker's fixed key": (
        alter(BROKER, "1", "node.id=5"),
        "Cannot update these configs dynamically: [node.id]",
    ),
    "alter a broker's own key for all": (
        alter(BROKER, "", "ssl.client.auth=none"),
        (
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[ssl.client.auth]"
        ),
    ),
    "alter a broker to no number": (
        alter(BROKER, "1", "log.retention.ms=soon"),
        "Invalid value soon for configuration log.retention.ms: Not a number of type LONG",
    ),
    "alter an unknown group key": (
        alter(GROUP, "g", "nope=1"),
        "Unknown group config name: nope",
    ),
    "alter no group": (
        alter(GROUP, "", "consumer.session.timeout.ms=46000"),
        "Default group resources are not allowed.",
    ),
    "alter a group out of bounds": (
        alter(GROUP, "g", "consumer.session.timeout.ms=1"),
        (
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms"
        ),
    ),
    "alter no subscription": (
        alter(CLIENT_METRICS, "", "metrics=a"),
        "Subscription name can't be empty",
    ),
    "alter an unknown subscription key": (
        alter(CLIENT_METRICS, "m", "nope=1"),
        "Unknown client metrics configuration: nope",
    ),
    "alter a subscription to a bad match": (
        alter(CLIENT_METRICS, "m", "match=foo"),
        "Illegal client matching pattern: foo",
    ),
    "alter an unknown type": (alter(99, "x", "a=b"), "Unknown resource type 99"),
    "describe another broker": (
        describe(BROKER, "9"),
        "Unexpected broker id, expected 1 or empty string, but received 9",
    ),
    "describe no broker": (describe(BROKER, "x"), "Broker id must be an integer, but it is: x"),
    "describe no group": (describe(GROUP, ""), "Group name must not be empty"),
    "describe no topic": (
        describe(TOPIC, ""),
        "Topic name is invalid: the empty string is not allowed",
    ),
    "elect without need": (elect(T, 0), "Leader election not needed for topic partition."),
    "elect for an unknown partition": (elect(T, 9), "No such partition as @-9"),
    "elect for an unknown topic": (elect("nope", 0), "No such topic as nope"),
    "elect in an unknown way": (elect(T, 0, 9), "Unknown election type 9"),
    "reassign to a missing broker": (
        reassign(T, 0, 9),
        f"{MANUAL} broker 9, but no such broker is registered.",
    ),
    "reassign an unknown partition": (reassign(T, 9, 1), "Unable to find partition @:9."),
    "reassign an unknown topic": (reassign("nope", 0, 1), "Unable to find a topic named nope."),
    "a lower feature": (
        feature("group.version", 0),
        f"{FEATURE} Invalid update version 0 for feature group.version. {DOWNGRADE}",
    ),
    "a feature in an unknown way": (
        feature("metadata.version", 30, 7),
        (
            f"{FEATURE} Invalid update version 30 for feature metadata.version. "
            "The controller does not support the given upgrade type."
        ),
    ),
    "a feature beyond what is supported": (
        feature("group.version", 2),
        (
            f"{FEATURE} Invalid update version 2 for feature group.version. "
            "Local controller 1 only supports versions 0-1"
        ),
    ),
    "an unknown feature": (
        feature("nope", 1),
        (
            f"{FEATURE} Invalid update version 1 for feature nope. "
            "Local controller 1 does not support this feature."
        ),
    ),
    "an unknown feature, turned off": (
        feature("nope", 0, 2),
        f"{FEATURE} Invalid update version 0 for feature nope. Feature nope not found.",
    ),
    "too small a buffer of the cleaner": (
        alter(BROKER, "1", "log.cleaner.dedupe.buffer.size=1000"),
        (
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread."
        ),
    ),
    "no retention at all": (
        alter(BROKER, "1", "log.retention.ms=0"),
        (
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
            "to 1"
        ),
    ),
    "a negative time of a segment": (
        alter(BROKER, "1", "log.roll.ms=-5"),
        "requirement failed: log.roll.ms must be greater than or equal to 1",
    ),
    "a negative jitter": (
        alter(BROKER, "1", "log.roll.jitter.ms=-5"),
        "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
    ),
    "no connections": (
        alter(BROKER, "1", "max.connections=0"),
        f"{DYNAMIC} Invalid max.connections 0 for configuration Invalid dynamic configuration",
    ),
    "no new connections": (
        alter(BROKER, "", "max.connection.creation.rate=0"),
        (
            f"{DYNAMIC} Invalid max.connection.creation.rate 0 for configuration Invalid dynamic "
            "configuration"
        ),
    ),
    "no connections of any address": (
        alter(BROKER, "1", "max.connections.per.ip=0"),
        (
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set."
        ),
    ),
    "min.insync.replicas of one broker, out of bounds": (
        alter(BROKER, "1", "min.insync.replicas=0"),
        "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1",
    ),
    "unregister a missing broker": (
        UnregisterBrokerRequest(broker_id=99),
        "Broker ID 99 is not currently registered",
    ),
}


@pytest.fixture(scope="module")
def existing(kafka: Kafka) -> Iterator[str]:
    name = fresh_name("words")
    with Asking(kafka) as asking:
        wanted = CreateTopicsRequest(topics=[topic(name, 2, 1)], timeout_ms=30_000)
        (made,) = asking.ask(wanted).topics
        assert made.error_code == 0
        described(asking, TOPIC, name)  # the broker knows it by then
        yield name
        asking.ask(delete(name))


def messages(answer: Any) -> set[str]:
    """All error messages that an answer holds."""
    own = {answer.error_message} if getattr(answer, "error_message", None) else set()
    fields = [getattr(answer, name) for name in dir(answer) if not name.startswith("_")]
    inner = [each for field in fields if isinstance(field, list) for each in field]
    return own.union(*(messages(each) for each in inner))


def named(request: Any, name: str) -> None:
    """Replace the placeholder in a case with the topic's name."""
    for field in dir(request):
        value = None if field.startswith("_") else getattr(request, field)
        if value == T:
            setattr(request, field, name)
        elif isinstance(value, list):
            for each in value:
                named(each, name)


@pytest.mark.parametrize("case", CASES)
def test_an_error_has_the_words_of_apache(kafka: Kafka, existing: str, case: str) -> None:
    request, words = copy.deepcopy(CASES[case])
    named(request, existing)
    with Asking(kafka) as asking:
        assert messages(asking.ask(request)) == {words.replace(T, existing)}
