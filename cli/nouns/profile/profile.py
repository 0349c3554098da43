"""`pk profile`: manages named clusters, in a TOML file of the user."""

import os
import re
import shlex
from collections.abc import Mapping

from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.profile.options import AddProfile
from pk.cli.nouns.profile.rows import ProfileRow
from pk.cli.output.formats import Document, Section
from pk.cli.output.rows import field_listing, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.paths import make_user_dir
from pk.cli.runtime.profile_file import read_document, write_document
from pk.cli.runtime.settings import (
    DEFAULT_BOOTSTRAP,
    DEFAULT_GUARD,
    FORMER_COLOR,
    GUARDS,
    Profile,
    check_address,
    check_secret,
    check_security,
    choose_profile,
    profile_in,
    profile_named,
    profiles_file,
    read_profiles,
    read_properties,
    settings_from,
)

_SECRET = re.compile(
    r"password|secret|jaas\.config|keystore\.key|oauthbearer.*assertion", re.IGNORECASE
)
"""Client configs whose values must stay private."""


def _row(profile: Profile, chosen: str | None) -> ProfileRow:
    return {
        "profile": profile.name,
        "bootstrap": profile.bootstrap,
        "guard": profile.guard,
        "color": profile.color,
        "cluster_id": profile.cluster_id,
        "chosen": profile.name == chosen,
        "properties": {
            k: "(hidden)" if _SECRET.search(k) else v for k, v in profile.properties.items()
        },
        "secrets": dict(profile.secrets),
        "schema_registry": profile.schema_registry,
    }


def list_profiles(context: Context) -> None:
    """Run `pk profile list`."""
    profiles, chosen = read_profiles()
    context.show(listing(ProfileRow, [_row(p, chosen) for p in profiles.values()], _style))
    if not profiles and context.streams.out_terminal:
        context.say("No profiles; `pk profile add NAME -b HOST:PORT` adds one.")


def _style(row: ProfileRow) -> str | None:
    return row["color"]


def show(context: Context, name: str | None) -> None:
    """Run `pk profile show`."""
    profile = choose_profile(name)
    if profile is None:
        raise CommandError(
            "No current profile; `pk profile list` lists profiles, `pk profile use NAME` sets the "
            "current one."
        )
    _, chosen = read_profiles()
    row = _row(profile, chosen)
    rows = listing(ProfileRow, [row], _style)
    context.show_document(Document([row], [Section("", field_listing(row))], rows))


async def add(context: Context, options: AddProfile) -> None:
    """Run `pk profile add`."""
    import tomlkit

    if options.name in ("", "-"):  # `pk profile use -` chooses no profile
        raise Unusable(f"{options.name!r} is not a valid profile name.")
    check_security(dict(options.client_properties), "-X")
    check_security(dict(options.secrets), "--secret")
    secrets = {key: check_secret(key, source) for key, source in options.secrets}
    for key, _ in options.client_properties:
        _refuse_secret(key, "on a command line")
    from_file = _from_file(options.config_file, secrets)
    in_file = check_address(from_file.pop("bootstrap.servers", None), "bootstrap.servers")
    bootstrap = check_address(options.bootstrap_server, "-b") or in_file
    properties = {**from_file, **dict(options.client_properties)}
    if options.pin and options.cluster_id:
        raise Unusable("--pin finds the id itself; --cluster-id cannot be combined with it.")
    document = read_document()
    profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
    known = options.name in profiles
    table = profiles.setdefault(options.name, tomlkit.table())
    if known and options.guard and not context.given("yes"):
        present = str(table.get("guard", DEFAULT_GUARD))
        if options.guard in GUARDS[: GUARDS.index(present)]:
            await context.ask_yes(
                f"Lower the guard of profile {options.name} from {present} to {options.guard}?"
            )
    for key, value in (
        ("bootstrap", bootstrap),
        ("guard", options.guard),
        ("color", options.color),
        ("cluster_id", options.cluster_id),
        ("schema_registry", options.schema_registry),
    ):
        if value is not None:
            table[key] = value
    if options.color is not None:
        table.pop(FORMER_COLOR, None)
    for name, pairs in (("properties", properties), ("secrets", secrets)):
        if pairs:
            inner = table.setdefault(name, tomlkit.table())
            for key, value in pairs.items():
                inner[key] = value
    typed = _typed_for_keyring(secrets)
    if options.pin:
        changed = profile_in(document.unwrap()["profiles"], options.name, profiles_file())
        table["cluster_id"] = await _cluster_id(context, changed, typed)
    _keep_in_keyring(options.name, typed)
    write_document(document)
    context.say(
        f"Profile {options.name} was {'changed' if known else 'added'}; `pk profile use "
        f"{shlex.quote(options.name)}` makes it the current one."
    )


def _from_file(path: str | None, secrets: Mapping[str, str]) -> dict[str, str]:
    """The client configs of a properties file, apart from those that `secrets` supplies. Raises
    Unusable for other secrets."""
    if path is None:
        return {}
    found = read_properties(path)
    check_security(found, path)
    kept = {key: value for key, value in found.items() if key not in secrets}
    for key in kept:
        _refuse_secret(key, f"in a profile ({path})")
    return kept


def _refuse_secret(key: str, place: str) -> None:
    """Raise Unusable if `key` is a secret."""
    if _SECRET.search(key):
        raise Unusable(
            f"{key} is a secret, which does not belong {place}: --secret {key}=prompt asks for it "
            f"when needed, {key}=keyring keeps it in the system's keyring, {key}=command:WORDS "
            "runs a program."
        )


async def _cluster_id(context: Context, profile: Profile, typed: Mapping[str, str]) -> str:
    """The id of the cluster that answers a client with this profile; `typed` are secrets that their
    source does not have yet."""
    elsewhere = {key: source for key, source in profile.secrets.items() if key not in typed}
    settings = settings_from(profile._replace(secrets=elsewhere), None, {})
    settings = settings._replace(
        bootstrap=settings.bootstrap or DEFAULT_BOOTSTRAP,
        properties={**settings.properties, **typed},
    )
    assert context.session is not None
    admin = await context.session.admin(settings)
    found = (await admin.describe_cluster()).cluster_id
    if not found:
        raise CommandError(f"The cluster at {settings.bootstrap} has no id.")
    return found


def _typed_for_keyring(secrets: Mapping[str, str]) -> dict[str, str]:
    """Ask for the secrets that will be stored in the keyring. Raises CommandError if there is no
    keyring."""
    typed: dict[str, str] = {}
    for key, source in secrets.items():
        if source == "keyring":
            from pk.cli.runtime.secrets import ask_secret, keyring

            keyring()  # before the user types anything
            typed[key] = ask_secret(f"{key}: ")
    return typed


def _keep_in_keyring(name: str, typed: Mapping[str, str]) -> None:
    for key, secret in typed.items():
        from pk.cli.runtime.secrets import SERVICE, keyring

        keyring().set_password(SERVICE, f"{name}/{key}", secret)


def use(context: Context, name: str) -> None:
    """Run `pk profile use`."""
    document = read_document()
    if name == "-":
        document.pop("use", None)
    else:
        profile_named(name)
        document["use"] = name
    write_document(document)
    context.say("No current profile now." if name == "-" else f"Commands now use profile {name}.")


async def delete(context: Context, name: str) -> None:
    """Run `pk profile delete`."""
    profile_named(name)
    if context.change.dry_run:
        context.say(f"Profile {name} would be deleted.")
        return
    if not context.given("yes"):
        await context.ask_yes(f"Delete profile {name}?")
    document = read_document()
    document["profiles"].pop(name)
    chosen = document.get("use") == name
    if chosen:
        document.pop("use")
    write_document(document)
    context.say(
        f"Profile {name} was deleted."
        + (f" It was the current one: commands now use {DEFAULT_BOOTSTRAP}." if chosen else "")
    )


def edit(context: Context) -> None:
    """Run `pk profile edit`."""
    from pk.cli.terminal.editor import check_editor, edit_file

    path = profiles_file()
    check_editor(f"`pk profile add` changes a profile, and the file is {path}")
    make_user_dir("config")
    if not os.path.exists(path):
        write_document(read_document())
    edit_file(path)
    read_profiles()
    context.say(f"{path} is valid.")
