"""`pk configs list` and `describe`."""

from collections.abc import Sequence
from typing import Any

from pk.cli.cluster.configs import (
    RESOURCE_TYPES,
    SOURCE_WORDS,
    TYPE_WORDS,
    entity_name,
    remember_keys,
    resource_type,
    shown_name,
    source_word,
    spoken_name,
)
from pk.cli.cluster.topics import describe_topics
from pk.cli.command_line.nearest import nearest
from pk.cli.config_keys.docs import documentation, in_units, keys_of
from pk.cli.output.formats import Column, Listing, Row, narrow
from pk.cli.runtime.context import Context, count
from pk.cli.runtime.exits import CommandError, Unusable
from pk.net.client.results import ConfigEntry, ConfigResource, ResourceType


def resources_of(context: Context) -> list[ConfigResource]:
    """What the command is about, by words or by Apache's options. Raises Unusable."""
    args = context.args
    for word, name in (("topic", args.topic), ("broker", args.broker), ("group", args.group)):
        if name is not None:
            if args.type or args.entity_type:
                raise Unusable(f"Say what it is about once: TYPE NAME, or --{word}.")
            return [ConfigResource(RESOURCE_TYPES[word], name)]
    word = args.type or args.entity_type
    if not word:
        raise Unusable(
            "Say what it is about: `topic NAME`, `broker ID`, `broker default` or `group NAME`."
        )
    kind = resource_type(word)
    names = [*args.name, *args.entity_name, *(["default"] if args.entity_default else [])]
    return [ConfigResource(kind, entity_name(kind, name)) for name in dict.fromkeys(names)]


_RESOURCES = (Column("name"), Column("type"))


async def list_resources(context: Context) -> None:
    """`pk configs list`."""
    wanted = [resource_type(context.args.type)] if context.args.type else []
    admin = await context.admin()
    listed = await admin.list_config_resources(wanted)
    rows = [
        {"name": shown_name(res), "type": TYPE_WORDS.get(res.type, res.type.name.lower())}
        for res in sorted(listed, key=lambda res: (res.type, res.name))
    ]
    context.show(Listing(_RESOURCES, rows))


_CONFIGS = (
    Column("resource"),
    Column("name"),
    Column(
        "value",
        show=lambda v: "-" if v is None else v or "(empty)",
        on_terminal=lambda row: _on_terminal(row),
    ),
    Column("source", show=source_word),
    Column("type", wide=True),
    Column("read_only", wide=True),
    Column("sensitive", wide=True),
    Column("synonyms", wide=True),
)
_DOCS = Column("documentation")


def _on_terminal(row: Row) -> str:
    if row["sensitive"]:
        return "(hidden)"
    return "-" if row["value"] is None else in_units(str(row["name"]), row["value"])


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
        "documentation": documentation(resource.type, entry),
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
    from pk.cli.cluster.configs import was_set

    args = context.args
    resources = resources_of(context)
    several = len(resources) != 1
    if not resources:
        resources = await _all_of(context, resource_type(args.type or args.entity_type))
    admin = await context.admin()
    answers = await admin.describe_configs(
        resources, keys=args.keys or None, include_documentation=args.docs
    )
    rows: list[Row] = []
    hidden = 0
    for resource in resources:
        answer = answers[resource]
        if isinstance(answer, Exception):
            context.failed(answer, spoken_name(resource))
            continue
        remember_keys(resource, answer)
        _tell_unknown_keys(context, resource, answer)
        shown = [e for e in answer if args.all or args.keys or was_set(e)]
        hidden += len(answer) - len(shown)
        rows += [_config_row(resource, entry) for entry in sorted(shown, key=lambda e: e.name)]
    columns = [c._replace(wide=c.wide or (c.key == "resource" and not several)) for c in _CONFIGS]
    listing = Listing((*columns, *((_DOCS,) if args.docs else ())), rows, _style)
    if args.docs and context.look.format == "table":
        narrowed = narrow(listing, context.look._replace(format="wide"))
        context.write(prose(narrowed.rows, context, several=several).encode())
    else:
        context.show(listing)
    if hidden and not args.keys and context.streams.out_terminal:
        context.say(f"{count(hidden, 'key')} at the default; -a shows them too, --docs explains.")


def _style(row: Row) -> str | None:
    return "dim" if row.get("source") == "default" else None


def _tell_unknown_keys(
    context: Context, resource: ConfigResource, answer: Sequence[ConfigEntry]
) -> None:
    """Says which of the keys asked for there are none of, with the nearest names."""
    found = {entry.name for entry in answer}
    for key in context.args.keys:
        if key not in found:
            known = keys_of(resource.type)
            near = nearest(key, known) if key not in known else []
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            context.failed(CommandError(f"There is no config {key!r}{hint}"), spoken_name(resource))


def prose(rows: Sequence[Row], context: Context, *, several: bool) -> str:
    """Configs with their documentation, as a page to read: a table would cut it into slivers."""
    import textwrap

    width = min(context.streams.width if context.streams.out_terminal else 100, 100)
    lines = []
    for row in rows:
        own = f"{row['resource']}: " if several else ""
        value = "(hidden)" if row["sensitive"] else row["value"]
        lines.append(f"{own}{row['name']} = {in_units(str(row['name']), value)}")
        marks = [SOURCE_WORDS.get(row["source"], row["source"]), row["type"]]
        marks += ["read-only"] if row["read_only"] else []
        beneath = [f"{k.partition(':')[0]}: {v}" for k, v in list(row["synonyms"].items())[1:]]
        marks += [f"beneath it {', '.join(beneath)}"] if beneath else []
        lines += textwrap.wrap(
            ", ".join(marks), width, initial_indent="    ", subsequent_indent="    "
        )
        if row["documentation"]:
            lines += textwrap.wrap(
                row["documentation"], width, initial_indent="    ", subsequent_indent="    "
            )
        lines.append("")
    return "\n".join(lines) + ("\n" if lines else "")
