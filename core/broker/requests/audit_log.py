"""The audit log: a line for each refusal and each change of the ACLs, in the logger `pk.audit`.

A refused client retries, often many times a second. So if a refusal repeats within `REPEAT_S`
seconds, it is only counted, and the next line about it has the count. Different refusals are
limited to `LINES_PER_S_MAX` lines a second, and one more line counts the others. Changes are always
written.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from pk.core.auth.acls import AclBinding, Operation, ResourceType
from pk.core.auth.authorizer import Verdict
from pk.core.auth.principal import KafkaPrincipal
from pk.core.wire.index import MESSAGES

logger = logging.getLogger("pk.audit")

REPEAT_S: Final = 10.0
LINES_PER_S_MAX: Final = 50
REMEMBERED_MAX: Final = 10_000
"""The number of different refusals that are remembered. When it is reached, all of them are
dropped."""

NAME_CHARS_MAX: Final = 300
"""The maximum number of characters of a client's string in one line."""


class AuditedClient(Protocol):
    """The client of a request: the part of a `Context` that is used here."""

    api_key: int
    client_id: str | None
    client_host: str
    listener: str
    principal: KafkaPrincipal


class AuditLog:
    """The audit log of one node."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        """`now_s` is a monotonic clock that threads may read, since large requests are handled in
        threads."""
        self._now_s = now_s
        self._last: dict[tuple[str, str, int, int, int, str], tuple[float, int]] = {}
        """A refusal → the time of its last line, and its count since then."""
        self._second = float("-inf")
        self._lines = 0
        self._left_out = 0

    def refused(
        self,
        client: AuditedClient,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        verdict: Verdict,
    ) -> None:
        """Log a refusal."""
        principal, now_s = str(client.principal), self._now_s()
        key = (principal, client.client_host, client.api_key, operation, resource_type, name)
        written_s, count = self._last.get(key, (float("-inf"), 0))
        if now_s - written_s < REPEAT_S:
            self._last[key] = written_s, count + 1
            return
        if not self._may_write(now_s):
            return
        if len(self._last) >= REMEMBERED_MAX:
            self._last.clear()
        self._last[key] = now_s, 0
        repeated = f"; {count} more times before" if count else ""
        logger.info(
            "refused %s from %s: %s on %s (%s, %s)%s",
            _one_line(principal),
            _describe(client),
            operation.name,
            resource(resource_type, name),
            MESSAGES[client.api_key].name,
            reason_for(verdict),
            repeated,
        )

    def changed(self, client: AuditedClient, verb: str, rule: AclBinding) -> None:
        """Log the change of an ACL. `verb` is `added` or `deleted`."""
        principal = _one_line(str(client.principal))
        logger.info(
            "%s from %s %s the ACL %s", principal, _describe(client), verb, _one_line(str(rule))
        )

    def _may_write(self, now_s: float) -> bool:
        if now_s - self._second >= 1:
            if self._left_out:
                logger.info("%d more refusals were not logged", self._left_out)
            self._second, self._lines, self._left_out = now_s, 0, 0
        self._lines += 1
        if self._lines <= LINES_PER_S_MAX:
            return True
        self._left_out += 1
        return False


def reason_for(verdict: Verdict) -> str:
    """Return the reason for a decision, in words."""
    if verdict.rule is not None:
        return f"by the ACL {_one_line(str(verdict.rule))}"
    return verdict.reason.value


def resource(resource_type: int, name: str) -> str:
    """Return a resource for a log line, such as `topic orders`."""
    return f"{ResourceType(resource_type).name.lower()} {_one_line(name)}"


def _describe(client: AuditedClient) -> str:
    client_id = f", client id {_one_line(client.client_id)}" if client.client_id else ""
    return f"{client.client_host.removeprefix('/') or 'here'} ({client.listener}{client_id})"


def _one_line(text: str) -> str:
    """Return a client's string for one line: without control characters, and not too long."""
    cut = text if len(text) <= NAME_CHARS_MAX else f"{text[:NAME_CHARS_MAX]}…"
    return cut if cut.isprintable() else repr(cut)
