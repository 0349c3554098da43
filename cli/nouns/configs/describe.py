"""`pk configs describe`."""

import textwrap
from collections.abc import Sequence

from pk.cli.cluster.configs import (
    name_in_sentence,
    remember_keys,
    resource_type,
    shown_name,
    was_set,
)
from pk.cli.cluster.topics import describe_topics
from pk.cli.config_keys.docs import documentation, keys_of
from pk.cli.config_keys.sources import source_word
from pk.cli.config_keys.units import both_ways
from pk.cli.exits import CommandError
from pk.cli.nouns.configs.options import DescribeConfigs
from pk.cli.nouns.configs.resources import resources_of
from pk.cli.nouns.configs.rows import ConfigRow, DocumentedConfigRow
from pk.cli.output.formats import Listing, Row, narrow
from pk.cli.output.rows import columns
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.results import succeeded
from pk.core.nearest import did_you_mean
from pk.net.client.results import ConfigEntry, ConfigResource, ResourceType


async def describe(context: Context, options: DescribeConfigs) -> None:
    """Run `pk configs describe`: show the configs that were set; with --all, the defaults too."""
    resources = resources_of(options)
    several = len(resources) != 1
    if not resources:
        resources = await _all_of(context, resource_type(options.type or options.entity_type or ""))
    admin = await context.admin()
    answers = await admin.describe_configs(
        resources, keys=options.keys or None, include_documentation=options.docs
    )
    rows: list[DocumentedConfigRow] = []
    hidden = 0
    for resource, answer in succeeded(context, answers, name_in_sentence).items():
        remember_keys(resource, answer)
        _say_unknown_keys(context, options.keys, resource, answer)
        shown = [e for e in answer if options.all or options.keys or was_set(e)]
        hidden += len(answer) - len(shown)
        rows += [_config_row(resource, entry) for entry in sorted(shown, key=lambda e: e.name)]
    kind = DocumentedConfigRow if options.docs else ConfigRow
    listing = Listing(columns(kind, wide=() if several else ("resource",)), rows, _style)
    if options.docs and context.output.format == "table":
        narrowed = narrow(listing, context.output._replace(format="wide"))
        context.write(prose(narrowed.rows, context, several=several).encode())
    else:
        context.show(listing)
    if hidden and not options.keys and context.streams.out_terminal:
        context.say(
            f"{count(hidden, 'key')} at the default; -a shows them too, --docs describes all."
        )


async def _all_of(context: Context, kind: ResourceType) -> list[ConfigResource]:
    """Every resource of a kind."""
    admin = await context.admin()
    if kind is ResourceType.TOPIC:
        topics = await describe_topics(context, admin, None)
        return [ConfigResource(kind, t.name) for t in topics if not t.internal]
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        cluster = await admin.describe_cluster()
        return [ConfigResource(kind, str(b.node_id)) for b in cluster.brokers]
    return [res for res in await admin.list_config_resources([kind]) if res.type == kind]


def _config_row(resource: ConfigResource, entry: ConfigEntry) -> DocumentedConfigRow:
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


def _style(row: Row) -> str | None:
    return "dim" if row.get("source") == "default" else None


def _say_unknown_keys(
    context: Context, keys: Sequence[str], resource: ConfigResource, answer: Sequence[ConfigEntry]
) -> None:
    """Report which of the requested `keys` do not exist, with the nearest names."""
    found = {entry.name for entry in answer}
    for key in keys:
        if key not in found:
            known = keys_of(resource.type)
            hint = did_you_mean(key, known) if key not in known else "."
            context.failed(
                CommandError(f"Config {key!r} does not exist{hint}"), name_in_sentence(resource)
            )


def prose(rows: Sequence[Row], context: Context, *, several: bool) -> str:
    """Configs with their documentation, as a page: the columns of a table would be too narrow."""
    width = min(context.streams.width if context.streams.out_terminal else 100, 100)
    lines: list[str] = []
    for row in rows:
        own = f"{row['resource']}: " if several else ""
        value = "(hidden)" if row["sensitive"] else row["value"]
        lines.append(f"{own}{row['name']} = {both_ways(str(row['name']), value)}")
        marks = [source_word(row["source"]), row["type"]]
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
