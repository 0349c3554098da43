"""Admin requests about client quotas (KIP-546): describe and alter them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from pk.core.errors import KafkaError
from pk.core.quota.entity import Entity, entity_of
from pk.net.client.admin_operations.base import AdminBase, check, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2


class QuotaFilter(NamedTuple):
    """A component of a filter: an entity type with a name (None: the default entity), or with
    `any_name` any name."""

    entity_type: str
    name: str | None = None
    any_name: bool = False


class QuotaOperations(AdminBase):
    """Operations on the quotas of users, client ids and addresses."""

    async def describe_quotas(
        self, wanted: Sequence[QuotaFilter] = (), *, strict: bool = False
    ) -> dict[Entity, dict[str, float]]:
        """Return the quotas that match all of `wanted`; with `strict`, only those without other
        components. Needs brokers from 2.6 on. Raises KafkaError."""
        from pk.core.wire.messages.describe_client_quotas import (
            ComponentData,
            DescribeClientQuotasRequest,
        )

        components = [
            ComponentData(entity_type=kind, match_type=SPECIFIED, match=None)
            if any_name
            else ComponentData(
                entity_type=kind, match_type=DEFAULT if name is None else EXACT, match=name
            )
            for kind, name, any_name in wanted
        ]
        response = await self._any(
            DescribeClientQuotasRequest(components=components, strict=strict)
        )
        check(response, "DescribeClientQuotas")
        return {
            entity_of({part.entity_type: part.entity_name for part in entry.entity}): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter_quotas(
        self,
        changes: Mapping[Entity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
    ) -> Answers[Entity, None]:
        """Set quotas, and remove those whose value is None. Raises KafkaError."""
        from pk.core.wire.messages.alter_client_quotas import (
            AlterClientQuotasRequest,
            EntityData,
            EntryData,
            OpData,
        )

        request = AlterClientQuotasRequest(
            entries=[
                EntryData(
                    entity=[
                        EntityData(entity_type=kind, entity_name=name) for kind, name in entity
                    ],
                    ops=[
                        OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in ops.items()
                    ],
                )
                for entity, ops in changes.items()
            ],
            validate_only=validate_only,
        )

        async def ask(connection: Connection) -> Any:
            response = await connection.request(request)
            for entry in response.entries:
                error = failure(entry.error_code, entry.error_message)
                if isinstance(error, KafkaError) and error.retriable:
                    raise error
            return response

        response = await self._controller(ask)
        return Answers(
            (
                entity_of({part.entity_type: part.entity_name for part in entry.entity}),
                failure(entry.error_code, entry.error_message),
            )
            for entry in response.entries
        )
