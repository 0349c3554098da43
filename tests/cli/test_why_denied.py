"""`pk why denied`: the ACL that decides, the one that is missing, and the command that helps."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest
import trio
from clients.pk_broker import PkBroker

from pk.cli.diagnosis.why_denied import Question, explain_denied
from pk.core.auth.acls import AclBinding, AclFilter, Operation, PatternType, ResourceType
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.net.client.admin import open_admin

TOPIC, READ, WRITE = ResourceType.TOPIC, Operation.READ, Operation.WRITE
ALLOW, DENY = 3, 2


def rule(
    principal: str = "User:alice",
    operation: Operation = WRITE,
    permission: int = ALLOW,
    name: str = "orders",
    pattern: PatternType = PatternType.LITERAL,
    host: str = "*",
) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, principal, host, operation, permission)


@pytest.mark.parametrize(
    ("rules", "state", "decides", "step"),
    [
        (
            [],
            "no_rules",
            None,
            "add --allow User:alice --operation write --topic orders",
        ),
        (
            [rule("User:bob"), rule(operation=READ)],
            "no_match",
            None,
            "add --allow User:alice --operation write --topic orders",
        ),
        ([rule("User:bob"), rule()], "allowed", "allow WRITE on orders from any host", None),
        (
            [rule(), rule("User:*", Operation.ALL, DENY, "ord", PatternType.PREFIXED, "192.0.2.7")],
            "denied",
            "deny ALL on prefix ord from 192.0.2.7",
            (
                "delete --deny 'User:*' --host 192.0.2.7 --operation all --topic ord --pattern "
                "prefixed"
            ),
        ),
        ([rule(name="other"), rule(name="*")], "allowed", "allow WRITE on * from any host", None),
    ],
)
def test_the_rule_that_decides_is_named_and_so_is_the_way_out(
    rules: list[AclBinding], state: str, decides: str | None, step: str | None
) -> None:
    question = Question("User:alice", WRITE, TOPIC, "orders", "192.0.2.7")
    explanation = explain_denied(question, rules)
    assert explanation.state == state
    marked = [e.what for e in explanation.evidence if e.what.endswith("← this one decides")]
    assert [what.partition("  ←")[0] for what in marked] == ([decides] if decides else [])
    before = "pk acls "
    assert list(explanation.next) == ([before + step] if step else [])
    assert ("super.users" in repr(explanation.evidence)) == (state != "allowed")


def test_a_brokers_rules_are_asked_for(pk: Callable[..., Any]) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with PkBroker(config=config, memory=True) as broker:
        asked = ("why", "denied", "alice", "write", "topic:orders", "-b", broker.bootstrap)
        denied = pk(*asked)
        assert denied.code == 1 and b"topic orders has no ACLs" in denied.out

        async def add() -> None:
            async with open_admin(broker.bootstrap) as admin:
                assert (await admin.create_acls([rule()])).ok == {rule(): None}
                assert await admin.describe_acls() == [rule()]

        trio.run(add)
        allowed = pk(*asked, "-f", "json")
        assert allowed.code == 0, allowed.err
        (found,) = json.loads(allowed.out)
        assert (found["state"], found["principal"]) == ("allowed", "User:alice")

        async def remove() -> None:
            async with open_admin(broker.bootstrap) as admin:
                every = AclFilter()
                assert (await admin.delete_acls([every])).ok == {every: [rule()]}

        trio.run(remove)
        assert pk(*asked).code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("alice wirte topic:t", "did you mean write?"),
        ("alice write thing:t", "TYPE:NAME"),
        ("alice write topic:", "TYPE:NAME"),
        ("alice write t --host somewhere", "IP address"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_before_anybody_is_asked(
    pk: Callable[..., Any], words: str, said: str
) -> None:
    refused = pk("why", "denied", *shlex.split(words), "-b", "127.0.0.1:1")
    assert (refused.code, said in refused.err) == (2, True), refused.err
