"""Admin operations on configs."""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client import results as r
from pk.net.client.admin_operations.base import AdminBase, Failure, Routed, check, failure
from pk.net.client.answers import Answers
from pk.net.client.connection import Connection
from pk.net.client.errors import BrokerDown, RequestTimedOut, Unanswered

_INCREMENTAL_ALTER_CONFIGS = 44
_LIST_CONFIG_RESOURCES = 74

_OWN_LAYER = {
    r.ResourceType.TOPIC: r.ConfigSource.TOPIC,
    r.ResourceType.BROKER: r.ConfigSource.DYNAMIC_BROKER,
}


class ConfigOperations(AdminBase):
    """The part of `Admin` about configs."""

    async def describe_configs(
        self,
        resources: Iterable[r.ConfigResource],
        *,
        keys: Iterable[str] | None = None,
        include_synonyms: bool = True,
        include_documentation: bool = False,
    ) -> Answers[r.ConfigResource, tuple[r.ConfigEntry, ...]]:
        """Return the configs of resources (DescribeConfigs), or only those named in `keys`. A
        broker's configs come from that broker."""
        from pk.core.wire.messages.describe_configs import (
            DescribeConfigsRequest,
            DescribeConfigsResource,
        )

        wanted_keys = None if keys is None else list(keys)

        async def ask(
            connection: Connection, items: list[r.ConfigResource]
        ) -> Answers[r.ConfigResource, tuple[r.ConfigEntry, ...]]:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=int(item.type),
                        resource_name=item.name,
                        configuration_keys=wanted_keys,
                    )
                    for item in items
                ],
                include_synonyms=include_synonyms,
            )
            version = connection.version_of(request.API_KEY)
            if version >= 3:
                request.include_documentation = include_documentation
            response = await connection.request(request, version=version)
            return Answers(
                (
                    _resource(result),
                    failure(result.error_code, result.error_message)
                    or tuple(sorted(map(_entry, result.configs), key=lambda e: e.name)),
                )
                for result in response.results
            )

        return await self._batches(resources, self._route_configs, ask)

    async def alter_configs(
        self,
        changes: Mapping[r.ConfigResource, Iterable[r.ConfigChange]],
        *,
        validate_only: bool = False,
    ) -> Answers[r.ConfigResource, None]:
        """Change single keys of resources (IncrementalAlterConfigs, KIP-339).

        For brokers before 2.3, this reads the whole config and writes it with the changes, so a
        change by another client in between is lost.
        """
        listed = {resource: list(of) for resource, of in changes.items()}

        async def ask(
            connection: Connection, items: list[r.ConfigResource]
        ) -> Answers[r.ConfigResource, None]:
            asked = {item: listed[item] for item in items}
            if not connection.serves(_INCREMENTAL_ALTER_CONFIGS):
                return await self._write_whole_configs(connection, asked, validate_only)
            return await _alter_incrementally(connection, asked, validate_only)

        answers = await self._unless_controller_down(
            lambda: self._batches(listed, self._route_changes, ask, changes=True)
        )
        named: dict[tuple[Any, ...], RequestTimedOut] = {}
        for resource, error in answers.errors.items():
            if isinstance(error, Unanswered):
                if error.nodes not in named:
                    named[error.nodes] = await self._attribute_timeout(error)
                answers.errors[resource] = named[error.nodes]
        return answers

    async def list_config_resources(
        self, types: Iterable[r.ResourceType] = ()
    ) -> tuple[r.ConfigResource, ...]:
        """List the resources that have (or may have) configs (KIP-1142, 4.1), of the given types
        (none: all).

        For older brokers, topics, brokers and client metrics are combined; GROUP raises KafkaError
        UNSUPPORTED_VERSION.
        """
        from pk.core.wire.messages.list_config_resources import ListConfigResourcesRequest

        wanted = set(types)
        connection = await self._retry(self.cluster.any_connection, "the cluster")
        if connection.serves(_LIST_CONFIG_RESOURCES, 1):
            request = ListConfigResourcesRequest(resource_types=sorted(map(int, wanted)))
            response = await self._any(request, low=1)
            check(response, "ListConfigResources")
            found = [_resource(c) for c in response.config_resources]
            return tuple(sorted(found, key=lambda c: (c.type, c.name)))
        if r.ResourceType.GROUP in wanted:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, "the broker does not list the configs of groups"
            )
        return await self._assemble_resources(wanted, connection)

    async def _assemble_resources(
        self, wanted: set[r.ResourceType], connection: Connection
    ) -> tuple[r.ConfigResource, ...]:
        from pk.core.wire.messages.list_config_resources import ListConfigResourcesRequest

        found: list[r.ConfigResource] = []
        await self._retry(lambda: self.cluster.refresh(None), "Metadata")
        for type, names in (
            (r.ResourceType.TOPIC, sorted(self.cluster.metadata.topics)),
            (r.ResourceType.BROKER, [str(b) for b in sorted(self.cluster.metadata.brokers)]),
            (r.ResourceType.BROKER_LOGGER, [str(b) for b in sorted(self.cluster.metadata.brokers)]),
        ):
            if not wanted or type in wanted:
                found += [r.ConfigResource(type, name) for name in names]
        metrics = r.ResourceType.CLIENT_METRICS
        if (not wanted or metrics in wanted) and connection.serves(_LIST_CONFIG_RESOURCES):
            response = await self._any(ListConfigResourcesRequest(), high=0)
            check(response, "ListConfigResources")
            found += [r.ConfigResource(metrics, c.resource_name) for c in response.config_resources]
        return tuple(found)

    async def _write_whole_configs(
        self,
        connection: Connection,
        changes: Mapping[r.ConfigResource, list[r.ConfigChange]],
        validate_only: bool,
    ) -> Answers[r.ConfigResource, None]:
        from pk.core.wire.messages.alter_configs import (
            AlterableConfig,
            AlterConfigsRequest,
            AlterConfigsResource,
        )

        answers: Answers[r.ConfigResource, None] = Answers()
        resources: list[AlterConfigsResource] = []
        described = await self.describe_configs(changes)
        for resource, error in described.errors.items():
            answers.add(resource, error)
        for resource, entries in described.ok.items():
            own = _OWN_LAYER.get(resource.type)
            values = {e.name: e.value for e in entries if e.source == own and not e.sensitive}
            defaults = {e.name: e.value for e in entries}
            for change in changes[resource]:
                _apply_change(values, defaults, change)
            resources.append(
                AlterConfigsResource(
                    resource_type=int(resource.type),
                    resource_name=resource.name,
                    configs=[AlterableConfig(name=k, value=v) for k, v in values.items()],
                )
            )
        if resources:
            request = AlterConfigsRequest(resources=resources, validate_only=validate_only)
            response = await connection.request(request)
            for result in response.responses:
                answers.add(_resource(result), failure(result.error_code, result.error_message))
        return answers

    async def _route_configs(self, todo: list[r.ConfigResource]) -> Routed[r.ConfigResource]:
        return await self._route_to_brokers(todo, to_controller=False)

    async def _route_changes(self, todo: list[r.ConfigResource]) -> Routed[r.ConfigResource]:
        return await self._route_to_brokers(todo, to_controller=True)

    async def _route_to_brokers(
        self, todo: list[r.ConfigResource], *, to_controller: bool
    ) -> Routed[r.ConfigResource]:
        """Route a named broker's configs to that broker, the rest to the controller or to any
        broker."""
        by_node: dict[int, list[r.ConfigResource]] = {}
        failed: dict[r.ConfigResource, Failure] = {}
        for resource in todo:
            named = resource.type in (r.ResourceType.BROKER, r.ResourceType.BROKER_LOGGER)
            if not named or resource.name == "":
                if to_controller:
                    node_id = await self.cluster.controller()
                else:
                    node_id = await self._any_node()
            elif resource.name.isdecimal():
                node_id = int(resource.name)
                if self.cluster.node(node_id) is None:
                    await self.cluster.refresh(())
                if self.cluster.node(node_id) is None:
                    failed[resource] = BrokerDown()
                    continue
            else:
                failed[resource] = KafkaError(
                    ErrorCode.INVALID_REQUEST, f"a broker's id is a number, not {resource.name!r}"
                )
                continue
            by_node.setdefault(node_id, []).append(resource)
        return by_node, failed

    async def _any_node(self) -> int:
        if not self.cluster.metadata.brokers:
            await self.cluster.refresh(())
        return (await self.cluster.any_connection()).node.node_id


async def _alter_incrementally(
    connection: Connection,
    changes: Mapping[r.ConfigResource, list[r.ConfigChange]],
    validate_only: bool,
) -> Answers[r.ConfigResource, None]:
    from pk.core.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    resources = [
        AlterConfigsResource(
            resource_type=int(resource.type),
            resource_name=resource.name,
            configs=[
                AlterableConfig(name=c.name, config_operation=int(c.operation), value=c.value)
                for c in of
            ],
        )
        for resource, of in changes.items()
    ]
    request = IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)
    response = await connection.request(request)
    return Answers(
        (_resource(a), failure(a.error_code, a.error_message)) for a in response.responses
    )


def _apply_change(
    values: dict[str, str | None], defaults: Mapping[str, str | None], change: r.ConfigChange
) -> None:
    current = values.get(change.name, defaults.get(change.name)) or ""
    parts = [part for part in current.split(",") if part]
    given = (change.value or "").split(",")
    if change.operation == r.ConfigOperation.SET:
        values[change.name] = change.value
    elif change.operation == r.ConfigOperation.DELETE:
        values.pop(change.name, None)
    elif change.operation == r.ConfigOperation.APPEND:
        values[change.name] = ",".join(parts + [part for part in given if part not in parts])
    else:
        values[change.name] = ",".join(part for part in parts if part not in given)


def _resource(item: Any) -> r.ConfigResource:
    try:
        type = r.ResourceType(item.resource_type)
    except ValueError:
        type = r.ResourceType.UNKNOWN
    return r.ConfigResource(type, item.resource_name)


def _source(code: int) -> r.ConfigSource:
    try:
        return r.ConfigSource(code)
    except ValueError:
        return r.ConfigSource.UNKNOWN


def _entry(c: Any) -> r.ConfigEntry:
    try:
        type = r.ConfigType(c.config_type)
    except ValueError:
        type = r.ConfigType.UNKNOWN
    return r.ConfigEntry(
        c.name,
        c.value,
        _source(c.config_source),
        c.read_only,
        c.is_sensitive,
        type,
        c.documentation,
        tuple(r.ConfigSynonym(s.name, s.value, _source(s.source)) for s in c.synonyms),
    )
