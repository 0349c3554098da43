"""Random rules, questions and filters, made so that they often meet."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from pk.core.auth.acls import AclBinding, AclFilter, Acls, Operation, PatternType, ResourceType
from pk.core.auth.authorizer import Authorizer

NAMES = ("a", "ab", "abc", "abd", "b", "*", "bé", "hard", "hardcode", "kafka-cluster")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "User:carol", "Group:alice", "User:a:b,c")
HOSTS = ("*", "127.0.0.1", "192.0.2.1", "2001:db8:0:0:0:0:0:1")
TYPES = tuple(t for t in ResourceType if t > ResourceType.ANY)
OPERATIONS = tuple(o for o in Operation if o > Operation.ANY)


class Question(NamedTuple):
    """May somebody do this?"""

    principal: str
    host: str
    operation: int
    type: int
    name: str


class Case(NamedTuple):
    """ACLs, and the questions that are asked about them."""

    super_users: str
    allow: bool
    rules: list[AclBinding]
    questions: list[Question]
    any_questions: list[Question]
    filters: list[AclFilter]

    def as_json(self) -> dict[str, Any]:
        """The form that the Java program reads."""
        asked = self._asdict()
        asked["acls"] = asked.pop("rules")
        asked["questions"] = [q._asdict() for q in self.questions]
        asked["any_questions"] = [q._asdict() for q in self.any_questions]
        return asked

    @classmethod
    def from_json(cls, asked: dict[str, Any]) -> Case:
        """The case that `as_json` wrote."""
        return cls(
            asked["super_users"],
            asked["allow"],
            [AclBinding(*rule) for rule in asked["acls"]],
            [Question(**question) for question in asked["questions"]],
            [Question(**question) for question in asked["any_questions"]],
            [AclFilter(*wanted) for wanted in asked["filters"]],
        )

    def answers(self) -> dict[str, Any]:
        """Ours, in the form of the Java side's."""
        authorizer = Authorizer(
            Acls().changed(self.rules, ()), frozenset(_split(self.super_users)), self.allow
        )
        return {
            "allows": [authorizer.allows(*q) for q in self.questions],
            "allows_any": [authorizer.allows_any(*q[:4]) for q in self.any_questions],
            "selected": [
                sorted(
                    "|".join(map(str, map(_plain, rule))) for rule in authorizer.acls.selected(f)
                )
                for f in self.filters
            ],
        }


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, int) else value


def case(seed: int) -> Case:
    """The case of a seed."""
    chance = Random(seed)
    types = chance.sample(TYPES, chance.randint(1, 3))
    operations = chance.sample(OPERATIONS, chance.randint(1, len(OPERATIONS)))
    rules = {
        AclBinding(
            chance.choice(types),
            chance.choice(NAMES),
            chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            chance.choice(PRINCIPALS),
            chance.choice(HOSTS),
            chance.choice(operations),
            chance.choice((2, 3, 3)),
        )
        for _ in range(chance.choice((0, 1, 3, 8, 20)))
    }

    def question() -> Question:
        return Question(
            chance.choice([p for p in PRINCIPALS if p != "User:*"]),
            chance.choice(HOSTS[1:]),
            chance.choice((*operations, *OPERATIONS[1:])),
            chance.choice(types),
            chance.choice(NAMES),
        )

    def selection() -> AclFilter:
        rule = chance.choice(sorted(rules)) if rules and chance.random() < 0.5 else None
        return AclFilter(
            chance.choice((1, rule.resource_type if rule else chance.choice(types))),
            chance.choice((None, rule.resource_name if rule else chance.choice(NAMES))),
            chance.choice((1, 2, 3, 4, rule.pattern_type if rule else 3)),
            chance.choice((None, rule.principal if rule else chance.choice(PRINCIPALS))),
            chance.choice((None, rule.host if rule else chance.choice(HOSTS))),
            chance.choice((1, rule.operation if rule else chance.choice(operations))),
            chance.choice((1, rule.permission if rule else 3)),
        )

    return Case(
        chance.choice(("", "User:alice", " User:bob ; User:a:b,c;")),
        chance.random() < 0.3,
        sorted(rules),
        [question() for _ in range(40)],
        [question() for _ in range(10)],
        [selection() for _ in range(10)],
    )
