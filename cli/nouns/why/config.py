"""`pk why config`: requests a config with its layers; `pk.cli.diagnosis.why_config` determines
which layer applies."""

import shlex
from collections.abc import Iterable
from typing import Literal

from pk.cli.cluster.broker_defaults import Default, broker_defaults
from pk.cli.cluster.topics import existing_topics
from pk.cli.diagnosis.explain import Explanation
from pk.cli.diagnosis.why_config import ConfigFacts, Layer, explain_config
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.why.rows import ConfigVerdict, ExplainedConfig
from pk.cli.nouns.why.why import answer, evidence_rows
from pk.cli.runtime.context import Context
from pk.core.config import TOPIC_SYNONYMS
from pk.core.errors import KafkaError
from pk.core.nearest import did_you_mean
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

_TYPES = {
    "topic": r.ResourceType.TOPIC,
    "broker": r.ResourceType.BROKER,
    "group": r.ResourceType.GROUP,
}


async def why_config(
    context: Context, name: str, key: str, type: Literal["topic", "broker", "group"]
) -> int | None:
    """Run `pk why config`."""
    if type == "broker" and not name.isdecimal():
        raise Unusable(f"With --type broker, NAME must be a broker's id, not {name!r}.")
    admin = await context.admin()
    if type == "topic":
        await existing_topics(context, admin, [name])
    entry = await _entry(admin, r.ConfigResource(_TYPES[type], name), key)
    layers = [Layer(s.source.name, s.name, s.value) for s in entry.synonyms]
    if not layers:
        layers = [Layer(entry.source.name, entry.name, entry.value)]
    defaults = await _defaults(admin, key) if type == "topic" else {}
    differs = _grouped((default.value, broker) for broker, default in defaults.items())
    overrides = _grouped(
        (default.key, broker)
        for broker, default in defaults.items()
        if default.source is r.ConfigSource.DYNAMIC_BROKER
    )
    facts = ConfigFacts(
        f"{type} {name}",
        f"{type} {shlex.quote(name)}",
        key,
        entry.value,
        entry.source.name,
        layers,
        entry.sensitive,
        entry.read_only,
        differs if len(differs) > 1 else {},
        overrides,
    )
    if facts.by_leader:  # one broker's value does not apply to the others
        facts = facts._replace(value=None, source="BY_LEADER")
    answer_config(context, facts)
    return None


async def _entry(admin: Admin, resource: r.ConfigResource, key: str) -> r.ConfigEntry:
    """The config. Raises KafkaError, and CommandError, with the nearest names, for an unknown
    key."""
    answers = await admin.describe_configs([resource])
    entries = answers.value(resource)
    found = next((e for e in entries if e.name == key), None)
    if found is None:
        known = [e.name for e in entries]
        hint = did_you_mean(key, known, "; `pk configs describe -a` lists them.")
        what = resource.type.name.lower()
        raise CommandError(f"A {what} has no config {key!r}{hint}")
    return found


async def _defaults(admin: Admin, key: str) -> dict[int, Default]:
    """The default for `key` on each broker that answers, for topics that do not set it."""
    if key not in TOPIC_SYNONYMS:
        return {}
    try:
        brokers = (await admin.describe_cluster()).brokers
    except (KafkaError, ClientError):
        return {}
    found = await broker_defaults(admin, [b.node_id for b in brokers], [key])
    return {broker: of[key] for broker, of in sorted(found.items()) if key in of}


def _grouped(pairs: Iterable[tuple[str, int]]) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, broker in pairs:
        found[name] = (*found.get(name, ()), broker)
    return found


def answer_config(context: Context, facts: ConfigFacts) -> None:
    explained = explain_config(facts)
    won = next((x for x in facts.layers if x.source == facts.source), None)

    def describe(explanation: Explanation) -> ExplainedConfig:
        return {
            "resource": explanation.subject,
            "state": explanation.state,
            "verdict": explanation.verdict,
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
            "evidence": evidence_rows(explanation),
            "next": list(explanation.next),
        }

    answer(context, [explained], describe, ConfigVerdict, healthy=(explained.state,))
