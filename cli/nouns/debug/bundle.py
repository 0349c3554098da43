"""`pk debug bundle`: writes the data for a bug report to a zip file, without secrets.

The command does not fail if the cluster cannot be read, since a bundle is most useful if something
is broken: `errors.txt` lists the missing parts.
"""

import json
import os
import time
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import to_builtins

from pk.cli.exits import CommandError
from pk.cli.nouns.debug.redact import HIDDEN, is_secret, scrubbed, without
from pk.cli.nouns.debug.rows import BundledRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import sentence
from pk.cli.runtime.versions import versions
from pk.core.errors import KafkaError
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.errors import ClientError

if TYPE_CHECKING:
    from pk.cli.nouns.debug.commands import MakeBundle

LOG_BYTES: Final = 1 << 20
"""The number of bytes that are taken from the end of a log."""

_SECRET_MIN: Final = 4
"""Shorter secrets are not searched for in text, since they may be part of words."""

Part = tuple[str, str, str]
"""A file of the bundle: its name, its contents in words, and its text."""


async def bundle(context: Context, options: "MakeBundle") -> None:
    """Run `pk debug bundle`. Raises CommandError if the file cannot be written."""
    path = options.to or time.strftime("pk-debug-%Y%m%d-%H%M%S.zip")
    problems: list[str] = []
    parts: list[Part] = [("versions.json", "pk, Python and libraries", _json(versions()))]
    parts += await _of_cluster(context, problems)
    for log in options.logs:
        try:
            text = _end_of(log)
        except OSError as e:
            raise CommandError(f"{log}: {e.strerror}.") from None
        name = f"logs/{len(parts)}-{os.path.basename(log)}"
        parts.append((name, f"the end of {log}", scrubbed(text)))
    if problems:
        parts.append(("errors.txt", "what could not be read", scrubbed("\n".join(problems)) + "\n"))
    secrets = _own_secrets(context)
    parts = [(name, what, without(text, secrets)) for name, what, text in parts]
    _write(path, parts)
    rows: list[BundledRow] = [
        {"file": name, "bytes": len(text.encode()), "contents": what} for name, what, text in parts
    ]
    context.show(listing(BundledRow, rows))
    context.say(f"Wrote {path}. It contains names of topics, groups and hosts, but no records.")
    for problem in problems:
        context.say(f"Not included: {problem}")


def _write(path: str, parts: Sequence[Part]) -> None:
    """Write the bundle, which only its owner may read. Raises CommandError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        opened = os.open(os.path.expanduser(path), flags, 0o600)
        with open(opened, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as file:
            for name, _, text in parts:
                file.writestr(name, text)
    except FileExistsError:
        raise CommandError(f"{path} exists; give another file with --to.") from None
    except OSError as e:
        raise CommandError(f"{path}: {e.strerror or e}.") from None


async def _of_cluster(context: Context, problems: list[str]) -> list[Part]:
    """The state of the cluster itself; empty if no broker answers."""
    try:
        admin = await context.admin()
    except (CommandError, ClientError, KafkaError, OSError) as e:
        problems.append(f"cluster: {sentence(e)}")
        return []
    readers: dict[str, tuple[str, Callable[[Admin], Awaitable[Any]]]] = {
        "cluster.json": ("brokers and controller", _cluster),
        "features.json": ("features", lambda a: a.describe_features()),
        "api-versions.json": ("the APIs of each broker", lambda a: a.api_versions_all()),
        "topics.json": ("topics and partitions", lambda a: a.describe_topics()),
        "groups.json": ("groups and their states", lambda a: a.list_groups()),
        "configs.json": ("configs that are not the default", _configs),
    }
    parts: list[Part] = []
    for name, (what, read) in readers.items():
        try:
            found = await read(admin)
        except (ClientError, KafkaError, OSError) as e:
            problems.append(f"{what}: {sentence(e)}")
            if isinstance(e, ClientError) and not parts:
                break  # no broker answers, and each request would wait again
        else:
            parts.append((name, what, _json(found)))
    return parts


async def _cluster(admin: Admin) -> r.ClusterDescription:
    return await admin.describe_cluster()


async def _configs(admin: Admin) -> dict[str, Any]:
    """The configs of brokers and topics that are not the default, without secrets."""
    brokers = (await admin.describe_cluster()).brokers
    resources = [r.ConfigResource(r.ResourceType.BROKER, str(b.node_id)) for b in brokers]
    for topic in await admin.list_topics():
        resources.append(r.ConfigResource(r.ResourceType.TOPIC, topic.name))
    found: dict[str, Any] = {}
    answers = await admin.describe_configs(resources)
    for resource in answers:
        name = f"{resource.type.name.lower()} {resource.name}"
        if resource in answers.errors:
            found[name] = sentence(answers.errors[resource])
            continue
        entries = answers.ok[resource]
        found[name] = {e.name: _value(e) for e in entries if e.source != r.ConfigSource.DEFAULT}
    return found


def _value(entry: r.ConfigEntry) -> str | None:
    secret = entry.sensitive or is_secret(entry.name, entry.value)
    return HIDDEN if secret else entry.value


def _own_secrets(context: Context) -> list[str]:
    """The secrets with which pk itself connects. They must not be in the bundle, whatever their
    source."""
    settings = context.settings
    known: Mapping[str, str] = {**settings.properties, **settings.given}
    secrets = {v for k, v in known.items() if is_secret(k, v) and len(v) >= _SECRET_MIN}
    return sorted(secrets, key=len, reverse=True)


def _end_of(path: str) -> str:
    """The last `LOG_BYTES` of a file, from the start of a line. Raises OSError."""
    with open(os.path.expanduser(path), "rb") as file:
        size = file.seek(0, os.SEEK_END)
        begin = max(size - LOG_BYTES, 0)
        file.seek(begin)
        data = file.read()
    if begin:
        data = data.partition(b"\n")[2]
    return data.decode(errors="replace")


def _json(value: Any) -> str:
    return json.dumps(to_builtins(value, enc_hook=_plain, str_keys=True), indent=1) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Exception):
        return {"error": sentence(value)}
    return str(value)
