"""If an authorizer refuses a request, the error names the principal, the operation and the
resource, and gives the next step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from clients.pk_broker import PkBroker

from pk.cli.runtime.refusals import Refusal, Refusals
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.errors import ErrorCode
from pk.core.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)
from pk.core.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from pk.core.wire.messages.fetch import FetchRequest
from pk.core.wire.messages.pk_unclean_recovery import (
    PkUncleanRecoveryRequest,
    PkUncleanRecoveryResponse,
)

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def closed() -> Iterator[str]:
    """A broker where only administrators have access, and the user is not one."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    with PkBroker(config=config, memory=True) as broker:
        yield broker.bootstrap


@pytest.mark.parametrize(
    ("line", "operation", "resource"),
    [
        ("topics create orders", "CREATE", "topic:orders"),
        ("topics describe orders", "DESCRIBE", "topic:orders"),
        ("produce orders value", "DESCRIBE", "topic:orders"),
        ("consume orders -e", "DESCRIBE", "topic:orders"),
        ("groups describe billing", "DESCRIBE", "group:billing"),
        ("groups delete billing -y", "DESCRIBE", "group:billing"),
        ("acls list", "DESCRIBE", "cluster"),
        ("acls add --allow alice --producer -t orders -y", "DESCRIBE", "cluster"),
        ("configs describe broker 1", "DESCRIBE_CONFIGS", "cluster"),
        ("configs alter broker 1 -c log.cleaner.threads=2 -y", "DESCRIBE_CONFIGS", "cluster"),
        ("cluster quorum", "DESCRIBE", "cluster"),
        ("users list", "DESCRIBE", "cluster"),
        ("quotas list", "DESCRIBE_CONFIGS", "cluster"),
        ("reassign status", "DESCRIBE", "cluster"),
    ],
)
def test_a_refusal_names_who_what_and_why_denied(
    pk: Run, closed: str, line: str, operation: str, resource: str
) -> None:
    ran = pk(*line.split(), "-b", closed)
    assert ran.code == 4, (ran.text, ran.err)
    step = f"`pk why denied User:ANONYMOUS {operation.lower().replace('_', '-')} {resource}`"
    assert step in ran.err
    kind, _, name = resource.partition(":")
    on = f"{kind} {name}" if name else "the cluster"
    assert f"User:ANONYMOUS is denied {operation} on {on} (" in ran.err
    assert "AUTHORIZATION_FAILED)" in ran.err


def test_an_error_is_not_said_to_be_another_request_s() -> None:
    """If several APIs were refused, only the error's own message can say which one failed."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    known = Refusals()
    known.begin(None)
    known.answered(DescribeQuorumRequest(), DescribeQuorumResponse(error_code=code))
    assert known.find(code) == Refusal("DESCRIBE", "CLUSTER", None)
    quotas = DescribeClientQuotasResponse(error_code=code)
    known.answered(DescribeClientQuotasRequest(), quotas)
    assert known.find(code) is None
    assert known.find(code, "DescribeQuorum") == Refusal("DESCRIBE", "CLUSTER", None)
    assert known.find(ErrorCode.GROUP_AUTHORIZATION_FAILED) is None
    known.begin(None)
    assert known.find(code) is None


def test_a_refused_fetch_names_the_topic_of_its_partition() -> None:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = Refusals()
    known.begin(None)
    known.answered(FetchRequest(), None)
    assert known.find(code, "a-b-12") == Refusal("READ", "TOPIC", "a-b")
    assert known.find(code, "Not authorized.") == Refusal("READ", "TOPIC", None)


@pytest.mark.parametrize(("leader", "operation"), [(-1, "DESCRIBE"), (1, "ALTER")])
def test_a_request_that_only_reads_lacks_no_right_to_alter(leader: int, operation: str) -> None:
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    known = Refusals()
    known.begin(None)
    request = PkUncleanRecoveryRequest(leader_id=leader)
    known.answered(request, PkUncleanRecoveryResponse(error_code=code))
    assert known.find(code) == Refusal(operation, "CLUSTER", None)


def test_what_was_refused_on_the_cluster_is_named_as_a_whole() -> None:
    """`pk doctor` asks several APIs, and names each operation that was refused."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    known = Refusals()
    known.begin("User:bob")
    known.answered(DescribeQuorumRequest(), DescribeQuorumResponse(error_code=code))
    quotas = DescribeClientQuotasResponse(error_code=code)
    known.answered(DescribeClientQuotasRequest(), quotas)
    said = known.sentence(code, "Cluster authorization failed.") or ""
    assert said.startswith("User:bob is denied DESCRIBE, DESCRIBE_CONFIGS on the cluster (")
    assert "`pk why denied User:bob describe cluster`" in said


def test_the_step_that_a_refusal_names_is_a_command(pk: Run) -> None:
    asked = pk(
        "why", "denied", "User:ANONYMOUS", "describe-configs", "cluster", "-b", "127.0.0.1:1"
    )
    assert asked.code == 3, asked.err


@pytest.mark.parametrize(
    ("words", "api"),
    [
        (("create",), "CreateDelegationToken"),
        (("renew", "x"), "RenewDelegationToken"),
        (("expire", "x"), "ExpireDelegationToken"),
    ],
)
def test_a_token_command_names_what_it_was_to_do(
    pk: Run, closed: str, words: tuple[str, ...], api: str
) -> None:
    ran = pk("users", "tokens", *words, "-y", "-b", closed)
    assert ran.code != 0
    assert api in ran.err and "DescribeDelegationToken" not in ran.err
