"""The audit log: which principal was refused which operation and why, once and not a thousand
times."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import pytest

from pk.core.auth.acls import AclBinding, Operation, ResourceType
from pk.core.auth.authorizer import Reason, Verdict
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.audit_log import LINES_PER_S_MAX, REPEAT_S, AuditLog

RULE = AclBinding(2, "orders", 3, "User:eve", "*", 4, 2)
BY_RULE = Verdict(False, Reason.RULE, RULE)


@dataclass
class Who:
    """A client."""

    api_key: int = 0
    client_id: str | None = "billing"
    client_host: str = "/192.0.2.7"
    listener: str = "CLIENTS"
    principal: KafkaPrincipal = field(default_factory=lambda: KafkaPrincipal("User", "eve"))


class Clock:
    """A clock that tests move."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "pk.audit")
    return caplog


def test_a_refusal_says_who_from_where_what_on_what_and_why(
    lines: pytest.LogCaptureFixture,
) -> None:
    audit = AuditLog(Clock())
    audit.refused(Who(), Operation.WRITE, ResourceType.TOPIC, "orders", BY_RULE)
    audit.refused(
        Who(client_id=None),
        Operation.WRITE,
        ResourceType.GROUP,
        "g",
        Verdict(False, Reason.NO_RULES),
    )
    first, second = lines.messages
    assert first == (
        "refused User:eve from 192.0.2.7 (CLIENTS, client id billing): WRITE on topic orders "
        "(Produce, by the ACL DENY User:eve WRITE TOPIC:LITERAL:orders from *)"
    )
    assert second == (
        "refused User:eve from 192.0.2.7 (CLIENTS): WRITE on group g (Produce, the resource has "
        "no ACL)"
    )


def test_a_client_that_asks_again_and_again_makes_one_line_in_a_while(
    lines: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    audit = AuditLog(clock)
    for _ in range(1000):
        audit.refused(Who(), Operation.WRITE, ResourceType.TOPIC, "orders", BY_RULE)
    assert len(lines.messages) == 1
    clock.now_s += REPEAT_S
    audit.refused(Who(), Operation.WRITE, ResourceType.TOPIC, "orders", BY_RULE)
    assert len(lines.messages) == 2 and lines.messages[1].endswith("; 999 more times before")


def test_many_different_refusals_are_limited_by_the_second(
    lines: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    audit = AuditLog(clock)
    for i in range(LINES_PER_S_MAX + 30):
        audit.refused(Who(), Operation.READ, ResourceType.TOPIC, f"t{i}", BY_RULE)
    assert len(lines.messages) == LINES_PER_S_MAX
    clock.now_s += 1
    audit.refused(Who(), Operation.READ, ResourceType.TOPIC, "next", BY_RULE)
    assert lines.messages[LINES_PER_S_MAX] == "30 more refusals were not logged"
    assert "topic next" in lines.messages[-1]


def test_a_name_that_a_client_made_up_stays_on_its_line(lines: pytest.LogCaptureFixture) -> None:
    audit = AuditLog(Clock())
    audit.refused(
        Who(client_id="x\nrefused User:root"),
        Operation.READ,
        ResourceType.TOPIC,
        "a\x1b[2J" + "b" * 5000,
        BY_RULE,
    )
    audit.changed(Who(), "added", RULE._replace(resource_name="c\nd"))
    refused, changed = lines.messages
    assert "\n" not in refused + changed and "\x1b" not in refused and len(refused) < 800
    assert changed.startswith("User:eve from 192.0.2.7 (CLIENTS, client id billing) added the ACL")
