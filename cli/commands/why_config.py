"""`pk why config`: asks for a config with its layers; `pk.cli.diagnosis.why_config` says which one counts."""

import shlex
from typing import Any

import trio

from pk.cli.commands.common import existing_topics
from pk.cli.commands.why import answer
from pk.cli.context import Context
from pk.cli.diagnosis.why_config import ConfigFacts, Layer, explain_config
from pk.cli.exits import CommandError, Unusable
from pk.cli.grammar import nearest
from pk.core.errors import KafkaError
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_TYPES = {
    "topic": r.ResourceType.TOPIC,
    "broker": r.ResourceType.BROKER,
    "group": r.ResourceType.GROUP,
}
_ANSWER_S = 4.0


async def why_config(context: Context) -> int | None:
    """`pk why config`."""
    args = context.args
    kind, name, key = args.type, args.name, args.key
    if kind == "broker" and not name.isdecimal():
        raise Unusable(f"With --type broker NAME is a broker's id, not {name!r}.")
    admin = await context.admin()
    if kind == "topic":
        await existing_topics(context, admin, [name])
    entry = await _entry(admin, r.ConfigResource(_TYPES[kind], name), key)
    layers = [Layer(s.source.name, s.name, s.value) for s in entry.synonyms]
    if not layers:
        layers = [Layer(entry.source.name, entry.name, entry.value)]
    differs = await _differing(admin, layers) if kind == "topic" else {}
    facts = ConfigFacts(
        f"{kind} {name}",
        f"{kind} {shlex.quote(name)}",
        key,
        entry.value,
        entry.source.name,
        layers,
        entry.sensitive,
        entry.read_only,
        differs,
    )
    answer_config(context, facts)
    return None


async def _entry(admin: Admin, resource: r.ConfigResource, key: str) -> r.ConfigEntry:
    """The config. Raises KafkaError; CommandError for a key that is not known, with the nearest."""
    answers = await admin.describe_configs([resource])
    entries = answers[resource]
    if isinstance(entries, Exception):
        raise entries
    found = next((e for e in entries if e.name == key), None)
    if found is None:
        near = nearest(key, [e.name for e in entries])
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "`pk configs describe -a` lists them."
        )
        what = resource.type.name.lower()
        raise CommandError(f"A {what} has no config {key!r}; {hint}")
    return found


async def _differing(admin: Admin, layers: list[Layer]) -> dict[str, tuple[int, ...]]:
    """The values that the broker's layer has on each broker, where they are not all the same."""
    beneath = next((x for x in layers if x.source in ("STATIC_BROKER", "DEFAULT")), None)
    if beneath is None or any(x.source == "DYNAMIC_DEFAULT_BROKER" for x in layers):
        return {}
    found: dict[str, tuple[int, ...]] = {}
    with trio.move_on_after(_ANSWER_S):
        try:
            brokers = (await admin.describe_cluster()).brokers
            resources = [r.ConfigResource(r.ResourceType.BROKER, str(b.node_id)) for b in brokers]
            answers = await admin.describe_configs(
                resources, keys=(beneath.key,), include_synonyms=False
            )
        except (KafkaError, ClientError):
            return {}
        for resource, entries in answers.items():
            for e in entries if not isinstance(entries, Exception) else ():
                if e.name == beneath.key and e.value is not None:
                    found[e.value] = (*found.get(e.value, ()), int(resource.name))
    return found if len(found) > 1 else {}


def answer_config(context: Context, facts: ConfigFacts) -> None:
    explained = explain_config(facts)
    won = next((x for x in facts.layers if x.source == facts.source), None)
    more: dict[str, Any] = {
        "key": facts.key,
        "value": None if facts.sensitive else facts.value,
        "source": facts.source,
        "layers": [
            {
                "layer": x.source,
                "key": x.key,
                "value": None if facts.sensitive else x.value,
                "wins": x is won,
            }
            for x in facts.layers
        ],
    }
    answer(context, [explained], subject="resource", healthy=(explained.state,), more=[more])
