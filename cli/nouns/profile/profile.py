"""`pk profile`: clusters by name, kept in a TOML file of the user's."""

import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from pk.cli.nouns.profile.options import AddProfile
from pk.cli.nouns.profile.rows import ProfileRow
from pk.cli.output.formats import Column, Document, Listing, Section
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.exits import CommandError, Refused, Unusable
from pk.cli.runtime.paths import make_user_dir
from pk.cli.runtime.settings import (
    DEFAULT_BOOTSTRAP,
    Profile,
    check_address,
    check_secret,
    check_security,
    choose_profile,
    profile_named,
    profiles_file,
    read_profiles,
)
from pk.cli.terminal.stdin import wait_for_input

_PAIRS = (Column("name"), Column("value"))

_SECRET = re.compile(
    r"password|secret|jaas\.config|keystore\.key|oauthbearer.*assertion", re.IGNORECASE
)
"""Client keys whose values are nobody's business but the user's."""


def _row(profile: Profile, chosen: str | None) -> ProfileRow:
    return {
        "profile": profile.name,
        "bootstrap": profile.bootstrap,
        "guard": profile.guard,
        "colour": profile.colour,
        "cluster_id": profile.cluster_id,
        "chosen": profile.name == chosen,
        "properties": {
            k: "(hidden)" if _SECRET.search(k) else v for k, v in profile.properties.items()
        },
        "secrets": dict(profile.secrets),
    }


def list_profiles(context: Context) -> None:
    """`pk profile list`."""
    profiles, chosen = read_profiles()
    if not profiles and context.streams.out_terminal:
        context.say("There is none yet; `pk profile add NAME -b HOST:PORT` makes one.")
    context.show(listing(ProfileRow, [_row(p, chosen) for p in profiles.values()], _style))


def _style(row: ProfileRow) -> str | None:
    return row["colour"]


def show(context: Context, name: str | None) -> None:
    """`pk profile show`."""
    profile = choose_profile(name)
    if profile is None:
        raise CommandError(
            "No profile is chosen; `pk profile list` shows which there are, `pk profile use NAME` chooses one."
        )
    _, chosen = read_profiles()
    row = _row(profile, chosen)
    named = [{"name": k.replace("_", " "), "value": v} for k, v in row.items()]
    context.show_document(
        Document([row], [Section("", Listing(_PAIRS, named))], listing(ProfileRow, [row], _style))
    )


def _document() -> Any:
    import tomlkit

    path = profiles_file()
    read_profiles()  # says what is wrong with the file before it is changed
    if not os.path.exists(path):
        return tomlkit.document()
    with open(path, encoding="utf-8") as file:
        return tomlkit.load(file)


def _save(document: Any) -> None:
    import tomlkit

    make_user_dir("config")
    path = profiles_file()
    scratch = f"{path}.{os.getpid()}"
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        tomlkit.dump(document, file)
    os.replace(scratch, path)


async def add(context: Context, options: AddProfile) -> None:
    """`pk profile add`."""
    import tomlkit

    if options.name in ("", "-"):  # `pk profile use -` chooses none
        raise Unusable(f"A profile cannot be named {options.name!r}.")
    check_security(dict(options.client_properties), "-X")
    check_security(dict(options.secrets), "--secret")
    for key, _ in options.client_properties:
        if _SECRET.search(key):
            raise Unusable(
                f"{key} is a secret, which does not belong on a command line: --secret {key}=prompt asks for it when it "
                f"is needed, {key}=keyring keeps it in the system's keyring, {key}=command:WORDS asks a program."
            )
    check_address(options.bootstrap_server, "-b")
    secrets = {key: check_secret(key, source) for key, source in options.secrets}
    if options.pin and options.cluster_id:
        raise Unusable("--pin finds the id out; --cluster-id does not go with it.")
    document = _document()
    profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
    known = options.name in profiles
    table = profiles.setdefault(options.name, tomlkit.table())
    bootstrap = options.bootstrap_server or table.get("bootstrap") or DEFAULT_BOOTSTRAP
    cluster_id = await _cluster_id(str(bootstrap)) if options.pin else options.cluster_id
    for key, value in (
        ("bootstrap", options.bootstrap_server),
        ("guard", options.guard),
        ("colour", options.colour),
        ("cluster_id", cluster_id),
    ):
        if value is not None:
            table[key] = value
    for name, pairs in (("properties", options.client_properties), ("secrets", secrets.items())):
        if pairs:
            inner = table.setdefault(name, tomlkit.table())
            for key, value in pairs:
                inner[key] = value
    _keep_in_keyring(options.name, secrets)
    _save(document)
    context.say(
        f"Profile {options.name} was {'changed' if known else 'added'}; `pk profile use {shlex.quote(options.name)}` chooses it."
    )


async def _cluster_id(bootstrap: str) -> str:
    """The id of the cluster that answers there."""
    from pk.net.client.admin import open_admin

    async with open_admin(bootstrap, {"default.api.timeout.ms": "15000"}) as admin:
        found = (await admin.describe_cluster()).cluster_id
    if not found:
        raise CommandError(f"The cluster at {bootstrap} tells no id.")
    return found


def _keep_in_keyring(name: str, secrets: Mapping[str, str]) -> None:
    """Asks for the secrets that are to lie in the keyring, and puts them there."""
    for key, source in secrets.items():
        if source == "keyring":
            from pk.cli.runtime.secrets import SERVICE, ask_secret, keyring

            keyring().set_password(SERVICE, f"{name}/{key}", ask_secret(f"{key}: "))


def use(context: Context, name: str) -> None:
    """`pk profile use`."""
    document = _document()
    if name == "-":
        document.pop("use", None)
    else:
        profile_named(name)
        document["use"] = name
    _save(document)
    context.say("No profile is chosen now." if name == "-" else f"Commands now use profile {name}.")


def delete(context: Context, name: str) -> None:
    """`pk profile delete`."""
    profile_named(name)
    if context.change.dry_run:
        context.say(f"Profile {name} would be removed.")
        return
    if not context.change.yes:
        if not context.streams.in_terminal or not context.streams.err_terminal:
            raise Refused(
                "There is no terminal to ask on, so nothing was changed; -y does it without asking."
            )
        context.streams.err.write(f"Remove profile {name}? [y/N] ")
        context.streams.err.flush()
        wait_for_input(context.streams.stdin)
        if context.streams.stdin.readline().strip().lower() not in (b"y", b"yes"):
            raise Refused("Nothing was changed.")
    document = _document()
    document["profiles"].pop(name)
    chosen = document.get("use") == name
    if chosen:
        document.pop("use")
    _save(document)
    context.say(
        f"Profile {name} was removed."
        + (f" It was the one chosen: commands now use {DEFAULT_BOOTSTRAP}." if chosen else "")
    )


def edit(context: Context) -> None:
    """`pk profile edit`."""
    from pk.cli.terminal.editor import check_editor, edit_file

    path = profiles_file()
    check_editor(f"`pk profile add` changes a profile, and the file is {path}")
    make_user_dir("config")
    if not os.path.exists(path):
        _save(_document())
    edit_file(path)
    read_profiles()
    context.say(f"{path} is well-formed.")
