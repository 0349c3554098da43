"""Admin requests about ACLs (KIP-140, KIP-290): describe, create and delete rules."""

from collections.abc import Sequence
from typing import Any

from pk.core.auth.acls import AclBinding, AclFilter
from pk.core.errors import KafkaError
from pk.net.client.admin_operations.base import AdminBase, check, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection


class AclOperations(AdminBase):
    """Operations on ACLs. Without an authorizer brokers refuse all of them with
    SECURITY_DISABLED."""

    async def describe_acls(self, wanted: AclFilter = AclFilter()) -> list[AclBinding]:
        """Return the rules that match a filter, sorted. Raises KafkaError."""
        from pk.core.wire.messages.describe_acls import DescribeAclsRequest

        response = await self._any(
            DescribeAclsRequest(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
        )
        check(response, "DescribeAcls")
        return sorted(
            AclBinding(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in response.resources
            for acl in resource.acls
        )

    async def create_acls(self, rules: Sequence[AclBinding]) -> Answers[AclBinding, None]:
        """Create rules; one that already exists is not an error. Raises KafkaError."""
        from pk.core.wire.messages.create_acls import AclCreation, CreateAclsRequest

        async def ask(connection: Connection) -> Any:
            return await connection.request(
                CreateAclsRequest(
                    creations=[
                        AclCreation(
                            resource_type=rule.resource_type,
                            resource_name=rule.resource_name,
                            resource_pattern_type=rule.pattern_type,
                            principal=rule.principal,
                            host=rule.host,
                            operation=rule.operation,
                            permission_type=rule.permission,
                        )
                        for rule in rules
                    ]
                )
            )

        response = await self._controller(ask)
        return Answers(
            (rule, failure(result.error_code, result.error_message))
            for rule, result in zip(rules, response.results, strict=True)
        )

    async def delete_acls(
        self, filters: Sequence[AclFilter]
    ) -> Answers[AclFilter, list[AclBinding]]:
        """Delete the rules that match any of the filters, and return them. Raises KafkaError."""
        from pk.core.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest

        async def ask(connection: Connection) -> Any:
            return await connection.request(
                DeleteAclsRequest(
                    filters=[
                        DeleteAclsFilter(
                            resource_type_filter=wanted.resource_type,
                            resource_name_filter=wanted.resource_name,
                            pattern_type_filter=wanted.pattern_type,
                            principal_filter=wanted.principal,
                            host_filter=wanted.host,
                            operation=wanted.operation,
                            permission_type=wanted.permission,
                        )
                        for wanted in filters
                    ]
                )
            )

        response = await self._controller(ask)
        answers: Answers[AclFilter, list[AclBinding]] = Answers()
        for wanted, result in zip(filters, response.filter_results, strict=True):
            if result.error_code:
                answers.add(wanted, KafkaError(result.error_code, result.error_message))
                continue
            deleted = [
                AclBinding(
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                for acl in result.matching_acls
                if not acl.error_code
            ]
            answers.add(wanted, deleted)
        return answers
