"""`pk profile`: clusters by name, kept in a TOML file of the user's."""

import os
import shlex
import subprocess
from typing import Any

from pk.cli.context import Context
from pk.cli.exits import CommandError, Refused
from pk.cli.output import Column, Listing
from pk.cli.paths import make_user_dir
from pk.cli.settings import choose_profile, profiles_file, read_profiles

_PROFILES = (
    Column("profile"),
    Column("bootstrap"),
    Column("guard"),
    Column("colour"),
    Column("chosen"),
    Column("properties", wide=True),
)


def list_profiles(context: Context) -> None:
    """`pk profile list`."""
    profiles, chosen = read_profiles()
    context.show(
        Listing(
            _PROFILES,
            [
                {
                    "profile": p.name,
                    "bootstrap": p.bootstrap,
                    "guard": p.guard,
                    "colour": p.colour,
                    "chosen": p.name == chosen,
                    "properties": dict(p.properties),
                }
                for p in profiles.values()
            ],
        )
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


def add(context: Context) -> None:
    """`pk profile add`."""
    import tomlkit

    args = context.args
    document = _document()
    profiles = document.setdefault("profiles", tomlkit.table(is_super_table=True))
    known = args.name in profiles
    table = profiles.setdefault(args.name, tomlkit.table())
    for key, value in (
        ("bootstrap", args.bootstrap_server),
        ("guard", args.guard),
        ("colour", args.colour),
    ):
        if value is not None:
            table[key] = value
    if args.client_properties:
        properties = table.setdefault("properties", tomlkit.table())
        for key, value in args.client_properties:
            properties[key] = value
    _save(document)
    context.say(
        f"Profile {args.name} was {'changed' if known else 'added'}; `pk profile use {args.name}` chooses it."
    )


def use(context: Context) -> None:
    """`pk profile use`."""
    document = _document()
    name = context.args.name
    if name == "-":
        document.pop("use", None)
    else:
        choose_profile(name)
        document["use"] = name
    _save(document)
    context.say("No profile is chosen now." if name == "-" else f"Commands now use profile {name}.")


def delete(context: Context) -> None:
    """`pk profile delete`."""
    name = context.args.name
    choose_profile(name)
    if not context.args.yes:
        if not context.streams.in_terminal or not context.streams.err_terminal:
            raise Refused(
                "There is no terminal to ask on, so nothing was changed; -y does it without asking."
            )
        context.streams.err.write(f"Remove profile {name}? [y/N] ")
        context.streams.err.flush()
        if context.streams.stdin.readline().strip().lower() not in (b"y", b"yes"):
            raise Refused("Nothing was changed.")
    document = _document()
    document["profiles"].pop(name)
    if document.get("use") == name:
        document.pop("use")
    _save(document)


def edit(context: Context) -> None:
    """`pk profile edit`."""
    make_user_dir("config")
    path = profiles_file()
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        ended = subprocess.run([*shlex.split(editor), path], check=False)
    except OSError as e:
        raise CommandError(
            f"{editor} cannot be started ({e.strerror}); $EDITOR names another."
        ) from None
    if ended.returncode:
        raise CommandError(f"{editor} ended with {ended.returncode}.")
    read_profiles()
    context.say(f"{path} is well-formed.")
