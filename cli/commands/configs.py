"""`pk configs list`, `describe` and `alter`."""

from collections.abc import Sequence
from typing import Any

from pk.cli.commands.common import describe_topics
from pk.cli.context import Context
from pk.cli.exits import CommandError, Unusable
from pk.cli.failures import phrase, sentence
from pk.cli.grammar import nearest
from pk.cli.names import remember
from pk.cli.output import Column, Listing, Row
from pk.cli.settings import read_properties
from pk.core.errors import KafkaError
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ResourceType,
)

_TYPES = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "broker-logger": ResourceType.BROKER_LOGGER,
    "group": ResourceType.GROUP,
    "client-metric": ResourceType.CLIENT_METRICS,
}
_WORDS = {kind: word for word, kind in _TYPES.items()} | {
    ResourceType.CLIENT_METRICS: "client-metrics"
}


def resource_type(word: str) -> ResourceType:
    """The type that `topic`, `topics`, … names. Raises Unusable."""
    found = _TYPES.get(word.lower().removesuffix("s"))
    if found is None:
        near = nearest(word, _WORDS.values())
        hint = f"; did you mean {near[0]}?" if near else "."
        raise Unusable(f"TYPE is one of {', '.join(_WORDS.values())}, not {word!r}{hint}")
    return found


def _resources(context: Context) -> list[ConfigResource]:
    """What the command is about, by words or by Apache's options. Raises Unusable."""
    args = context.args
    for word, name in (("topic", args.topic), ("broker", args.broker), ("group", args.group)):
        if name is not None:
            if args.type or args.entity_type:
                raise Unusable(f"Say what it is about once: TYPE NAME, or --{word}.")
            return [ConfigResource(_TYPES[word], name)]
    word = args.type or args.entity_type
    if not word:
        raise Unusable(
            "Say what it is about: `topic NAME`, `broker ID`, `broker default` or `group NAME`."
        )
    kind = resource_type(word)
    names = [*args.name, *args.entity_name, *(["default"] if args.entity_default else [])]
    return [ConfigResource(kind, _entity(kind, name)) for name in dict.fromkeys(names)]


def _entity(kind: ResourceType, name: str) -> str:
    if kind is ResourceType.BROKER and name in ("default", "<default>", ""):
        return ""
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and not name.isdigit():
        raise Unusable(f"A broker is named by its id, or `default`; not {name!r}.")
    return name


def shown_name(resource: ConfigResource) -> str:
    return resource.name or "default"


_RESOURCES = (Column("name"), Column("type"))


async def list_resources(context: Context) -> None:
    """`pk configs list`."""
    wanted = [resource_type(context.args.type)] if context.args.type else []
    admin = await context.admin()
    listed = await admin.list_config_resources(wanted)
    rows = [
        {"name": shown_name(res), "type": _WORDS.get(res.type, res.type.name.lower())}
        for res in sorted(listed, key=lambda res: (res.type, res.name))
    ]
    context.show(Listing(_RESOURCES, rows))


_CONFIGS = (
    Column("resource"),
    Column("name"),
    Column("value"),
    Column("source"),
    Column("type", wide=True),
    Column("read_only", wide=True),
    Column("sensitive", wide=True),
    Column("synonyms", wide=True),
)
_DOCS = Column("documentation")


def _config_row(resource: ConfigResource, entry: ConfigEntry) -> dict[str, Any]:
    return {
        "resource": shown_name(resource),
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.name.lower(),
        "type": entry.type.name.lower(),
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
        "synonyms": {f"{s.source.name.lower()}:{s.name}": s.value for s in entry.synonyms},
        "documentation": entry.documentation,
    }


async def _all_of(context: Context, kind: ResourceType) -> list[ConfigResource]:
    """Every resource of a kind, where no name was given."""
    admin = await context.admin()
    if kind is ResourceType.TOPIC:
        topics = await describe_topics(context, admin, None)
        return [ConfigResource(kind, t.name) for t in topics if not t.internal]
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        cluster = await admin.describe_cluster()
        return [ConfigResource(kind, str(b.node_id)) for b in cluster.brokers]
    return [res for res in await admin.list_config_resources([kind]) if res.type == kind]


async def describe(context: Context) -> None:
    """`pk configs describe`."""
    from pk.cli.commands.topics import was_set

    args = context.args
    resources = _resources(context)
    if not resources:
        resources = await _all_of(context, resource_type(args.type or args.entity_type))
    admin = await context.admin()
    answers = await admin.describe_configs(
        resources, keys=args.keys or None, include_documentation=args.docs
    )
    rows: list[Row] = []
    for resource in resources:
        answer = answers[resource]
        if isinstance(answer, Exception):
            context.failed(answer, shown_name(resource))
            continue
        _remember_keys(resource, answer)
        found = {entry.name for entry in answer}
        for key in args.keys:
            if key not in found:
                context.failed(CommandError(f"There is no config {key!r}."), shown_name(resource))
        rows += [
            _config_row(resource, entry)
            for entry in sorted(answer, key=lambda e: e.name)
            if args.all or args.keys or was_set(entry)
        ]
    context.show(Listing((*_CONFIGS, *((_DOCS,) if args.docs else ())), rows))


def _remember_keys(resource: ConfigResource, entries: Sequence[ConfigEntry]) -> None:
    if resource.type in (ResourceType.TOPIC, ResourceType.BROKER) and len(entries) > 10:
        remember("", f"{_WORDS[resource.type]}-config", (e.name for e in entries))


def apache_configs(text: str) -> list[tuple[str, str]]:
    """The pairs of Apache's `k=v,k2=[a,b]`. Raises Unusable."""
    pairs: list[tuple[str, str]] = []
    rest = text
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals or not key.strip():
            raise Unusable(f"--add-config wants KEY=VALUE,KEY=[A,B], not {text!r}.")
        if rest.startswith("["):
            value, closed, rest = rest[1:].partition("]")
            if not closed:
                raise Unusable(f"--add-config: a bracket is not closed in {text!r}.")
            rest = rest.removeprefix(",")
        else:
            value, _, rest = rest.partition(",")
        pairs.append((key.strip(), value))
    return pairs


def _changes(context: Context) -> list[ConfigChange]:
    args = context.args
    pairs = list(args.config)
    for text in args.add_config:
        pairs += apache_configs(text)
    if args.add_config_file:
        pairs += read_properties(args.add_config_file).items()
    changes = [ConfigChange(k, v) for k, v in pairs]
    changes += [ConfigChange(k, None, ConfigOperation.DELETE) for k in args.delete]
    changes += [ConfigChange(k, v, ConfigOperation.APPEND) for k, v in args.append]
    changes += [ConfigChange(k, v, ConfigOperation.SUBTRACT) for k, v in args.subtract]
    if not changes:
        raise Unusable(
            "There is nothing to change; give -c KEY=VALUE, --delete, --append or --subtract."
        )
    names = [change.name for change in changes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Unusable(f"Config {twice} is changed twice on one command line.")
    return changes


_UNLISTED = frozenset(("leader.replication.throttled.rate", "follower.replication.throttled.rate"))
"""Keys of brokers that are described only while they are set."""

_ALTERED = (
    Column("resource"),
    Column("name"),
    Column("from"),
    Column("to"),
    Column("result"),
    Column("error", wide=True),
)


async def alter(context: Context) -> None:
    """`pk configs alter`."""
    resources = _resources(context)
    if not resources:
        raise Unusable("Name what to change: `topic NAME`, `broker ID` or `broker default`.")
    rows = await apply_changes(context, resources, _changes(context))
    context.show(Listing(_ALTERED, rows))


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


async def apply_changes(
    context: Context, resources: Sequence[ConfigResource], changes: Sequence[ConfigChange]
) -> list[dict[str, Any]]:
    """Shows what would change, asks, changes it, and keeps the way back; a row for each resource and key."""
    from pk.cli.commands.undo_configs import remember_configs, settle_configs
    from pk.cli.undo import how_to_undo

    args = context.args
    admin = await context.admin()
    described = await admin.describe_configs(resources)
    rows: list[dict[str, Any]] = []
    known: dict[ConfigResource, Sequence[ConfigEntry]] = {}
    for resource in resources:
        answer = described[resource]
        if isinstance(answer, Exception):
            raise CommandError(f"{shown_name(resource)}: {sentence(answer)}")
        known[resource] = answer
        _remember_keys(resource, answer)
        entries = {entry.name: entry for entry in answer}
        for change in changes:
            entry = entries.get(change.name)
            if entry is None and len(entries) > 10 and change.name not in _UNLISTED:
                near = nearest(change.name, entries)
                hint = f"; did you mean {' or '.join(near)}?" if near else "."
                raise Unusable(f"There is no config {change.name!r}{hint}")
            secret = entry is not None and entry.sensitive
            rows.append(
                {
                    "resource": shown_name(resource),
                    "name": change.name,
                    "from": None if secret or entry is None else entry.value,
                    "to": "(hidden)" if secret else _after(entry, change),
                    "result": "would change" if args.dry_run else "changed",
                    "error": None,
                }
            )
    if not args.dry_run:
        for row in rows:
            context.say(
                f"{row['resource']}: {row['name']}: {_said(row['from'])} → {_said(row['to'])}"
            )
        name = rows[0]["resource"] if len(resources) == 1 else context.settings.bootstrap
        await context.agree(f"Change this on {context.settings.cluster_name}?", name=name)
    wanted = {resource: changes for resource in resources}
    kept = None if args.dry_run else await remember_configs(context, known, wanted)
    answers = await admin.alter_configs(wanted, validate_only=args.dry_run)
    failed = [resource for resource in resources if answers[resource] is not None]
    if kept is not None:
        settle_configs(kept, failed)
        if len(failed) < len(resources):
            context.say(how_to_undo(kept))
    for resource in resources:
        error = answers[resource]
        if error is not None:
            context.failed(error, shown_name(resource))
            for row in rows:
                if row["resource"] == shown_name(resource):
                    row["result"] = phrase(error)
                    row["error"] = (
                        error.name if isinstance(error, KafkaError) else type(error).__name__
                    )
    return rows


def _said(value: str | None) -> str:
    return "(none)" if value is None else value or "(empty)"


__all__ = ["alter", "apply_changes", "describe", "list_resources"]
