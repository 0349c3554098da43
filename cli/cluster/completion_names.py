"""Fetches the names that completion offers. For completion outside the shell, a separate process
does this (`pk __refresh`), which `pk.cli.command_line.completion.name_refresh` starts; the shell
does it over its own connection."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pk.cli.command_line.completion.name_refresh import GIVEN

if TYPE_CHECKING:
    from pk.net.client.admin import Admin
    from pk.net.client.results import TopicDescription

_DEADLINE_S = 20.0
_GROUPS_MAX = 50
"""The most groups with members to describe for the names of their members."""
_FIRST_ANSWER_S = 3.0
_GROUPS_S = 3.0
_ALARM_S = 40
_CONFIGS_MAX = 200


def refresh() -> int:
    """Run `pk __refresh`: fetch the names once. Returns an exit code."""
    import signal

    from pk.cli.options.option_sets import Reach
    from pk.cli.options.values import Pair
    from pk.cli.runtime.settings import settings_of

    try:
        given = json.loads(os.environ.pop(GIVEN, "{}"))
        os.nice(10)
        # Without the alarm, a keyring that prompts or a disk that hangs would keep this process
        # forever.
        signal.alarm(_ALARM_S)
        pairs: list[list[str]] = given.get("client_properties") or []
        reach = Reach(
            bootstrap_server=given.get("bootstrap_server"),
            profile=given.get("profile"),
            client_properties=tuple(Pair(key, value) for key, value in pairs),
            config_file=given.get("config_file"),
        )
        settings = settings_of(reach)
        from pk.cli.runtime.connect import run_loop

        run_loop(_fetch_and_keep, settings)
    except Exception:  # noqa: BLE001 - no one to report to: completion continues with what it has
        return 1
    return 0


async def _fetch_and_keep(settings: Any) -> None:
    import trio

    from pk.cli.runtime.session import open_session
    from pk.net.client.results import ConfigResource, ResourceType

    with trio.fail_after(_DEADLINE_S):
        async with open_session() as session:
            admin = await session.admin(settings)
            seen = await fetch(admin)
            keep(settings.bootstrap, seen)
            await keep_members(admin, settings.bootstrap, seen)
            some = list(seen.topics)[:_CONFIGS_MAX]
            configs = await set_configs(
                admin, [ConfigResource(ResourceType.TOPIC, n) for n in some]
            )
            from pk.cli.runtime.name_cache import remember_configs

            remember_configs(settings.bootstrap, {name: c for (_, name), c in configs.items() if c})


class Seen(NamedTuple):
    """The names in a cluster, for completion and for the shell's toolbar."""

    topics: Mapping[str, "TopicDescription"]
    groups: Mapping[str, str] | None
    """Group → its state; None if the brokers did not answer in time."""

    brokers: Mapping[int, str]
    """Broker → its address; empty for a missing one."""

    down: frozenset[int]
    """Brokers that are fenced, or that hold replicas but are not registered."""

    controller: int | None


async def fetch(admin: "Admin") -> Seen:
    """Request all names from a cluster. Raises KafkaError and ClientError, and trio.TooSlowError if
    the first answer does not arrive within seconds: a client would retry for longer, but nothing
    waits for these names."""
    import trio

    from pk.cli.cluster.brokers import describe_nodes

    with trio.fail_after(_FIRST_ANSWER_S):
        cluster, nodes = await describe_nodes(admin)
    described = await admin.describe_topics()
    topics = dict(sorted(described.ok.items()))
    groups: dict[str, str] | None = None
    with trio.move_on_after(_GROUPS_S):  # every broker is asked, and a broker that hangs delays all
        listed = await admin.list_groups()
        groups = {g.group_id: g.state for g in sorted(listed.groups, key=lambda g: g.group_id)}
    addresses = {b.node_id: b.address for b in cluster.brokers}
    known = {b for t in topics.values() for p in t.partitions for b in p.replicas}
    live = {b for b, node in nodes.items() if not node.fenced}
    return Seen(
        topics,
        groups,
        {b: addresses.get(b, "") for b in sorted(known | set(nodes) | set(addresses))},
        frozenset((known | set(nodes)) - live),
        cluster.controller_id if cluster.controller_id >= 0 else None,
    )


def keep(bootstrap: str, seen: Seen) -> None:
    """Keep the names for completion outside the shell, and for the next shell."""
    from pk.cli.runtime.name_cache import partitions_meaning, remember

    topics = {name: partitions_meaning(len(t.partitions)) for name, t in seen.topics.items()}
    remember(bootstrap, "topic", topics)
    if seen.groups is not None:
        remember(bootstrap, "group", seen.groups)
    remember(bootstrap, "broker", {str(b): address for b, address in seen.brokers.items()})


async def keep_members(admin: "Admin", bootstrap: str, seen: Seen) -> None:
    """Keep the members of the first nonempty groups for completion. Raises ClientError."""
    from pk.cli.runtime.name_cache import remember_members

    peopled = [g for g, state in (seen.groups or {}).items() if state not in ("Empty", "Dead")]
    if not peopled:
        return
    described = await admin.describe_groups(peopled[:_GROUPS_MAX])
    for name, found in described.ok.items():
        remember_members(bootstrap, name, found.members)


async def set_configs(
    admin: "Admin", resources: "list[Any]"
) -> dict[tuple[int, str], dict[str, str]]:
    """(Resource type, name) → the configs that are not its defaults. Resources that cannot be
    described are left out."""
    from pk.net.client.results import ConfigSource

    if not resources:
        return {}
    inherited = (ConfigSource.DEFAULT, ConfigSource.STATIC_BROKER)
    answers = await admin.describe_configs(resources, include_synonyms=False)
    return {
        (int(resource.type), resource.name): {
            e.name: e.value or "" for e in found if e.source not in inherited and not e.sensitive
        }
        for resource, found in answers.ok.items()
    }
