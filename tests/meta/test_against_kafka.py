"""pk's tables and decisions, compared with a broker's answers over a socket: pk's, and Apache
Kafka's if it is installed."""

from __future__ import annotations

import socket
from typing import Any, Self

from clients.fixtures import Kafka, fresh_name
from clients.topics import wait_until
from meta import test_configs, test_topics
from meta.world import topic

from pk.core.config import BROKER_KEYS, CLIENT_METRICS_KEYS, GROUP_KEYS, TOPIC_KEYS, Key, Type
from pk.core.errors import ErrorCode
from pk.core.meta.describe import Source
from pk.core.meta.events import BROKER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_topics import CreateTopicsRequest
from pk.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from pk.core.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)
from pk.core.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

DIFFERENT = {"listeners"}
"""Kafka can listen elsewhere at once."""


class Asking:
    """One connection."""

    def __init__(self, kafka: Kafka) -> None:
        self._socket = socket.create_connection((kafka.host, kafka.port), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._socket.close()

    def ask(self, request: Any) -> Any:
        """The answer in the newest version."""
        key = request.API_KEY
        version = MESSAGES[key].versions[1]
        self._socket.sendall(frame_request(request, version, 1, "test"))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        _, position = parse_response_header(frame, key, version)
        return decode_whole(MESSAGES[key].response, frame, version, position)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


def described(asking: Asking, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        ],
        include_synonyms=True,
    )

    def reported() -> DescribeConfigsResult | None:
        # The controller of Apache Kafka answers that a topic is made before its brokers have heard.
        (result,) = asking.ask(request).results
        return None if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else result

    result = wait_until(f"the configs of {name}", reported)
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def default_of(config: DescribeConfigsResourceResult) -> str | None:
    """The default in a description: its last synonym, or its value if that is a default."""
    if config.synonyms:
        last = config.synonyms[-1]
        return last.value if last.source == Source.DEFAULT and last.name == config.name else None
    return config.value if config.config_source == Source.DEFAULT else None


def _is_ours(name: str) -> bool:
    """Whether Kafka 4.3.1 lacks the key: it is pk's own, or of a part of KIP-966 still to come."""
    return name.startswith(("pk.", "unclean.recovery."))


def check(
    keys: dict[str, Key], found: dict[str, DescribeConfigsResourceResult], dynamic: bool
) -> None:
    known = {name: key for name, key in keys.items() if not _is_ours(name)}
    assert {name for name in found if not _is_ours(name)} == set(known)
    for name, key in known.items():
        config = found[name]
        assert (config.config_type, config.is_sensitive) == (key.type, key.sensitive), name
        if dynamic:
            assert config.read_only == (not key.dynamic), name
        default = default_of(config)
        if default is not None and not key.sensitive:
            assert default == key.default, name


def test_every_key_is_described_as_the_table_has_it(kafka: Kafka) -> None:
    name = fresh_name("meta")
    with Asking(kafka) as asking:
        wanted = topic(name, 1, 1)
        (made,) = asking.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert made.error_code == 0
        check(dict(BROKER_KEYS), described(asking, BROKER, "1"), dynamic=True)
        check(dict(TOPIC_KEYS), described(asking, TOPIC, name), dynamic=False)
        check(dict(GROUP_KEYS), described(asking, GROUP, name), dynamic=False)
        check(dict(CLIENT_METRICS_KEYS), described(asking, CLIENT_METRICS, name), dynamic=False)
        asking.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000))


def test_topics_are_refused_with_the_same_codes(kafka: Kafka) -> None:
    refused = [case for case in test_topics.REFUSED if case[0] is test_topics.ONE]
    with Asking(kafka) as asking:
        for _, wanted, code in refused:
            request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000, validate_only=True)
            (answer,) = asking.ask(request).topics
            assert ErrorCode(answer.error_code) == code, (wanted, answer.error_message)
    assert len(refused) > 30


def test_changes_are_refused_with_the_same_codes(kafka: Kafka) -> None:
    name = fresh_name("meta")
    with Asking(kafka) as asking:
        wanted = topic(name, 1, 1)
        (made,) = asking.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)).topics
        assert made.error_code == 0
        for kind, resource, changes, code in test_configs.REFUSED:
            if any(key in DIFFERENT or operation > 3 for key, operation, _ in changes):
                continue
            request = IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name if (kind, resource) == (TOPIC, "t") else resource,
                        configs=[
                            AlterableConfig(name=key, config_operation=operation, value=value)
                            for key, operation, value in changes
                        ],
                    )
                ],
                validate_only=True,
            )
            (answer,) = asking.ask(request).responses
            assert ErrorCode(answer.error_code) == code, (kind, changes, answer.error_message)
        asking.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=30_000))


def changed(asking: Asking, kind: int, resource: str, operation: int, **own: str | None) -> int:
    configs = [
        AlterableConfig(name=key, config_operation=operation, value=value)
        for key, value in own.items()
    ]
    one = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=configs)
    (answer,) = asking.ask(IncrementalAlterConfigsRequest(resources=[one])).responses
    return answer.error_code


def test_keys_that_nothing_reads_are_stored_and_described_alike(kafka: Kafka) -> None:
    prefix, relogin = "listener.name.x.", "sasl.kerberos.min.time.before.relogin"
    with Asking(kafka) as asking:
        for kind, resource, (key, value) in test_configs.TAKEN:
            assert changed(asking, kind, resource, 0, **{key: value}) == 0, key
        names = {key for _, resource, (key, _) in test_configs.TAKEN if resource == "1"}

        def all_described() -> dict[str, DescribeConfigsResourceResult] | None:
            found = described(asking, BROKER, "1")
            in_force = names <= found.keys() and found[relogin].value == "5"
            return found if in_force else None

        found = wait_until("the brokers' own keys", all_described)
        said = {
            name: (
                one.value, one.read_only, one.config_source, one.is_sensitive, one.config_type,
                [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms],
            )
            for name, one in found.items()
            if name in names
        }  # fmt: skip
        for kind, resource, (key, _) in test_configs.TAKEN:
            assert changed(asking, kind, resource, 1, **{key: None}) == 0, key
    own, default = Source.DYNAMIC_BROKER, Source.DYNAMIC_DEFAULT_BROKER
    reauth, rules = "connections.max.reauth.ms", "ssl.principal.mapping.rules"
    unknown = (None, True, own, True, 0)
    assert said == {
        "made.up": (*unknown, [("made.up", None, own), ("made.up", None, default)]),
        "retention.ms": (*unknown, [("retention.ms", None, own)]),
        "num.io.thread": (*unknown, [("num.io.thread", None, own)]),
        f"{prefix}made.up": (
            *unknown,
            [(f"{prefix}made.up", None, own), ("made.up", None, own), ("made.up", None, default)],
        ),
        f"{prefix}num.partitions": (
            *("5", True, own, False, Type.INT),
            [(f"{prefix}num.partitions", "5", own), ("num.partitions", "1", Source.DEFAULT)],
        ),
        f"{prefix}{rules}": (
            *("DEFAULT", True, own, False, Type.STRING),
            [(f"{prefix}{rules}", "DEFAULT", own), (rules, "DEFAULT", Source.DEFAULT)],
        ),
        f"{prefix}{reauth}": (
            *("5", True, own, False, Type.LONG),
            [(f"{prefix}{reauth}", "5", own), (reauth, "0", Source.DEFAULT)],
        ),
        relogin: (
            *("5", False, own, False, Type.LONG),
            [(relogin, "5", own), (relogin, "60000", Source.DEFAULT)],
        ),
    }
