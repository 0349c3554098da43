"""Generates pages of the site from the code: the commands, the config keys, the errors, the client
library, and CONTRIBUTING.md. This is a hook of mkdocs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "path"))

import pk.client
from pk.cli.command_line.error_help import error_help
from pk.cli.command_line.manual import reference
from pk.core.config import (
    BROKER_KEYS,
    CLIENT_METRICS_KEYS,
    GROUP_KEYS,
    TOPIC_KEYS,
    TOPIC_KEYS_NOT_ENFORCED,
    Key,
    Scope,
    unsupported_keys,
)
from pk.net.client.common_config import ConfigKey
from pk.net.client.config import (
    AdminConfig,
    ConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
    keys,
)

_DRAWN = re.compile(r"^```mermaid\n(?:(?!```).*\n)+```\n<!-- on the site: (.+) -->$", re.MULTILINE)
"""A diagram in Mermaid, and the image that replaces it on the site."""

_WIDE = ("---", "hide: [toc]", "---", "")
"""Marks a page whose tables also need the width of the table of contents."""

CHANGED = {
    Scope.READ_ONLY: "at a start",
    Scope.PER_BROKER: "for a broker",
    Scope.CLUSTER_WIDE: "for one or all",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those of docs/."""
    for path, text in (
        ("reference/commands.md", reference()),
        ("reference/configs.md", configs()),
        ("reference/errors.md", errors()),
        ("reference/client.md", client()),
        ("contributing.md", contributing()),
    ):
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace a Mermaid diagram with the image that a comment names: GitHub draws the diagram by
    itself, but the site would load the library from another host."""
    return _DRAWN.sub(r"\1", markdown)


def configs() -> str:
    """Return the page of configs: every key, grouped by its entity."""
    ignored = {*unsupported_keys(BROKER_KEYS), *TOPIC_KEYS_NOT_ENFORCED}
    lines = [
        *_WIDE,
        "# Configs",
        "",
        (
            "Every key, with Kafka's defaults. A *stored only* key is checked, stored and shown, "
            "but has no effect: pk"
        ),
        (
            "does not have the feature that it configures. A broker logs such keys when it starts. "
            "Keys that begin with `pk.` are pk's own."
        ),
    ]
    for title, table in (
        ("Brokers", BROKER_KEYS),
        ("Topics", TOPIC_KEYS),
        ("Groups", GROUP_KEYS),
        ("Client metrics", CLIENT_METRICS_KEYS),
    ):
        lines += ["", f"## {title}", ""]
        lines += _table(table, ignored, changes=table is BROKER_KEYS)
    return "\n".join(lines) + "\n"


def _table(table: Mapping[str, Key], ignored: Iterable[str], *, changes: bool) -> list[str]:
    changed = " Changed |" if changes else ""
    lines = [f"| Key | Type | Default |{changed} Meaning |", f"|---|---|---|{'---|' * changes}---|"]
    for name, key in sorted(table.items()):
        default = "" if key.default is None else f"`{key.default}`" if key.default else "(empty)"
        scope = f" {CHANGED[key.scope]} |" if changes else ""
        note = " *Stored only.*" if name in ignored else ""
        lines.append(
            f"| `{name}` | {key.type.name.lower()} | {default} |{scope} {_cell(key.doc)}{note} |"
        )
    return lines


def errors() -> str:
    """Return the page of errors: every code, its meaning, and what to do."""
    lines = [
        *_WIDE,
        "# Errors",
        "",
        (
            "What a broker may answer, Kafka's codes. `pk help errors NAME` says the same in a "
            "terminal."
        ),
        "",
        "| Name | Code | Ask again | Meaning | What to do |",
        "|---|---|---|---|---|",
    ]
    for error in error_help():
        again = "yes" if error.retriable else "no"
        meaning, step = _cell(error.meaning), _cell(error.step)
        lines.append(f"| `{error.name}` | {error.code} | {again} | {meaning} | {step} |")
    return "\n".join(lines) + "\n"


_CLIENT = """\
# The client library and pk.testing

The public names, as the code documents them. [The guide](../client.md) shows how to use the client,
[another one](../testing.md) how to use `pk.testing`.

`pk.client.aio` has the same functions and classes for asyncio, with the same methods.
`pk.client.blocking` has them without `async` and `await`; its `Delivery` and `Deliveries` have a
`result()` in place of `wait()`.

## Clients

`open_producer` is `Producer.open`, and so are the other three.

{clients}

## Records, arguments and results

{results}

## Errors

{errors}

## Configs

{configs}

## pk.testing

::: pk.testing.Broker
"""


def client() -> str:
    """Return the page of the client library and `pk.testing`: every public name with its docstring
    (by mkdocstrings), and the config keys."""
    openers = ("open_producer", "open_consumer", "open_share_consumer", "open_admin")
    classes = ("Producer", "Consumer", "ShareConsumer", "Admin", "Delivery", "Deliveries")
    rest = [name for name in pk.client.__all__ if name not in (*openers, *classes)]
    raised = [name for name in rest if _is_error(getattr(pk.client, name))]
    results = [name for name in rest if name not in raised]
    return _CLIENT.format(
        clients=_described(*classes),
        results=_described(*results),
        errors=_described(*raised),
        configs=_client_configs(),
    )


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _described(*names: str) -> str:
    return "\n\n".join(f"::: pk.client.{name}" for name in names)


def _client_configs() -> str:
    """Return a table of all keys of the clients."""
    kinds = {
        "producer": ProducerConfig,
        "consumer": ConsumerConfig,
        "share consumer": ShareConsumerConfig,
        "admin": AdminConfig,
    }
    found: dict[str, tuple[ConfigKey, list[str]]] = {}
    for kind, config in kinds.items():
        for name, key in keys(config).items():
            found.setdefault(name, (key, []))[1].append(kind)
    lines = ["| Key | Default | Values | Clients |", "|---|---|---|---|"]
    for name, (key, users) in sorted(found.items()):
        values = ", ".join(f"`{value}`" for value in key.one_of)
        if not values and (key.low is not None or key.high is not None):
            low = "" if key.low is None else f"{key.low:,}"
            high = "" if key.high is None else f"{key.high:,}"
            values = f"{low} to {high}" if low and high else f"at least {low}" if low else high
        default = "" if key.default in (None, "", ()) else f"`{_text(key.default)}`"
        whose = "all" if len(users) == len(kinds) else ", ".join(users)
        lines.append(f"| `{name}` | {default} | {values} | {whose} |")
    return "\n".join(lines)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple) else str(value)


def contributing() -> str:
    """Return CONTRIBUTING.md, with links that are valid in docs/."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
