"""A JoinGroup request, with what the state machine needs to know about its sender."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, NamedTuple

from pk.core.group.settings import Client
from pk.core.wire.messages.join_group import JoinGroupRequest

MEMBER_ID_REQUIRED_SINCE: Final = 4
"""The version from which a new member must send JoinGroup twice, the second time with the id that
it was given (KIP-394)."""


class Join(NamedTuple):
    """A JoinGroup request."""

    request: JoinGroupRequest
    version: int
    client: Client
    token: Hashable
    """The token through which the request is answered."""

    @property
    def protocols(self) -> list[tuple[str, bytes]]:
        """The names of the member's protocols with their metadata."""
        return [(protocol.name, protocol.metadata) for protocol in self.request.protocols]

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the member may take to rejoin. Version 0 has only the session timeout."""
        request = self.request
        return request.rebalance_timeout_ms if self.version >= 1 else request.session_timeout_ms

    @property
    def needs_member_id(self) -> bool:
        """Whether the member must repeat the request with the id that it is given, so that a lost
        response does not leave a member in the group."""
        request = self.request
        return (
            not request.member_id
            and request.group_instance_id is None
            and self.version >= MEMBER_ID_REQUIRED_SINCE
        )
