"""Pages of the site that are made from the code when it is built: the commands, the keys of
configs, the errors, the client library, and what CONTRIBUTING.md says. (A hook of mkdocs.)"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "path"))

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
from pk.net.client.admin import Admin, open_admin
from pk.net.client.consumer import Consumer, open_consumer
from pk.net.client.producer import Producer, open_producer
from pk.net.client.share_consumer import ShareConsumer, open_share_consumer
from pk.testing import Broker

_MODULE = re.compile(r"\b(?:pk|collections|typing)\.(?:[a-z_]+\.)*")
"""Where a type is from."""

_DRAWN = re.compile(r"^```mermaid\n(?:(?!```).*\n)+```\n<!-- on the site: (.+) -->$", re.MULTILINE)
"""A drawing in Mermaid, and the image that stands for it."""

_WIDE = ("---", "hide: [toc]", "---", "")
"""A page whose tables need the width of the list of headings."""

CHANGED = {
    Scope.READ_ONLY: "at a start",
    Scope.PER_BROKER: "for a broker",
    Scope.CLUSTER_WIDE: "for one or all",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages to those of docs/."""
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
    """Shows the image that a comment names in place of the Mermaid before it: a forge draws that by
    itself, the site would fetch the library from another host."""
    return _DRAWN.sub(r"\1", markdown)


def configs() -> str:
    """Every key, by what it configures."""
    ignored = {*unsupported_keys(BROKER_KEYS), *TOPIC_KEYS_NOT_ENFORCED}
    lines = [
        *_WIDE,
        "# Configs",
        "",
        (
            "Every key, with Kafka's defaults. *Stored only*: it is checked, stored and described, "
            "and steers nothing, because what"
        ),
        (
            "it is for does not exist in pk; a broker names such keys when it starts. Keys that "
            "begin with `pk.` are pk's own."
        ),
    ]
    for title, keys in (
        ("Brokers", BROKER_KEYS),
        ("Topics", TOPIC_KEYS),
        ("Groups", GROUP_KEYS),
        ("Client metrics", CLIENT_METRICS_KEYS),
    ):
        lines += ["", f"## {title}", ""]
        lines += _table(keys, ignored, changes=keys is BROKER_KEYS)
    return "\n".join(lines) + "\n"


def _table(keys: Mapping[str, Key], ignored: Iterable[str], *, changes: bool) -> list[str]:
    changed = " Changed |" if changes else ""
    lines = [f"| Key | Type | Default |{changed} Meaning |", f"|---|---|---|{'---|' * changes}---|"]
    for name, key in sorted(keys.items()):
        default = "" if key.default is None else f"`{key.default}`" if key.default else "(empty)"
        scope = f" {CHANGED[key.scope]} |" if changes else ""
        note = " *Stored only.*" if name in ignored else ""
        lines.append(
            f"| `{name}` | {key.type.name.lower()} | {default} |{scope} {_cell(key.doc)}{note} |"
        )
    return lines


def errors() -> str:
    """Every error code, what it means, and what to do."""
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


def client() -> str:
    """The client library and `pk.testing`: what can be called, with what the code says of it."""
    lines = [
        "# The client library and pk.testing",
        "",
        "What can be called, as the code says it. [The guide](../client.md) shows how to use the",
        "client, [another one](../testing.md) how to use `pk.testing`.",
    ]
    for opener, kind in (
        (open_producer, Producer),
        (open_consumer, Consumer),
        (open_share_consumer, ShareConsumer),
        (open_admin, Admin),
        (None, Broker),
    ):
        lines += ["", f"## {kind.__name__}", ""]
        if opener is not None:
            lines += [
                *_signature(f"{opener.__module__}.{opener.__name__}", opener),
                _doc(opener),
                "",
            ]
        lines += [_doc(kind)]
        for name, member in sorted(_members(kind).items()):
            lines += ["", f"### {kind.__name__}.{name}", ""]
            if callable(member):
                lines += _signature(name, member)
            lines += [_doc(member)]
    return "\n".join(lines) + "\n"


def _members(kind: type) -> dict[str, object]:
    """The public methods and properties of a class and of those that it is made of."""
    return {
        name: member
        for one in reversed(kind.__mro__[:-1])
        for name, member in vars(one).items()
        if not name.startswith("_") and (callable(member) or isinstance(member, property))
    }


def _signature(name: str, function: object) -> list[str]:
    """How a function is called."""
    assert callable(function)
    inner = inspect.unwrap(function)
    is_async = inspect.iscoroutinefunction(inner)
    is_context = function is not inner  # @asynccontextmanager
    before = "async with " if is_context else "await " if is_async else ""
    signature = inspect.signature(inner)
    own = [each for each in signature.parameters.values() if each.name != "self"]
    found = str(signature.replace(parameters=own))
    if is_context:
        found = found.partition(" -> ")[0]
    found = _MODULE.sub("", found)
    if len(found) > 80:  # a parameter a line
        shown = [_MODULE.sub("", str(each)) for each in own]
        star = next((n for n, each in enumerate(own) if each.kind is each.KEYWORD_ONLY), None)
        if star is not None:
            shown.insert(star, "*")
        end = found[found.rindex(")") :] if is_context or " -> " not in found else ""
        end = end or ")" + found[found.rindex(" -> ") :]
        found = "(\n" + "".join(f"    {each},\n" for each in shown) + end
    return ["```python", before + name + found, "```", ""]


def _doc(thing: object) -> str:
    return inspect.getdoc(thing) or ""


def contributing() -> str:
    """CONTRIBUTING.md, with links as they are from docs/."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    return text.replace("](docs/", "](")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
