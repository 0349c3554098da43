"""The requests that are refused to each principal, API by API: the same as in Apache Kafka, and in
agreement with the table of needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest
from api.authorization_cases import CASES
from api.authorization_scenario import answer_of, ask_handler, authorizing_node, run_on
from nodes import decide, trio_test

from pk.core.api.authorization import ERRORS
from pk.core.api.index import APIS, CONTROLLER_APIS
from pk.core.api_keys import API_KEYS, OWN_KEYS
from pk.core.auth.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode
from pk.core.meta.acls import create_acls
from pk.core.needs import Refusal
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntryData
from pk.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
)
from pk.core.wire.messages.create_acls import AclCreation, CreateAclsRequest
from pk.core.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from pk.core.wire.messages.pk_remote_storage import PkRemoteStorageRequest
from pk.core.wire.messages.pk_restore_topics import PkRestoreTopicsRequest
from pk.core.wire.messages.pk_unclean_recovery import PkUncleanRecoveryRequest

GOLDEN = Path(__file__).parents[1] / "golden" / "authorization.json"

ASKERS = ("without rights", "with describe only", "with the exact right")


def test_answers_are_those_that_apache_kafka_gave() -> None:
    expected = json.loads(GOLDEN.read_text(encoding="utf-8"))
    found: dict[str, list[Any]] = {}

    @trio_test
    async def ask() -> None:
        async with authorizing_node() as node:
            found.update(await run_on(node))

    ask()
    assert list(found) == list(expected)
    different = {
        f"{name}, {asker}": (ours, theirs)
        for name in found
        for asker, ours, theirs in zip(ASKERS, found[name], expected[name], strict=True)
        if ours != theirs
    }
    assert not different


def test_every_api_that_is_served_says_what_it_needs() -> None:
    checked = {case.key for case in CASES}
    only_controllers = {api.key for api in CONTROLLER_APIS} - {api.key for api in APIS}
    assert {key for key, row in API_KEYS.items() if row.needs} - checked <= only_controllers | {
        38,  # tests/net/test_delegation_tokens.py: they want a login
        41,
        OWN_KEYS,  # tests/testing/test_faults_api.py
        OWN_KEYS + 2,  # below
        OWN_KEYS + 3,  # below
        OWN_KEYS + 4,  # below
    }


def test_looking_at_logs_needs_less_than_electing_a_leader() -> None:
    """`pk doctor` looks at the logs of partitions that wait for a leader; who only watches a
    cluster has no right to alter it."""
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    look = PkUncleanRecoveryRequest(topics=[])
    elect = PkUncleanRecoveryRequest(topics=[], leader_id=1)

    def may(principal: str, operation: Operation) -> AclBinding:
        return AclBinding(
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            PatternType.LITERAL,
            principal,
            "*",
            operation,
            Permission.ALLOW,
        )

    @trio_test
    async def ask() -> None:
        async with authorizing_node() as node:
            rules = [may("User:sees", Operation.DESCRIBE), may("User:acts", Operation.ALTER)]
            await decide(node.broker, lambda image: create_acls(image, rules))
            answers = {
                user: [
                    (await ask_handler(node, user, request, 0)).error_code
                    for request in (look, elect)
                ]
                for user in ("User:none", "User:sees", "User:acts")
            }
        assert answers == {
            "User:none": [denied, denied],
            "User:sees": [0, denied],
            "User:acts": [0, 0],
        }

    ask()


@pytest.mark.parametrize(
    ("request_of", "operation"),
    [
        (PkRestoreTopicsRequest, Operation.ALTER),
        (PkRemoteStorageRequest, Operation.DESCRIBE),
    ],
)
def test_what_only_pk_has_needs_a_right_on_the_cluster(
    request_of: Any, operation: Operation
) -> None:
    @trio_test
    async def ask() -> None:
        async with authorizing_node() as node:
            rule = AclBinding(
                ResourceType.CLUSTER,
                CLUSTER_NAME,
                PatternType.LITERAL,
                "User:acts",
                "*",
                operation,
                Permission.ALLOW,
            )
            await decide(node.broker, lambda image: create_acls(image, [rule]))
            codes = [
                (await ask_handler(node, user, request_of(), 0)).error_code
                for user in ("User:none", "User:acts")
            ]
        assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, 0]

    ask()


CLUSTER_WIDE = sorted(
    {
        api.key
        for api in CONTROLLER_APIS
        if any(
            need.refusal is Refusal.REQUEST and need.resource_type is ResourceType.CLUSTER
            for need in API_KEYS[api.key].needs
        )
    }
)


WITH_ONE_ENTRY: dict[int, Any] = {
    30: CreateAclsRequest(creations=[AclCreation()]),
    31: DeleteAclsRequest(filters=[DeleteAclsFilter()]),
    49: AlterClientQuotasRequest(entries=[EntryData()]),
    51: AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="u")]),
}
"""Requests whose answers have errors only in their entries."""


def errors_in(answer: Any) -> set[int]:
    """The answer's own error, or the errors of its entries if it has no field for one."""
    if hasattr(answer, "error_code"):
        return {answer.error_code}
    return {
        entry.error_code
        for name in answer.FIELDS
        if isinstance(entries := getattr(answer, name), list)
        for entry in cast(list[Any], entries)
    }


@pytest.mark.parametrize("key", [*CLUSTER_WIDE, 1])
def test_a_controllers_listener_serves_nobody_without_rights(key: int) -> None:
    @trio_test
    async def ask() -> None:
        async with authorizing_node() as node:
            api = next(api for api in CONTROLLER_APIS if api.key == key)
            version = api.versions[1]
            context = Context(
                node.broker,
                key,
                version,
                client_host="/127.0.0.1",
                principal=KafkaPrincipal("User", "nobody"),
            )
            request = WITH_ONE_ENTRY.get(key) or MESSAGES[key].request()
            answer = await answer_of(api, context, request)
            assert errors_in(answer) == {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}, answer

    ask()


def test_every_error_of_a_refusal_is_one_of_authorization() -> None:
    assert {code.name.removesuffix("_AUTHORIZATION_FAILED") for code, _ in ERRORS.values()} == {
        kind.name for kind in ERRORS
    }
