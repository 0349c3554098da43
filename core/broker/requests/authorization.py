"""The authorizer of this node.

`authorizer.class.name` enables it; without it every client may do everything. The rules are those
of the current image: `image_changed` creates a new authorizer whenever they change.
"""

from __future__ import annotations

from typing import Protocol

from msgspec.structs import replace

from pk.core.auth.acls import Operation, ResourceType
from pk.core.auth.authorizer import Authorizer
from pk.core.auth.principal import KafkaPrincipal
from pk.core.broker.requests.audit_log import AuditLog
from pk.core.config import BrokerConfig
from pk.core.meta.image import Changes, MetadataImage


class RequestClient(Protocol):
    """The client of a request: the part of a `Context` that is used here."""

    api_key: int
    client_id: str | None
    client_host: str
    listener: str
    principal: KafkaPrincipal
    own: bool


class Authorization:
    """The authorization of one node."""

    def __init__(self, config: BrokerConfig, audit: AuditLog) -> None:
        self.authorizer: Authorizer | None = None
        """None without `authorizer.class.name`. It is replaced after each change of the rules."""
        self.audit = audit
        if config.authorizer_class_name:
            self.authorizer = Authorizer(
                super_users=config.super_users,
                allow_if_no_acl=config.allow_everyone_if_no_acl_found,
            )

    def image_changed(self, image: MetadataImage, delta: Changes) -> None:
        """Use the rules of a new image."""
        old = self.authorizer
        if old is not None and old.acls is not image.acls:
            self.authorizer = replace(old, acls=image.acls, decisions={})

    def allows(
        self,
        client: RequestClient,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
        *,
        log: bool = True,
    ) -> bool:
        """Return whether `client` may do `operation` to a resource. A refusal is written to the
        audit log unless `log` is False. Use that for resources that are only left out of a list,
        and for a check that is followed by another."""
        authorizer = self.authorizer
        if authorizer is None or client.own:
            return True
        principal, host = str(client.principal), client.client_host[1:]
        if authorizer.allows(principal, host, operation, resource_type, name):
            return True
        if log:
            verdict = authorizer.decide(principal, host, operation, resource_type, name)
            self.audit.refused(client, operation, resource_type, name, verdict)
        return False

    def allows_any(
        self, client: RequestClient, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether `client` may do `operation` to at least one resource of a type."""
        authorizer = self.authorizer
        if authorizer is None or client.own:
            return True
        host = client.client_host[1:]
        return authorizer.allows_any(str(client.principal), host, operation, resource_type)

    def operations(
        self, client: RequestClient, resource_type: ResourceType, name: str, supported: int
    ) -> int:
        """Return the operations that `client` may do to a resource, as a bitmap (KIP-430)."""
        authorizer = self.authorizer
        if authorizer is None or client.own:
            return supported
        host = client.client_host[1:]
        return authorizer.operations(str(client.principal), host, resource_type, name, supported)
