"""`pk cluster features`: shows the finalized levels and the levels that brokers support, and
changes levels."""

from collections.abc import Mapping, Sequence
from typing import Final

import trio

from pk.cli.cluster.features import METADATA_LEVELS, METADATA_VERSION, common_range, level_name
from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.cluster.rows import FeatureChange, FeatureRow
from pk.cli.output.rows import columns, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase, sentence
from pk.cli.runtime.name_cache import remember
from pk.core.errors import KafkaError
from pk.core.nearest import did_you_mean
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import FeatureDescription

ACTIONS: Final = ("list", "upgrade", "downgrade", "disable")


def feature_rows(answers: Mapping[int, FeatureDescription]) -> list[FeatureRow]:
    """A row for each feature that any broker knows. `answers` maps brokers to their answers."""
    newest = max(answers.values(), key=lambda d: d.finalized_epoch)
    levels = {f.name: f.max_version_level for f in newest.finalized}
    names = sorted({f.name for d in answers.values() for f in d.supported} | set(levels))
    rows: list[FeatureRow] = []
    for name in names:
        level = levels.get(name, 0)
        supported = common_range(answers, name)
        note = None
        if supported is None:
            lacking = [b for b, d in answers.items() if name not in {f.name for f in d.supported}]
            note = f"not by broker {', '.join(map(str, sorted(lacking)))}"
        elif level < supported[1]:
            note = "can be upgraded"
        rows.append(
            {
                "feature": name,
                "level": level,
                "name": level_name(name, level),
                "min_supported": supported[0] if supported else None,
                "max_supported": supported[1] if supported else None,
                "epoch": newest.finalized_epoch if newest.finalized_epoch >= 0 else None,
                "note": note,
            }
        )
    return rows


async def _ask(context: Context, admin: Admin) -> dict[int, FeatureDescription]:
    """The answer of each broker. Reports those that do not answer. Raises CommandError or
    ClientError if none does."""
    cluster = await admin.describe_cluster()
    answers: dict[int, FeatureDescription] = {}
    failed: dict[int, ClientError | KafkaError] = {}

    async def ask(node_id: int) -> None:
        try:
            answers[node_id] = await admin.describe_features(node_id)
        except (ClientError, KafkaError) as e:
            failed[node_id] = e

    async with trio.open_nursery() as nursery:
        for node in cluster.brokers:
            nursery.start_soon(ask, node.node_id)
    if not answers:
        for error in failed.values():
            if isinstance(error, ClientError):
                raise error
        raise CommandError("No broker reports its features: all are too old.")
    for node_id, error in sorted(failed.items()):
        context.failed(error, f"broker {node_id}")
    remember(
        context.settings.bootstrap,
        "feature",
        {f.name for d in answers.values() for f in d.supported},
    )
    return answers


async def features(
    context: Context, action: str | None, words: Sequence[str], *, unsafe: bool
) -> None:
    """Run `pk cluster features`."""
    action = action or "list"
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS)
        raise Unusable(f"ACTION must be one of {', '.join(ACTIONS)}, not {action!r}{hint}")
    admin = await context.admin()
    answers = await _ask(context, admin)
    rows = feature_rows(answers)
    if action == "list":
        known = set(words)
        shown = [r for r in rows if not known or r["feature"] in known]
        context.show(listing(FeatureRow, shown))
        return
    if not words:
        raise Unusable(f"Give the features to {action}, such as metadata.version=27.")
    by_name = {row["feature"]: row for row in rows}
    levels: dict[str, int] = {}
    for word in words:
        name, level = _wanted(action, word, by_name)
        levels[name] = level
    await _update(context, admin, action, levels, by_name, unsafe=unsafe)


def _wanted(action: str, word: str, rows: Mapping[str, FeatureRow]) -> tuple[str, int]:
    """Parse a feature and its level. Raises Unusable."""
    name, equals, text = word.partition("=")
    row = rows.get(name)
    if row is None:
        hint = did_you_mean(name, rows, f"; the features are {', '.join(rows)}.")
        raise Unusable(f"Feature {name!r} does not exist{hint}")
    if action == "disable":
        if equals:
            raise Unusable(f"disable takes only names, not {word!r}.")
        return name, 0
    if not equals:
        if action == "downgrade":
            raise Unusable(f"Give the new level: {name}=LEVEL.")
        if row["max_supported"] is None:
            raise Unusable(f"Not every broker supports {name}.")
        return name, row["max_supported"]
    if text in METADATA_LEVELS and name == METADATA_VERSION:
        return name, METADATA_LEVELS.index(text) + 1
    if not text.isdecimal():
        raise Unusable(f"{name} needs a level such as {row['max_supported']}, not {text!r}.")
    level = int(text)
    if action == "upgrade" and level < row["level"]:
        raise Unusable(f"{name} is at {row['level']}; use `downgrade` for {level}.")
    if action == "downgrade" and level > row["level"]:
        raise Unusable(f"{name} is at {row['level']}; use `upgrade` for {level}.")
    return name, level


async def _update(
    context: Context,
    admin: Admin,
    action: str,
    levels: Mapping[str, int],
    rows: Mapping[str, FeatureRow],
    *,
    unsafe: bool,
) -> None:
    dry_run = context.change.dry_run
    lowering = action != "upgrade"
    if unsafe and not lowering:
        raise Unusable("--unsafe is only for downgrade.")
    there = {name for name, level in levels.items() if level == rows[name]["level"]}
    if there == set(levels):
        same = ", ".join(f"{name} {_named(name, levels[name])}" for name in levels)
        context.say(f"Nothing to change: {same} already.")
        context.show_nothing(columns(FeatureChange))
        return
    if not dry_run:
        for name, level in levels.items():
            context.say(f"{name}: {_named(name, rows[name]['level'])} → {_named(name, level)}")
        context.say(_consequence(action, unsafe=unsafe))
        only = next(iter(levels)) if len(levels) == 1 else context.settings.bootstrap
        await context.agree(f"{action.capitalize()} on {context.settings.cluster_name}?", name=only)
    answers = await admin.update_features(
        levels, allow_downgrade=lowering, unsafe=unsafe, validate_only=dry_run
    )
    shown: list[FeatureChange] = []
    for name, level in levels.items():
        error = answers.errors.get(name)
        done = "would change" if dry_run else "changed"
        if error is not None:
            context.fail(error)
        shown.append(
            {
                "feature": name,
                "from": rows[name]["level"],
                "to": level,
                "result": done if error is None else phrase(error),
                "error": error_name(error) if error else None,
            }
        )
    context.show(listing(FeatureChange, shown))
    for error in list(answers.errors.values())[:1]:
        context.say(sentence(error))


def _named(feature: str, level: int) -> str:
    name = level_name(feature, level)
    return f"{level} ({name})" if name else str(level)


def _consequence(action: str, *, unsafe: bool) -> str:
    if action == "upgrade":
        return (
            "Brokers that support only lower levels cannot join afterwards; a downgrade may be "
            "impossible."
        )
    if unsafe:
        return "Metadata that the lower level does not support is lost."
    return "Clients and brokers lose the functions of the higher level."
