"""`pk cluster features`: what the cluster has settled on, what its brokers support, and raising or lowering it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import trio

from pk.cli.cluster.features import METADATA_LEVELS, METADATA_VERSION, common_range, level_name
from pk.cli.command_line.completion.name_cache import remember
from pk.cli.command_line.nearest import did_you_mean
from pk.cli.nouns.cluster.rows import FeatureChange, FeatureRow
from pk.cli.output.rows import columns, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError, Unusable
from pk.cli.runtime.failures import error_name, phrase, sentence
from pk.core.errors import KafkaError
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError
from pk.net.client.results import FeatureDescription

ACTIONS: Final = ("list", "upgrade", "downgrade", "disable")


def feature_rows(told: Mapping[int, FeatureDescription]) -> list[FeatureRow]:
    """A row for each feature that any broker knows. `told` holds the answers by broker."""
    newest = max(told.values(), key=lambda d: d.finalized_epoch)
    levels = {f.name: f.max_version_level for f in newest.finalized}
    names = sorted({f.name for d in told.values() for f in d.supported} | set(levels))
    rows: list[FeatureRow] = []
    for name in names:
        level = levels.get(name, 0)
        supported = common_range(told, name)
        note = None
        if supported is None:
            lacking = [b for b, d in told.items() if name not in {f.name for f in d.supported}]
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
    """What each broker says; of those that do not, it is told why. Raises CommandError or ClientError where none does."""
    cluster = await admin.describe_cluster()
    told: dict[int, FeatureDescription] = {}
    failed: dict[int, ClientError | KafkaError] = {}

    async def ask(node_id: int) -> None:
        try:
            told[node_id] = await admin.describe_features(node_id)
        except (ClientError, KafkaError) as e:
            failed[node_id] = e

    async with trio.open_nursery() as nursery:
        for node in cluster.brokers:
            nursery.start_soon(ask, node.node_id)
    if not told:
        for error in failed.values():
            if isinstance(error, ClientError):
                raise error
        raise CommandError("No broker tells of its features; they are too old.")
    for node_id, error in sorted(failed.items()):
        context.failed(error, f"broker {node_id}")
    remember(
        context.settings.bootstrap,
        "feature",
        {f.name for d in told.values() for f in d.supported},
    )
    return told


async def features(
    context: Context, action: str | None, words: Sequence[str], *, unsafe: bool
) -> None:
    """`pk cluster features`."""
    action = action or "list"
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS)
        raise Unusable(f"ACTION is one of {', '.join(ACTIONS)}, not {action!r}{hint}")
    admin = await context.admin()
    told = await _ask(context, admin)
    rows = feature_rows(told)
    if action == "list":
        known = set(words)
        shown = [r for r in rows if not known or r["feature"] in known]
        context.show(listing(FeatureRow, shown))
        return
    if not words:
        raise Unusable(f"Say what to {action}, such as metadata.version=27.")
    by_name = {row["feature"]: row for row in rows}
    levels: dict[str, int] = {}
    for word in words:
        name, level = _wanted(action, word, by_name)
        levels[name] = level
    await _update(context, admin, action, levels, by_name, unsafe=unsafe)


def _wanted(action: str, word: str, rows: Mapping[str, FeatureRow]) -> tuple[str, int]:
    """The feature and level that a word means. Raises Unusable."""
    name, equals, text = word.partition("=")
    row = rows.get(name)
    if row is None:
        hint = did_you_mean(name, rows, f"; there are {', '.join(rows)}.")
        raise Unusable(f"There is no feature {name!r}{hint}")
    if action == "disable":
        if equals:
            raise Unusable(f"disable takes names alone, not {word!r}.")
        return name, 0
    if not equals:
        if action == "downgrade":
            raise Unusable(f"Say how far down: {name}=LEVEL.")
        if row["max_supported"] is None:
            raise Unusable(f"Not every broker supports {name}.")
        return name, row["max_supported"]
    if text in METADATA_LEVELS and name == METADATA_VERSION:
        return name, METADATA_LEVELS.index(text) + 1
    if not text.isdecimal():
        raise Unusable(f"{name} wants a level such as {row['max_supported']}, not {text!r}.")
    level = int(text)
    if action == "upgrade" and level < row["level"]:
        raise Unusable(f"{name} is at {row['level']}; `downgrade` goes down to {level}.")
    if action == "downgrade" and level > row["level"]:
        raise Unusable(f"{name} is at {row['level']}; `upgrade` goes up to {level}.")
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
        raise Unusable("--unsafe is for a downgrade.")
    there = {name for name, level in levels.items() if level == rows[name]["level"]}
    if there == set(levels):
        same = ", ".join(f"{name} {_named(name, levels[name])}" for name in levels)
        context.say(f"That is how it is: {same}; nothing was changed.")
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
        error = answers[name]
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
    _tell_first(context, answers.values())


def _tell_first(context: Context, answers: Iterable[Exception | None]) -> None:
    error = next((e for e in answers if e is not None), None)
    if error is not None:
        context.say(sentence(error))


def _named(feature: str, level: int) -> str:
    name = level_name(feature, level)
    return f"{level} ({name})" if name else str(level)


def _consequence(action: str, *, unsafe: bool) -> str:
    if action == "upgrade":
        return "Brokers that support less cannot join afterwards; going back may not be possible."
    if unsafe:
        return "What the lower level cannot hold is lost from the cluster's metadata."
    return "Clients and brokers lose what the higher level gave them."
