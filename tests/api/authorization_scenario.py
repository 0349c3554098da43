"""Makes the world that the cases are about, and asks them: of a node of ours and of Apache Kafka in
the same way."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from inspect import isawaitable
from typing import Any, Final

import trio
from api.authorization_cases import (
    CASES,
    DESCRIBER,
    GROUPS,
    NOBODY,
    TOPICS,
    Case,
    plain,
    request_of,
    rules,
)
from nodes import running_node

from pk.core.api.index import APIS
from pk.core.api.registry import Api
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.context import Context
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.errors import KafkaError
from pk.core.record.build import build_batch
from pk.core.wire.codec import decode_whole, encode, join
from pk.core.wire.header import frame_response, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pk.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from pk.core.wire.messages.describe_acls import DescribeAclsRequest
from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest
from pk.core.wire.messages.init_producer_id import InitProducerIdRequest
from pk.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from pk.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from pk.net.node import Node

Ask = Callable[[str | None, Any, int], Any]
"""(principal, request, version) → response. None is a super user."""

PATIENCE_S: Final = 60.0

NOW_MS: Final = 1_700_000_000_000


def run(ask: Ask) -> dict[str, list[Any]]:
    """The three answers to each case, by the case's name."""
    names = _prepare(ask)
    ids = {value: f"@{name}" for name, value in names.items()}
    ids[bytes(16)] = ""
    answers: dict[str, list[Any]] = {}
    for case in CASES:
        answers[case.name] = [
            plain(_settled(ask, principal, case, names), ids)
            for principal in (NOBODY, DESCRIBER, case.principal)
        ]
    return answers


def _settled(ask: Ask, principal: str, case: Case, names: dict[str, bytes]) -> Any:
    """The answer, once no coordinator is loading any more."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        answer = ask(principal, request_of(case, names), case.version)
        said = repr(answer)
        waits = any(
            f"error_code={code}," in said or f"error_code={code})" in said
            for code in (14, 15, 16, 51)
        )
        if not waits or time.monotonic() > deadline:
            return answer
        time.sleep(0.05)


def _until(check: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _prepare(ask: Ask) -> dict[str, bytes]:
    made = ask(
        None,
        CreateTopicsRequest(
            topics=[CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in TOPICS],
            timeout_ms=30_000,
        ),
        7,
    )
    names = {topic.name: topic.topic_id for topic in made.topics}
    assert not any(topic.error_code for topic in made.topics), made
    wanted = [MetadataRequestTopic(name=name) for name in TOPICS]

    def led() -> bool:
        found = ask(None, MetadataRequest(topics=wanted), 12)
        return all(
            not topic.error_code and not any(p.error_code for p in topic.partitions)
            for topic in found.topics
        )

    _until(led, "the topics have leaders")
    for kind, keys in ((0, [*GROUPS, "k", "s", "s2", "s3"]), (1, ["x", "y", "z"])):
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=keys)
        _until(
            lambda asked=request: not any(c.error_code for c in ask(None, asked, 4).coordinators),
            "the coordinators are there",
        )
    for group in GROUPS:
        commit = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name="t",
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
                    ],
                )
            ],
        )
        _until(
            lambda asked=commit: not ask(None, asked, 8).topics[0].partitions[0].error_code,
            "the group has an offset",
        )
    _until(
        lambda: (
            not ask(
                None,
                InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000),
                4,
            ).error_code
        ),
        "the transactional id has a producer",
    )
    wanted_rules = list(dict.fromkeys(rules(CASES)))
    created = ask(
        None,
        CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=rule.resource_type,
                    resource_name=rule.resource_name,
                    resource_pattern_type=rule.pattern_type,
                    principal=rule.principal,
                    host=rule.host,
                    operation=rule.operation,
                    permission_type=rule.permission,
                )
                for rule in wanted_rules
            ]
        ),
        3,
    )
    assert not any(result.error_code for result in created.results), created
    everything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    _until(
        lambda: sum(len(r.acls) for r in ask(None, everything, 3).resources) == len(wanted_rules),
        "the rules are in force",
    )
    records = [(NOW_MS, b"k", b"v", [])]
    names["batch"] = bytes(build_batch(records))
    names["transactional"] = bytes(
        build_batch(records, producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    )
    names["unknown"] = b"\x01" * 16
    return names


# --- a node of ours, by its handlers ---


@asynccontextmanager
async def authorizing_node(super_users: str = "User:root") -> AsyncIterator[Node]:
    """A node that refuses what no rule allows."""
    keys = {"authorizer__class__name": STANDARD_AUTHORIZER, "super__users": super_users}
    async with running_node(None, **keys) as node:
        yield node


_APIS: Final = {api.key: api for api in APIS}


async def ask_handler(node: Node, principal: str | None, request: Any, version: int) -> Any:
    """The answer of a handler of the node to a principal. The request and the answer are encoded
    and decoded."""
    api = _APIS[request.API_KEY]
    context = Context(
        node.broker,
        api.key,
        version,
        correlation_id=1,
        client_id="test",
        client_host="/127.0.0.1",
        principal=KafkaPrincipal.parse(principal or "User:root"),
    )
    asked = decode_whole(type(request), bytearray(encode(request, version)), version)
    return await answer_of(api, context, asked)


async def answer_of(api: Api, context: Context, request: Any) -> Any:
    """The answer of a handler, encoded and decoded."""
    version, response_class = context.api_version, MESSAGES[api.key].response
    try:
        answer: Any = api.handle(context, request)
        while isawaitable(answer):
            answer = await answer
    except KafkaError as e:
        answer = api.error_response(request, e, version)
    frame = join(frame_response(answer, api.key, version, 1))[4:]
    _, position = parse_response_header(frame, api.key, version)
    return decode_whole(response_class, frame, version, position)


async def run_on(node: Node) -> dict[str, list[Any]]:
    """The scenario, of a node in this process."""

    def ask(principal: str | None, request: Any, version: int) -> Any:
        return trio.from_thread.run(ask_handler, node, principal, request, version)

    return await trio.to_thread.run_sync(run, ask)
