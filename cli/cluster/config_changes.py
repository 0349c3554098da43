"""Changing configs, for every command that does: plan, try, show, ask, change, keep the way back.

A change is planned from what the broker says is there now, tried on the broker (which refuses what it would not take before
anybody is asked), shown, asked for, and made with IncrementalAlterConfigs, so that other keys stay as they are.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pk.cli.cluster.configs import remember_keys, shown_name, spoken_name
from pk.cli.cluster.propagation import until_configs
from pk.cli.cluster.topics import is_unknown, unknown_topic
from pk.cli.command_line.nearest import nearest
from pk.cli.config_keys.consequences import consequences
from pk.cli.config_keys.units import both_ways
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.failures import error_name, exit_code, exit_of_rows, phrase, sentence
from pk.cli.undo.configs import remember_configs, settle_configs
from pk.cli.undo.log import how_to_undo
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)

ConfigChanges = Mapping[ConfigResource, Sequence[ConfigChange]]


_UNLISTED = frozenset(("leader.replication.throttled.rate", "follower.replication.throttled.rate"))
"""Keys of brokers that are described only while they are set."""


class ConfigPlan(NamedTuple):
    """Changes to configs, with what is there now and a row for each resource and key."""

    wanted: ConfigChanges
    known: Mapping[ConfigResource, Sequence[ConfigEntry]]
    rows: list[dict[str, Any]]

    @property
    def name(self) -> str | None:
        """What a guard wants typed: the only thing that is changed."""
        return shown_name(next(iter(self.wanted))) if len(self.wanted) == 1 else None


async def apply_changes(context: Context, wanted: ConfigChanges) -> list[dict[str, Any]]:
    """Shows what would change, asks, changes it, and keeps the way back; a row for each resource and key."""
    plan = await plan_changes(context, wanted)
    if context.args.dry_run:
        tell_consequences(context, plan)
    else:
        await check_plan(context, plan)
        tell_plan(context, plan)
        await context.agree(
            f"Change this on {context.settings.cluster_name}?",
            name=plan.name or context.settings.bootstrap,
        )
    return await make_changes(context, plan)


async def plan_changes(context: Context, wanted: ConfigChanges) -> ConfigPlan:
    """What the changes lead to. Raises CommandError where a thing is not there or the broker would refuse a value,
    Unusable where there is no such key."""
    admin = await context.admin()
    described = await admin.describe_configs(list(wanted))
    rows: list[dict[str, Any]] = []
    known: dict[ConfigResource, Sequence[ConfigEntry]] = {}
    for resource, changes in wanted.items():
        answer = described[resource]
        if isinstance(answer, Exception):
            if resource.type is ResourceType.TOPIC and is_unknown(answer):
                raise CommandError((await unknown_topic(context, admin, resource.name)).said)
            raise CommandError(f"{spoken_name(resource)}: {sentence(answer)}", exit_code(answer))
        known[resource] = answer
        remember_keys(resource, answer)
        entries = {entry.name: entry for entry in answer}
        for change in changes:
            entry = entries.get(change.name)
            check_key(change.name, entries)
            secret = entry is not None and entry.sensitive
            rows.append(
                {
                    "resource": shown_name(resource),
                    "name": change.name,
                    "from": None if secret or entry is None else entry.value,
                    "to": "(hidden)" if secret else _after(entry, change),
                    "result": "would change" if context.args.dry_run else "changed",
                    "error": None,
                }
            )
    return ConfigPlan(wanted, known, rows)


def check_key(name: str, entries: Mapping[str, ConfigEntry]) -> None:
    """Raises Unusable for a key that there is none of, as far as the broker lists its keys."""
    if name not in entries and len(entries) > 10 and name not in _UNLISTED:
        near = nearest(name, entries)
        hint = f"; did you mean {' or '.join(near)}?" if near else "."
        raise Unusable(f"There is no config {name!r}{hint}")


async def check_plan(context: Context, plan: ConfigPlan) -> None:
    """Raises CommandError where the broker would refuse some of it: better before the question than after."""
    refused = await refusals(context, plan.wanted)
    if refused:
        said = dict.fromkeys(map(sentence, refused))
        raise CommandError(" ".join(said), exit_of_rows(refused))


def tell_plan(context: Context, plan: ConfigPlan) -> None:
    """Says what would change, before the question."""
    for row in plan.rows:
        before, after = (both_ways(row["name"], row[at]) for at in ("from", "to"))
        context.say(f"{row['resource']}: {row['name']} {before} → {after}")
    tell_consequences(context, plan)


def tell_consequences(context: Context, plan: ConfigPlan) -> None:
    """Says which records and clients the change concerns."""
    types = {resource.type for resource in plan.wanted}
    if types <= {ResourceType.TOPIC, ResourceType.BROKER}:
        for said in consequences(plan.rows, of_brokers=ResourceType.BROKER in types):
            context.say(said)


async def make_changes(context: Context, plan: ConfigPlan) -> list[dict[str, Any]]:
    """Makes the changes, or tries them with --dry-run, and keeps the way back; the rows say what became of each."""
    admin = await context.admin()
    trying = context.args.dry_run
    kept = None if trying else await remember_configs(context, plan.known, plan.wanted)
    answers = await admin.alter_configs(plan.wanted, validate_only=trying)
    failed = [resource for resource in plan.wanted if answers[resource] is not None]
    if not trying:
        await until_configs(admin, plan.known, plan.wanted, failed)
    if kept is not None:
        settle_configs(kept, failed)
        if len(failed) < len(plan.wanted):
            context.say(how_to_undo(kept))
    for resource in failed:
        error = answers[resource]
        assert error is not None
        context.failed(error, spoken_name(resource))
        for row in plan.rows:
            if row["resource"] == shown_name(resource):
                row["result"] = phrase(error)
                row["error"] = error_name(error)
    return plan.rows


async def refusals(context: Context, wanted: ConfigChanges) -> list[Exception]:
    """What the broker would refuse of the changes."""
    admin = await context.admin()
    answers = await admin.alter_configs(wanted, validate_only=True)
    return [error for error in answers.values() if error is not None]


def _after(entry: ConfigEntry | None, change: ConfigChange) -> str | None:
    """The value that a change leads to, as far as it can be known beforehand."""
    if change.operation is ConfigOperation.SET:
        return change.value
    if change.operation is ConfigOperation.DELETE:
        below = [s for s in entry.synonyms if s.source is not entry.source] if entry else []
        return below[0].value if below else None
    has = [v for v in (entry.value or "").split(",") if v] if entry else []
    named = (change.value or "").split(",")
    if change.operation is ConfigOperation.APPEND:
        return ",".join(has + [v for v in named if v not in has])
    return ",".join(v for v in has if v not in named)
