"""`pk configs edit`: opens the configs of a resource as text in the user's editor.

The text is a properties file: a line `key=value` is a config that is set on the resource itself.
All other keys follow as comments, each with its default and its purpose. Removing the `#` sets a
key; removing a line (or putting a `#` before it) restores the default. Only changes are sent. The
text stays in a file of the user until it has been applied, so a failure does not lose it.
"""

import difflib
import os
import shlex
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence

import trio

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.cluster.config_changes import (
    check_key,
    make_changes,
    plan_changes,
    refusals,
    say_consequences,
)
from pk.cli.cluster.configs import (
    entity_word,
    name_in_sentence,
    own_value,
    shown_name,
)
from pk.cli.cluster.topics import is_unknown, unknown_topic
from pk.cli.config_keys.docs import allowed, documentation, keys_of
from pk.cli.config_keys.units import both_ways, config_value
from pk.cli.exits import CommandError, Exit, Refused, Unusable
from pk.cli.nouns.configs.options import EditConfigs
from pk.cli.nouns.configs.resources import resources_of
from pk.cli.output.rows import columns, listing
from pk.cli.phrases import count
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import exit_code, exit_of_rows, sentence
from pk.cli.runtime.paths import make_user_dir
from pk.cli.terminal.editor import check_editor, edit_file
from pk.cli.terminal.styles import styled
from pk.core.config.keys import ConfigError, parse_properties
from pk.core.errors import KafkaError
from pk.net.client.errors import ClientError
from pk.net.client.results import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
)

_WIDTH = 78
Entries = Mapping[str, ConfigEntry]


async def edit(context: Context, options: EditConfigs) -> None:
    """Run `pk configs edit`."""
    resources = resources_of(options)
    if len(resources) != 1:
        raise Unusable(
            "Name one thing to edit: `topic NAME`, `broker ID`, `broker default`, `group NAME`."
        )
    if not context.change.dry_run:
        context.allow()
    if not options.file:
        check_editor("--file FILE takes the edited text, and `pk configs alter` sets single keys")
    resource = resources[0]
    before = await _entries(context, resource)
    path = (
        _existing(options.file)
        if options.file
        else _write(resource, _text(context, resource, before))
    )
    try:
        changes = await _edited(context, options, resource, before, path)
        if changes:
            await _apply(context, options, resource, before, changes, path)
            return
    except CommandError:
        raise
    except BaseException:  # after Ctrl-C or a lost cluster, too, the text is kept
        context.say(_kept(context, resource, path))
        raise
    _remove(path, options.file)
    context.say("Nothing was edited, so nothing was changed.")
    context.show_nothing(columns(AlteredConfig))


async def _edited(
    context: Context, options: EditConfigs, resource: ConfigResource, before: Entries, path: str
) -> Sequence[ConfigChange]:
    """The changes in the edited text, once the broker accepts them. Raises CommandError, which
    names the file, if the user gives up or there is no terminal."""
    while True:
        if not options.file or context.streams.in_terminal:
            context.lend_terminal()
            await trio.to_thread.run_sync(edit_file, path)
        try:
            changes = changes_in(_read(path), resource, before)
            refused: Sequence[Exception] = (
                await refusals(context, {resource: changes}) if changes else []
            )
            if not refused:
                return changes
        except (ConfigError, CommandError) as error:
            refused = [error]
        await _edit_again(context, resource, path, refused)


async def _apply(
    context: Context,
    options: EditConfigs,
    resource: ConfigResource,
    before: Entries,
    changes: Sequence[ConfigChange],
    path: str,
) -> None:
    """Show the difference, ask, and make the changes. An error names the file in which the text is
    kept."""
    _say_difference(context, resource, before, changes)
    try:
        await _check_unchanged(context, resource, before, changes)
        plan = await plan_changes(context, {resource: changes})
        say_consequences(context, plan)
        if not context.change.dry_run:
            await context.agree(
                f"Change this on {context.settings.cluster_name}?", name=shown_name(resource)
            )
        changed = await make_changes(context, plan)
    except CommandError as error:
        raise CommandError(f"{error} {_kept(context, resource, path)}", error.code) from None
    except (ClientError, KafkaError):
        context.say(_kept(context, resource, path))
        raise
    context.show(listing(AlteredConfig, changed.rows))
    changed.say_how_to_undo(context)
    if context.failures or context.change.dry_run:
        context.say(_kept(context, resource, path))
    else:
        _remove(path, options.file)


def _kept(context: Context, resource: ConfigResource, path: str) -> str:
    """A sentence with the path of the text, and the command that continues with it."""
    thing = (entity_word(resource.type), shown_name(resource))
    again = shlex.join(("pk", *context.path, *thing, "--file", path))
    return f"Your text is in {path}; `{again}` opens it again."


async def _edit_again(
    context: Context, resource: ConfigResource, path: str, refused: Sequence[Exception]
) -> None:
    """Return if the user wants to try again. Otherwise raises Refused or, without a terminal,
    CommandError; both name the file."""
    if context.streams.in_terminal and context.streams.err_terminal:
        for error in refused:
            context.say(sentence(error))
        answer = await context.ask("Edit it again? [Y/n] ")
        if answer.strip().lower() in ("", "y", "yes"):
            return
        raise Refused(f"Nothing was changed. {_kept(context, resource, path)}")
    said = " ".join(map(sentence, refused))
    code = exit_of_rows(refused)
    # The mistake is in the text, not in the command line.
    code = Exit.FAILED if code == Exit.USAGE else code
    raise CommandError(f"{said} {_kept(context, resource, path)}", code)


async def _entries(context: Context, resource: ConfigResource) -> Entries:
    """The current configs of the resource, by key. Raises CommandError if it does not exist."""
    admin = await context.admin()
    answers = await admin.describe_configs([resource], include_documentation=True)
    if (error := answers.errors.get(resource)) is not None:
        if is_unknown(error):
            raise CommandError((await unknown_topic(context, admin, resource.name)).said)
        raise CommandError(f"{name_in_sentence(resource)}: {sentence(error)}", exit_code(error))
    return {entry.name: entry for entry in sorted(answers.ok[resource], key=lambda e: e.name)}


def _text(context: Context, resource: ConfigResource, entries: Entries) -> str:
    """The text that the editor shows."""
    thing = f"{entity_word(resource.type)} {shown_name(resource)}"
    lines = [
        f"# Configs of {thing} on {context.settings.cluster_name}.",
        "# Lines without # are the values set on it. Remove a # to set a key; delete a line",
        "# to reset its key to the default. After you save and quit, pk shows the changes and",
        "# asks for confirmation. A text without changes changes nothing.",
        "",
    ]
    own = {name: own_value(resource, entry) for name, entry in entries.items()}
    mine = [name for name, value in own.items() if value is not None]
    lines += [f"{name}={as_property(own[name] or '')}" for name in mine]
    secrets = [name for name, entry in entries.items() if entry.sensitive]
    if secrets:
        lines += [
            "",
            *_wrapped(f"Secrets are not shown; add a line to set one: {', '.join(secrets)}"),
        ]
    lines += ["", "# --- at the default ---"]
    for name, entry in entries.items():
        if own[name] is not None or entry.read_only or entry.sensitive:
            continue
        said = documentation(resource.type, entry) or ""
        bounds = allowed(keys_of(resource.type).get(name))
        lines += ["", *_wrapped(f"{said} ({bounds})" if bounds else said)]
        if both_ways(name, entry.value) != entry.value and entry.value is not None:
            lines.append(f"# {both_ways(name, entry.value)}")
        lines.append(f"#{name}={as_property(entry.value or '')}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def as_property(value: str) -> str:
    """Show the text as a line of a properties file."""
    out = value.replace("\\", "\\\\")
    for char, letter in (("\n", "n"), ("\r", "r"), ("\t", "t"), ("\f", "f")):
        out = out.replace(char, f"\\{letter}")
    return f"\\{out}" if out.startswith(" ") else out


def changes_in(text: str, resource: ConfigResource, before: Entries) -> list[ConfigChange]:
    """The changes that a text makes. Raises ConfigError if it cannot be parsed, Unusable for an
    unknown key."""
    wanted = parse_properties(text)
    twice = _twice(text)
    if twice:
        raise Unusable(f"{twice} is set twice.")
    changes: list[ConfigChange] = []
    for name, typed in wanted.items():
        check_key(name, before)
        value = config_value(name, typed)
        entry = before.get(name)
        if entry is not None and entry.read_only:
            raise Unusable(f"{name} cannot be changed while the broker runs.")
        if own_value(resource, entry) != value:
            changes.append(ConfigChange(name, value))
    for name, entry in before.items():
        if own_value(resource, entry) is not None and name not in wanted and not entry.sensitive:
            changes.append(ConfigChange(name, None, ConfigOperation.DELETE))
    return changes


def _twice(text: str) -> str | None:
    """The first key that is set on two lines, of which the second would silently override the
    first."""
    seen = set[str]()
    for line in text.splitlines():
        name = line.strip().partition("=")[0].strip()
        if not name or name[0] in "#!" or "=" not in line:
            continue
        if name in seen:
            return name
        seen.add(name)
    return None


def _say_difference(
    context: Context, resource: ConfigResource, before: Entries, changes: Sequence[ConfigChange]
) -> None:
    """Show the difference as a diff, in color on a terminal."""
    names = sorted(change.name for change in changes)
    new = {c.name: c.value for c in changes if c.operation is ConfigOperation.SET}
    old = {name: own_value(resource, before.get(name)) for name in names}
    secret = {name for name in names if (entry := before.get(name)) and entry.sensitive}

    def lines(values: Mapping[str, str | None]) -> list[str]:
        return [
            f"{name}={'(hidden)' if name in secret else value}"
            for name in names
            if (value := values.get(name)) is not None
        ]

    styles = {"-": "red", "+": "green"} if context.streams.err_color else {}
    context.say(f"{entity_word(resource.type)} {shown_name(resource)}:")
    for line in difflib.ndiff(lines(old), lines(new)):
        if line[0] in "+-":
            context.say(styled(line, styles.get(line[0])))
    for change in changes:
        if change.operation is ConfigOperation.DELETE:
            context.say(f"  {change.name} is reset to its default.")
    context.say(f"{count(len(changes), 'key')} to change.")


async def _check_unchanged(
    context: Context, resource: ConfigResource, before: Entries, changes: Sequence[ConfigChange]
) -> None:
    """Raise Refused if another user has changed one of these keys since the text was opened."""
    now = await _entries(context, resource)
    for change in changes:
        was, found = (own_value(resource, e.get(change.name)) for e in (before, now))
        if was != found:
            raise Refused(
                f"{change.name} was changed in the meantime, from {was!r} to {found!r}; your "
                "changes were not made."
            )


def _write(resource: ConfigResource, text: str) -> str:
    """Write the text to a file of the user, so that it survives a failure. Returns the path. Raises
    CommandError."""
    try:
        directory = os.path.join(make_user_dir("state"), "edits")
        os.makedirs(directory, mode=0o700, exist_ok=True)
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in shown_name(resource))[:80]
        start = f"{entity_word(resource.type)}-{safe}-{time.strftime('%Y%m%d-%H%M%S')}-"
        descriptor, path = tempfile.mkstemp(".properties", start, directory)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as e:
        raise CommandError(f"{e.filename}: {e.strerror}.") from None
    return path


def _existing(path: str) -> str:
    """Check that the file `path` exists, and return `path`. Raises Unusable."""
    if not os.path.exists(path):
        raise Unusable(f"--file: {path} does not exist.")
    return path


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as e:
        raise CommandError(f"{path} cannot be read: {e}.") from None


def _remove(path: str, given: str | None) -> None:
    """Remove a text that was applied, unless the user gave the file."""
    if given is None:
        os.unlink(path)
