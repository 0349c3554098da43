"""Permalinks of records: `pk://[PROFILE/]TOPIC/PARTITION/OFFSET`, printed by the formats and
accepted by `consume`."""

from typing import NamedTuple
from urllib.parse import quote, unquote

from pk.cli.runtime.settings import Settings

SCHEME = "pk://"


class Link(NamedTuple):
    """A record of a cluster. If `profile` is None, it is the cluster to which the command
    connects."""

    profile: str | None
    topic: str
    partition: int
    offset: int


def link_to(profile: str | None, topic: str, partition: int, offset: int) -> str:
    """The permalink of a record."""
    head = f"{quote(profile, safe='')}/" if profile else ""
    return f"{SCHEME}{head}{topic}/{partition}/{offset}"


def parse_link(text: str) -> Link:
    """Parse a permalink. Raises ValueError with a sentence."""
    parts = text.removeprefix(SCHEME).split("/")
    if len(parts) in (3, 4) and all(parts):
        *head, topic, partition, offset = parts
        if all(n.isascii() and n.isdigit() and len(n) < 20 for n in (partition, offset)):
            profile = unquote(head[0]) if head else None
            return Link(profile, topic, int(partition), int(offset))
    raise ValueError(
        f"not a permalink: {text!r}; a permalink is {SCHEME}[PROFILE/]TOPIC/PARTITION/OFFSET"
    )


def profile_of(settings: Settings) -> str | None:
    """The profile to whose cluster these settings connect; None if they connect to another
    cluster."""
    profile = settings.profile
    if profile is None or settings.bootstrap != profile.bootstrap:
        return None
    return profile.name
