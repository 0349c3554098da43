"""Changes configs, for all commands that do so: plans, validates, shows, asks, changes, and records
how to undo it.

A change is planned from the configs that the broker describes and validated by the broker, so that
a refused value is reported before the question. Then the plan is shown, confirmed, and carried out
with IncrementalAlterConfigs, which leaves other keys alone.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.cluster.broker_defaults import Default, broker_defaults
from pk.cli.cluster.configs import name_in_sentence, own_source, remember_keys, shown_name
from pk.cli.cluster.propagation import until_configs
from pk.cli.cluster.remembered_configs import remember_configs, settle_configs
from pk.cli.cluster.topics import is_unknown, unknown_topic
from pk.cli.config_keys.consequences import consequences
from pk.cli.config_keys.units import both_ways, shown_value
from pk.cli.exits import CommandError, Unusable
from pk.cli.phrases import join
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, exit_code, exit_of_rows, phrase, sentence
from pk.cli.runtime.undo_log import how_to_undo
from pk.core.config import TOPIC_SYNONYMS
from pk.core.errors import KafkaError
from pk.core.nearest import did_you_mean
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSynonym,
    ResourceType,
)

ConfigChanges = Mapping[ConfigResource, Sequence[ConfigChange]]


_UNLISTED = frozenset(("leader.replication.throttled.rate", "follower.replication.throttled.rate"))
"""Broker keys that are described only while they are set."""


class ConfigPlan(NamedTuple):
    """Changes to configs, with the current configs and a row for each resource and key. Deleting a
    key that is not set, or setting a key to the value that it has, has a row but is not a
    change."""

    wanted: ConfigChanges
    known: Mapping[ConfigResource, Sequence[ConfigEntry]]
    rows: list[AlteredConfig]

    @property
    def name(self) -> str | None:
        """The name that a guard asks the user to type: the only resource that changes; None if
        there are several."""
        return shown_name(next(iter(self.wanted))) if len(self.wanted) == 1 else None


class Changed(NamedTuple):
    """The result of changes to configs."""

    rows: Sequence[AlteredConfig] = ()
    """A row for each resource and key."""

    undo_id: str | None = None
    """The change to undo; None if nothing was changed."""

    def say_how_to_undo(self, context: Context) -> None:
        """Say how to undo the changes, if there were any. Call it after the rows are shown."""
        if self.undo_id is not None:
            context.say(how_to_undo(self.undo_id))


async def apply_changes(context: Context, wanted: ConfigChanges) -> Changed:
    """Show the changes, ask, make them, and record how to undo them. Returns no rows if there is
    nothing to change."""
    plan = await plan_changes(context, wanted)
    if not plan.wanted:
        say_nothing_to_change(context, plan)
        return Changed()
    if context.change.dry_run:
        say_consequences(context, plan)
    else:
        await check_plan(context, plan)
        say_plan(context, plan)
        await context.agree(
            f"Change this on {context.settings.cluster_name}?",
            name=plan.name or context.settings.bootstrap,
        )
    return await make_changes(context, plan)


async def plan_changes(context: Context, wanted: ConfigChanges) -> ConfigPlan:
    """The plan for the changes. Raises CommandError for a missing resource, Unusable for an unknown
    key."""
    admin = await context.admin()
    described = await admin.describe_configs(list(wanted))
    rows: list[AlteredConfig] = []
    needed: dict[ConfigResource, list[ConfigChange]] = {}
    defaults = await _hidden_defaults(admin, wanted, described.ok)
    known: dict[ConfigResource, Sequence[ConfigEntry]] = {}
    for resource, changes in wanted.items():
        if (error := described.errors.get(resource)) is not None:
            if resource.type is ResourceType.TOPIC and is_unknown(error):
                raise CommandError((await unknown_topic(context, admin, resource.name)).said)
            raise CommandError(f"{name_in_sentence(resource)}: {sentence(error)}", exit_code(error))
        known[resource] = described.ok[resource]
        remember_keys(resource, known[resource])
        entries = {entry.name: entry for entry in known[resource]}
        for change in changes:
            entry = entries.get(change.name)
            check_key(change.name, entries)
            about = entry or _overridden(change.name, entries)
            secret = about is not None and about.sensitive
            after, source = _after(resource, entry, change, defaults)
            if change.operation is ConfigOperation.DELETE:
                idle = not _is_set(resource, entry)
            else:
                kept = entry is not None and (entry.source, entry.value) == (
                    own_source(resource),
                    after,
                )
                idle = kept and not secret
            if not idle:
                needed.setdefault(resource, []).append(change)
            rows.append(
                {
                    "resource": shown_name(resource),
                    "name": change.name,
                    "from": None if secret or entry is None else entry.value,
                    "to": "(hidden)" if secret and source is None else after,
                    "to_source": source,
                    "result": "unchanged"
                    if idle
                    else "would change"
                    if context.change.dry_run
                    else "changed",
                    "error": None,
                }
            )
    return ConfigPlan(needed, known, rows)


def say_nothing_to_change(context: Context, plan: ConfigPlan) -> None:
    """Say which keys to delete are not set, and which keys already have the requested value."""
    keys: dict[str, list[str]] = {}
    for row in plan.rows:
        if row["to_source"] is None:
            said = f"{row['name']} of {row['resource']} is already {shown_value(row, 'to')}"
            context.say(f"Nothing to change: {said}.")
        else:
            keys.setdefault(row["resource"], []).append(row["name"])
    for name, unset in keys.items():
        verb = "is" if len(unset) == 1 else "are"
        context.say(f"Nothing to change: {join(unset)} {verb} not set on {name}.")


async def _hidden_defaults(
    admin: Admin,
    wanted: ConfigChanges,
    described: Mapping[ConfigResource, Sequence[ConfigEntry]],
) -> Mapping[str, Default]:
    """Topic key → the default that applies to a topic once the key is deleted, for keys whose
    default the topic's description does not give and all brokers agree on. As in Kafka, the
    description of a topic's `retention.ms` does not name `log.retention.hours`."""
    keys: set[str] = set()
    for resource, entries in described.items():
        if resource.type is not ResourceType.TOPIC:
            continue
        described_keys = {entry.name for entry in entries if _beneath(resource, entry) is not None}
        keys |= {
            change.name
            for change in wanted[resource]
            if change.operation is ConfigOperation.DELETE and change.name not in described_keys
        }
    keys &= TOPIC_SYNONYMS.keys()
    if not keys:
        return {}
    try:
        brokers = [b.node_id for b in (await admin.describe_cluster()).brokers]
    except (KafkaError, ClientError):
        return {}
    found: dict[str, Default] = {}
    of_brokers = list((await broker_defaults(admin, brokers, sorted(keys))).values())
    for key in keys:
        values = {of[key].value if key in of else None for of in of_brokers}
        if len(of_brokers) == len(brokers) and len(values) == 1 and None not in values:
            found[key] = of_brokers[0][key]
    return found


def _is_set(resource: ConfigResource, entry: ConfigEntry | None) -> bool:
    """Whether the resource itself has set a key: a secret's value does not show that, but its layer
    does."""
    own = own_source(resource)
    return entry is not None and (
        entry.source is own or any(s.source is own for s in entry.synonyms)
    )


def _beneath(resource: ConfigResource, entry: ConfigEntry) -> ConfigSynonym | None:
    """The value that applies if the resource itself sets none; None if the description does not
    give it."""
    own = own_source(resource)
    return next((s for s in entry.synonyms if s.source is not own), None)


def check_key(name: str, entries: Mapping[str, ConfigEntry]) -> None:
    """Raise Unusable for an unknown key, if the broker lists its keys."""
    listed = name in entries or _overridden(name, entries) is not None
    if not listed and len(entries) > 10 and name not in _UNLISTED:
        raise Unusable(f"Config {name!r} does not exist{did_you_mean(name, entries)}")


def _overridden(name: str, entries: Mapping[str, ConfigEntry]) -> ConfigEntry | None:
    """The broker key that a listener's key overrides: `ssl.keystore.type` for
    `listener.name.internal.ssl.keystore.type`. Brokers describe a listener's key only while it is
    set."""
    _, _, rest = name.removeprefix("listener.name.").partition(".")
    if not name.startswith("listener.name."):
        return None
    while rest and rest not in entries:
        rest = rest.partition(".")[
            2
        ]  # the key may start with a mechanism: scram-sha-256.sasl.jaas.config
    return entries.get(rest)


async def check_plan(context: Context, plan: ConfigPlan) -> None:
    """Raise CommandError if the broker would refuse any change, so that the user is not asked in
    vain."""
    refused = await refusals(context, plan.wanted)
    if refused:
        said = dict.fromkeys(map(sentence, refused))
        raise CommandError(" ".join(said), exit_of_rows(refused))


def say_plan(context: Context, plan: ConfigPlan) -> None:
    """Show the planned changes, before the question."""
    spoken = {shown_name(resource): name_in_sentence(resource) for resource in plan.wanted}
    for row in plan.rows:
        resource = spoken.get(row["resource"], row["resource"])
        if row["result"] == "unchanged":
            kept = "not set" if row["to_source"] else f"already {shown_value(row, 'to')}"
            context.say(f"{resource}: {row['name']} is {kept}")
            continue
        before, after = both_ways(row["name"], row["from"]), shown_value(row, "to")
        context.say(f"{resource}: {row['name']} {before} → {after}")
    say_consequences(context, plan)


def say_consequences(context: Context, plan: ConfigPlan) -> None:
    """Show the consequences of the changes for records and clients."""
    types = {resource.type for resource in plan.wanted}
    if types <= {ResourceType.TOPIC, ResourceType.BROKER}:
        for said in consequences(plan.rows, of_brokers=ResourceType.BROKER in types):
            context.say(said)


async def make_changes(context: Context, plan: ConfigPlan) -> Changed:
    """Make the changes, or validate them with --dry-run, and record how to undo them. The rows say
    the results."""
    if not plan.wanted:
        return Changed(plan.rows)
    admin = await context.admin()
    dry_run = context.change.dry_run
    kept = None if dry_run else await remember_configs(context, plan.known, plan.wanted)
    answers = await admin.alter_configs(plan.wanted, validate_only=dry_run)
    failed = answers.errors
    if not dry_run:
        await until_configs(admin, plan.known, plan.wanted, failed)
    if kept is not None:
        settle_configs(kept, failed)
        if len(failed) == len(plan.wanted):
            kept = None
    for resource, error in failed.items():
        context.failed(error, name_in_sentence(resource))
        for row in plan.rows:
            if row["resource"] == shown_name(resource) and row["result"] != "unchanged":
                row["result"] = phrase(error)
                row["error"] = error_name(error)
    return Changed(plan.rows, kept)


async def refusals(context: Context, wanted: ConfigChanges) -> list[Exception]:
    """The errors with which the broker would refuse the changes; empty if it accepts all."""
    admin = await context.admin()
    answers = await admin.alter_configs(wanted, validate_only=True)
    return list(answers.errors.values())


def _after(
    resource: ConfigResource,
    entry: ConfigEntry | None,
    change: ConfigChange,
    defaults: Mapping[str, Default],
) -> tuple[str | None, str | None]:
    """The value after a change, as far as it is known in advance, and the layer that supplies it
    once a key is deleted."""
    if change.operation is ConfigOperation.SET:
        return change.value, None
    if change.operation is ConfigOperation.DELETE:
        below = _beneath(resource, entry) if entry else None
        if below is None and entry is not None and not _is_set(resource, entry):
            return entry.value, "default"
        if below is not None:
            return below.value, below.source.name.lower()
        default = defaults.get(change.name)
        if default is not None and resource.type is ResourceType.TOPIC:
            return default.value, default.source.name.lower()
        return None, "default"
    has = [v for v in (entry.value or "").split(",") if v] if entry else []
    named = (change.value or "").split(",")
    if change.operation is ConfigOperation.APPEND:
        return ",".join(has + [v for v in named if v not in has]), None
    return ",".join(v for v in has if v not in named), None
