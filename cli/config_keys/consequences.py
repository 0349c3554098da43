"""Explains what a config change does to records and clients, before it is made, if the value alone
does not show it.

Covers only keys whose change deletes records or makes brokers refuse producers. Broker keys are
handled under the name of their topic key.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pk.cli.config_keys.units import exact_span
from pk.cli.phrases import join

_BROKER_KEYS = {
    "log.retention.ms": ("retention.ms", 1),
    "log.retention.minutes": ("retention.ms", 60_000),
    "log.retention.hours": ("retention.ms", 3_600_000),
    "log.retention.bytes": ("retention.bytes", 1),
    "message.max.bytes": ("max.message.bytes", 1),
    "log.cleanup.policy": ("cleanup.policy", 1),
}


def consequences(rows: Iterable[Mapping[str, Any]], *, of_brokers: bool) -> list[str]:
    """A sentence for each consequence, with the topics that it affects; `rows` have the `resource`,
    the key (`name`) and its values (`from`, `to`)."""
    found: dict[str, list[str]] = {}
    for row in rows:
        name, factor = _BROKER_KEYS.get(row["name"], (row["name"], 1))
        said = _consequence(name, _scaled(row["from"], factor), _scaled(row["to"], factor))
        if said:
            found.setdefault(said, []).append(str(row["resource"]))
    if of_brokers:
        return [f"Topics without a value of their own: {said}" for said in found]
    return [f"{join(topics)}: {said}" for said, topics in found.items()]


def _scaled(value: str | None, factor: int) -> str | None:
    number = _number(value)
    return value if factor == 1 or number is None or number < 0 else str(number * factor)


def _number(value: str | None) -> int | None:
    try:
        return int(value or "")
    except ValueError:
        return None


def _consequence(name: str, before: str | None, after: str | None) -> str | None:
    if before == after:
        return None
    if name == "cleanup.policy":
        return _of_policy(_parts(before), _parts(after))
    if name == "unclean.leader.election.enable":
        lossy = after == "true"
        return (
            "a replica that lacks records may become leader; these records are lost."
            if lossy
            else None
        )
    now = _number(after)
    return None if now is None else _of_number(name, _number(before), now)


def _of_number(name: str, was: int | None, now: int) -> str | None:
    """The consequence of a changed limit; -1 means no limit."""
    unlimited = now < 0 and name.startswith("retention.")
    shorter = not unlimited and (was is None or was < 0 or now < was)
    if name == "retention.ms" and shorter:
        return f"records older than {exact_span(now)} are deleted permanently."
    if name == "retention.bytes" and shorter:
        return f"the oldest records of each partition above {now:,} bytes are deleted permanently."
    if name == "max.message.bytes" and shorter:
        return f"batches above {now:,} bytes are refused."
    if name == "min.insync.replicas" and was is not None:
        if now > was:
            return f"producers with acks=all fail if fewer than {now} replicas are in sync."
        return (
            f"acks=all is acknowledged by as few as {now}; a record that others lack may be lost."
        )
    return None


def _parts(policy: str | None) -> set[str]:
    return {word.strip() for word in (policy or "").split(",") if word.strip()}


def _of_policy(before: set[str], after: set[str]) -> str | None:
    if "compact" in after - before:
        return (
            "of the records of a key only the last is kept, and records without a key are refused."
        )
    if "delete" in after - before:
        return "records past retention.ms and retention.bytes are deleted permanently."
    return None
