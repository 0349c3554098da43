"""Configs on a broker: described with sources and docs, altered in two ways, in force at once,
loggers included."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from api.admin import Admin, asking
from each import for_each
from group.brokers import simulated

from pk.core.config import BROKER_KEYS, TOPIC_KEYS, Type
from pk.core.errors import ErrorCode
from pk.core.meta.describe import Source
from pk.core.meta.events import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from pk.core.wire.messages import alter_configs as legacy
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
from pk.core.wire.messages.list_config_resources import ListConfigResourcesRequest

SET, DELETE, APPEND = 0, 1, 2
INVALID_REQUEST, INVALID_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


def describe(
    kind: int,
    name: str,
    *keys: str,
    all_keys: bool = False,
    synonyms: bool = True,
    docs: bool = False,
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if all_keys else list(keys),
            )
        ],
        include_synonyms=synonyms,
        include_documentation=docs,
    )


async def described(
    admin: Admin, kind: int, name: str, *keys: str
) -> dict[str, DescribeConfigsResourceResult]:
    (result,) = (await admin.ask(describe(kind, name, *keys))).results
    assert (result.error_code, result.error_message) == (0, "")
    return {config.name: config for config in result.configs}


async def alter(admin: Admin, kind: int, name: str, key: str, operation: int, value: str | None):
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, config_operation=operation, value=value)],
            )
        ]
    )
    (answer,) = (await admin.ask(request)).responses
    assert (answer.resource_type, answer.resource_name) == (kind, name)
    return answer.error_code


@pytest.mark.parametrize("version", range(5))
def test_every_version_describes_a_topic(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await admin.create("t")
            request = describe(TOPIC, "t", all_keys=True, synonyms=version >= 1, docs=version >= 3)
            (result,) = (await admin.ask(request, version)).results
            assert [c.name for c in result.configs] == sorted(TOPIC_KEYS)
            by_name = {c.name: c for c in result.configs}
            size = by_name["max.message.bytes"]
            assert (size.value, size.read_only, size.is_sensitive) == ("1048588", False, False)
            assert size.config_source == (Source.DEFAULT if version >= 1 else -1)
            assert len(size.synonyms) == (1 if version >= 1 else 0)
            assert size.config_type == (Type.INT if version >= 3 else 0)
            doc = TOPIC_KEYS["max.message.bytes"].doc
            assert size.documentation == (doc if version >= 3 else "")

    main()


@simulated
async def test_docs_and_synonyms_come_to_who_asks() -> None:
    async with asking() as admin:
        await admin.create("t")
        request = describe(TOPIC, "t", "retention.ms", "nope", synonyms=False)
        (config,) = (await admin.ask(request)).results[0].configs
        assert (config.name, config.synonyms, config.documentation) == ("retention.ms", [], None)
        # No keys are all keys.
        assert len((await admin.ask(describe(TOPIC, "t"))).results[0].configs) == len(TOPIC_KEYS)


@simulated
async def test_a_broker_describes_itself_and_hides_its_secrets() -> None:
    async with asking(ssl_key_password="hush") as admin:
        found = await described(admin, BROKER, "1")
        assert set(found) == set(BROKER_KEYS)
        assert found["node.id"].read_only and found["node.id"].value == "1"
        assert found["node.id"].config_source == Source.STATIC_BROKER
        assert not found["log.retention.ms"].read_only
        secret = found["ssl.key.password"]
        assert secret.is_sensitive and secret.value is None
        assert [s.value for s in secret.synonyms] == [None]
        assert await described(admin, BROKER, "") == {}
        assert await alter(admin, BROKER, "", "log.retention.ms", SET, "5") == 0
        found = await described(admin, BROKER, "")
        assert found["log.retention.ms"].value == "5"
        found = await described(admin, BROKER, "1", "log.retention.ms")
        assert found["log.retention.ms"].config_source == Source.DYNAMIC_DEFAULT_BROKER


@for_each(
    "kind, name, code",
    [
        (TOPIC, "nope", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", INVALID_REQUEST),
        (BROKER, "x", INVALID_REQUEST),
        (BROKER_LOGGER, "", INVALID_REQUEST),
        (BROKER_LOGGER, "7", INVALID_REQUEST),
        (CLIENT_METRICS, "", INVALID_REQUEST),
        (GROUP, "", INVALID_REQUEST),
        (99, "x", INVALID_REQUEST),
    ],
)
def test_what_is_missing_is_not_described(kind: int, name: str, code: ErrorCode) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            result: DescribeConfigsResult
            (result,) = (await admin.ask(describe(kind, name))).results
            assert (result.error_code, result.configs) == (code, [])
            assert (result.resource_type, result.resource_name) == (kind, name)
            assert result.error_message

    main()


@simulated
async def test_a_topics_keys_are_in_force_at_once() -> None:
    async with asking() as admin:
        await admin.create("t")
        log = admin.broker.data.replicas.partition("t", 0).log
        assert await alter(admin, TOPIC, "t", "max.message.bytes", SET, "99") == 0
        assert log.state.config.max_message_bytes == 99
        found = await described(admin, TOPIC, "t", "max.message.bytes")
        assert [(s.name, s.value, s.source) for s in found["max.message.bytes"].synonyms] == [
            ("max.message.bytes", "99", Source.TOPIC),
            ("message.max.bytes", "1048588", Source.DEFAULT),
        ]
        assert await alter(admin, TOPIC, "t", "max.message.bytes", DELETE, None) == 0
        assert log.state.config.max_message_bytes == 1048588
        assert await alter(admin, BROKER, "1", "message.max.bytes", SET, "55") == 0
        assert admin.broker.config.message_max_bytes == 55
        assert log.state.config.max_message_bytes == 55, "topics follow their broker"


@simulated
async def test_refusals_are_answered_beside_what_is_done() -> None:
    async with asking() as admin:
        await admin.create("t")
        request = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=kind,
                    resource_name=name,
                    configs=[AlterableConfig(name=key, config_operation=SET, value="5")],
                )
                for kind, name, key in (
                    (TOPIC, "t", "flush.ms"),
                    (TOPIC, "nope", "flush.ms"),
                    (BROKER, "7", "log.retention.ms"),
                    (GROUP, "g", "nope"),
                )
            ]
        )
        for version in (0, 1):
            answer = await admin.ask(request, version)
            assert {(r.resource_type, r.resource_name): r.error_code for r in answer.responses} == {
                (TOPIC, "t"): 0,
                (TOPIC, "nope"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                (BROKER, "7"): INVALID_REQUEST,
                (GROUP, "g"): INVALID_CONFIG,
            }
        assert admin.broker.image.topic_configs("t") == {"flush.ms": "5"}


@pytest.mark.parametrize("version", range(3))
def test_the_legacy_request_replaces(version: int) -> None:
    @simulated
    async def main() -> None:
        async with asking() as admin:
            await admin.create("t")
            await alter(admin, TOPIC, "t", "flush.ms", SET, "5")
            request = legacy.AlterConfigsRequest(
                resources=[
                    legacy.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[legacy.AlterableConfig(name="retention.ms", value="7")],
                    )
                    for kind, name in ((TOPIC, "t"), (BROKER, "7"), (BROKER_LOGGER, "1"))
                ]
            )
            for validate in (True, False):
                request.validate_only = validate
                answer = await admin.ask(request, version)
                codes = {r.resource_type: r.error_code for r in answer.responses}
                assert codes == {TOPIC: 0, BROKER: INVALID_REQUEST, BROKER_LOGGER: INVALID_REQUEST}
                own = admin.broker.image.topic_configs("t")
                assert own == ({"flush.ms": "5"} if validate else {"retention.ms": "7"})

    main()


@pytest.fixture
def a_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("pk.test.loggers")
    root = logging.getLogger().level
    logger.setLevel(logging.WARNING)
    yield logger
    logger.setLevel(logging.NOTSET)
    logging.getLogger().setLevel(root)


def test_loggers_are_described_and_set(a_logger: logging.Logger) -> None:
    name = a_logger.name

    @simulated
    async def main() -> None:
        async with asking() as admin:
            found = await described(admin, BROKER_LOGGER, "1", name)
            assert (found[name].value, found[name].config_source) == ("WARN", Source.BROKER_LOGGER)
            assert "root" in await described(admin, BROKER_LOGGER, "1")
            for level, value in (("TRACE", 5), ("INFO", 20), ("FATAL", 50)):
                assert await alter(admin, BROKER_LOGGER, "1", name, SET, level) == 0
                assert a_logger.level == value
                assert (await described(admin, BROKER_LOGGER, "1", name))[name].value == level
            assert await alter(admin, BROKER_LOGGER, "1", name, DELETE, None) == 0
            assert a_logger.level == logging.NOTSET
            for key, operation, value, code in (
                ("pk.no.such", SET, "INFO", INVALID_CONFIG),
                (name, SET, "LOUD", INVALID_CONFIG),
                (name, SET, None, INVALID_REQUEST),
                (name, APPEND, "INFO", INVALID_REQUEST),
                ("root", DELETE, None, INVALID_REQUEST),
            ):
                assert await alter(admin, BROKER_LOGGER, "1", key, operation, value) == code
            assert await alter(admin, BROKER_LOGGER, "7", name, SET, "INFO") == INVALID_REQUEST
            assert admin.broker.image.configs == {}, "no logger is the cluster's business"

    main()


@pytest.mark.parametrize(
    ("key", "value", "refused"),
    [
        ("cordoned.log.dirs", "/nope", "Missing entries : /nope"),
        ("cordoned.log.dirs", "*,/logs", "when cordoned.log.dirs is set to *, it must not contain"),
        ("cordoned.log.dirs", "*", None),
        ("cordoned.log.dirs", "/logs", None),
        ("log.cleaner.threads", "0", "Log cleaner threads should be at least 1"),
        ("log.cleaner.threads", "1", "cannot be reduced to less than half the current value 4"),
        ("log.cleaner.threads", "9", "cannot be increased to more than double the current value 4"),
        ("log.cleaner.threads", "2", None),
        ("log.cleaner.threads", "8", None),
    ],
)
@pytest.mark.parametrize("kind", ["incremental", "legacy"])
def test_a_running_broker_refuses_what_apache_kafka_refuses(
    key: str, value: str, refused: str | None, kind: str
) -> None:
    @simulated
    async def main() -> None:
        async with asking(log_cleaner_threads="4") as admin:
            (directory,) = admin.broker.config.log_dirs
            given = value.replace("/logs", directory)
            if kind == "legacy":
                change = legacy.AlterableConfig(name=key, value=given)
                resource = legacy.AlterConfigsResource(
                    resource_type=BROKER, resource_name="1", configs=[change]
                )
                request = legacy.AlterConfigsRequest(resources=[resource])
            else:
                setting = AlterableConfig(name=key, config_operation=SET, value=given)
                changed = AlterConfigsResource(
                    resource_type=BROKER, resource_name="1", configs=[setting]
                )
                request = IncrementalAlterConfigsRequest(resources=[changed])
            (answer,) = (await admin.ask(request)).responses
            if refused is None:
                assert (answer.error_code, answer.error_message) == (0, None)
            else:
                assert answer.error_code == INVALID_REQUEST
                assert refused.lower() in (answer.error_message or "").lower()

    main()


@simulated
async def test_resources_are_listed() -> None:
    async with asking() as admin:
        await admin.create("t")
        await alter(admin, CLIENT_METRICS, "m", "interval.ms", SET, "100")
        await alter(admin, GROUP, "g", "consumer.session.timeout.ms", SET, "46000")
        expected = {
            TOPIC: ["t"],
            BROKER: ["1"],
            BROKER_LOGGER: ["1"],
            CLIENT_METRICS: ["m"],
            GROUP: ["g"],
        }

        async def listed(types: list[int], version: int = 1) -> list[tuple[int, str]]:
            answer = await admin.ask(ListConfigResourcesRequest(resource_types=types), version)
            assert answer.error_code == 0
            return sorted((r.resource_type, r.resource_name) for r in answer.config_resources)

        assert await listed([]) == [(k, n) for k in sorted(expected) for n in expected[k]]
        for kind, names in expected.items():
            assert await listed([kind]) == [(kind, name) for name in names]
        assert await listed([], 0) == [(CLIENT_METRICS, "m")]
        answer = await admin.ask(ListConfigResourcesRequest(resource_types=[TOPIC, 99]))
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
