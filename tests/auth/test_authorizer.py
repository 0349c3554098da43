"""Rules and the answers they give: as Apache Kafka's authorizer answered, and what a broker with
many rules relies on."""

import json
from pathlib import Path
from typing import Any

import pytest
from auth.acl_cases import Case, case
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.core.auth.acls import AclBinding, AclFilter, Acls, Operation, PatternType, ResourceType
from pk.core.auth.authorizer import Authorizer, Reason

GOLDEN = json.loads(
    Path(__file__).parents[1].joinpath("golden", "authorizer.json").read_text(encoding="utf-8")
)

DENY, ALLOW = 2, 3
TOPIC, LITERAL, PREFIXED = ResourceType.TOPIC, PatternType.LITERAL, PatternType.PREFIXED
ALICE, HOME = "User:alice", "127.0.0.1"


def rule(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: int = ALLOW,
    *,
    pattern: PatternType = LITERAL,
    principal: str = ALICE,
    host: str = "*",
) -> AclBinding:
    return AclBinding(TOPIC, name, pattern, principal, host, operation, permission)


def authorizer(*rules: AclBinding, **given: Any) -> Authorizer:
    return Authorizer(Acls().changed(rules, ()), **given)


@for_each("recorded", GOLDEN)
def test_answers_are_those_that_apaches_authorizer_gave(recorded: dict[str, Any]) -> None:
    assert Case.from_json(recorded["case"]).answers() == recorded["expected"]


@pytest.mark.parametrize(
    ("rules", "reason", "decided"),
    [
        ([], Reason.NO_RULES, None),
        ([rule(principal="User:bob")], Reason.NO_MATCH, None),
        ([rule()], Reason.RULE, 0),
        ([rule(), rule(permission=DENY, host=HOME)], Reason.RULE, 1),
        ([rule("ord", pattern=PREFIXED), rule("*", Operation.ALL, DENY)], Reason.RULE, 1),
        ([rule("other"), rule("orders-2"), rule("order", Operation.ALL)], Reason.NO_RULES, None),
    ],
)
def test_a_verdict_names_what_decided(
    rules: list[AclBinding], reason: Reason, decided: int | None
) -> None:
    verdict = authorizer(*rules).decide(ALICE, HOME, Operation.DESCRIBE, TOPIC, "orders")
    denied = decided is not None and rules[decided].permission == DENY
    if denied and rules[decided or 0].operation == Operation.READ:
        # A rule that denies READ implies nothing about DESCRIBE.
        decided, denied = 0, False
    assert verdict.reason is reason
    assert verdict.rule == (None if decided is None else rules[decided])
    assert verdict.allowed == (reason is Reason.RULE and not denied)


def test_super_users_need_no_rule_and_no_rule_stops_them() -> None:
    boss = authorizer(rule("*", Operation.ALL, DENY), super_users=frozenset(("User:root", ALICE)))
    verdict = boss.decide(ALICE, HOME, Operation.WRITE, TOPIC, "orders")
    assert verdict == (True, Reason.SUPER_USER, None)
    assert not boss.allows("User:bob", HOME, Operation.WRITE, TOPIC, "orders")


def test_authorized_operations_are_those_that_are_allowed_of_those_that_exist() -> None:
    asked = authorizer(rule(operation=Operation.WRITE), rule(operation=Operation.ALTER_CONFIGS))
    bits = (1 << Operation.WRITE) | (1 << Operation.DESCRIBE) | (1 << Operation.DESCRIBE_CONFIGS)
    found = asked.operations(ALICE, HOME, TOPIC, "orders", bits | 1 << Operation.READ)
    assert found == bits
    assert asked.operations("User:bob", HOME, TOPIC, "orders", bits) == 0


@given(st.integers(0, 10_000), st.data())
def test_rules_that_come_and_go_leave_what_rules_made_at_once_are(
    seed: int, data: st.DataObject
) -> None:
    asked = case(seed)
    halves = data.draw(st.lists(st.booleans(), min_size=20, max_size=20))
    early = [one for one, half in zip(asked.rules, halves, strict=False) if half]
    late = [one for one, half in zip(asked.rules, halves, strict=False) if not half]
    before = Acls().changed(early, ())
    printed = repr((before.rules, before.by_type))
    grown = before.changed(asked.rules, ())
    shrunk = grown.changed((), late)
    again = shrunk.changed(late, early).changed(early, late + early[:1])
    assert repr((before.rules, before.by_type)) == printed, "an older value changed"
    assert dict(shrunk.rules) == dict(before.rules) == dict(again.rules)
    for acls in (shrunk, again):
        ours, theirs = Authorizer(acls), Authorizer(before)
        for question in asked.questions:
            assert ours.allows(*question) == theirs.allows(*question)
        for question in asked.any_questions:
            assert ours.allows_any(*question[:4]) == theirs.allows_any(*question[:4])


def test_among_ten_thousand_rules_only_those_of_the_name_and_the_principal_are_looked_at() -> None:
    rules = [rule(f"topic-{i}", principal=f"User:u{j}") for i in range(100) for j in range(80)]
    rules += [rule(f"topic-{i}-", pattern=PREFIXED) for i in range(1000)]
    rules += [rule("*", principal=f"User:u{j}") for j in range(1000)]
    acls = Acls().changed(rules, ())
    assert len(acls) == 10_000
    patterns = [
        (name, pattern_type, entries.get(ALICE, ()))
        for name, pattern_type, entries in acls.matching(TOPIC, "topic-7-x")
    ]
    assert patterns == [
        ("topic-7-", PREFIXED, ((Operation.READ, ALLOW, "*"),)),
        ("*", LITERAL, ()),
    ]


def test_a_filter_that_names_a_rule_in_full_selects_it() -> None:
    acls = Acls().changed([rule(), rule("other")], ())
    assert acls.selected(AclFilter(*rule())) == [rule()]
    assert acls.selected(AclFilter(*rule("third"))) == []
