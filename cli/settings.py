"""Which cluster a command talks to, and how: options before environment before profile before defaults."""

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from pk.cli.exits import CommandError, Unusable
from pk.cli.grammar import Args, nearest
from pk.cli.paths import user_dir

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
GUARDS = ("none", "confirm", "type-name", "readonly")
COLOURS = ("red", "yellow", "green", "blue", "magenta", "cyan")
KEYS = ("bootstrap", "guard", "colour", "cluster_id", "properties", "secrets")
"""What the table of a profile may hold."""


class Profile(NamedTuple):
    """A named cluster of the user's."""

    name: str
    bootstrap: str | None = None
    properties: Mapping[str, str] = {}
    guard: str = "confirm"
    colour: str | None = None
    cluster_id: str | None = None
    """The cluster it is meant for; where another answers, nothing is done."""

    secrets: Mapping[str, str] = {}
    """Client keys whose values are asked for when they are needed: `prompt`, `keyring`, or `command:WORDS`."""


class Settings(NamedTuple):
    """What a command needs to connect."""

    bootstrap: str
    properties: Mapping[str, str]
    """Client keys of the profile and of the file named."""

    given: Mapping[str, str]
    """Client keys of -X."""

    profile: Profile | None

    @property
    def guard(self) -> str:
        return self.profile.guard if self.profile else "confirm"

    @property
    def cluster_name(self) -> str:
        """How questions and prompts name the cluster: of many addresses by the first."""
        first, *more = self.bootstrap.split(",")
        address = f"{first} (+{len(more)})" if more else first
        return f"{self.profile.name} ({address})" if self.profile else address


def profiles_file() -> str:
    return os.path.join(user_dir("config"), "profiles.toml")


def read_profiles() -> tuple[dict[str, Profile], str | None]:
    """The profiles there are, and which one is chosen. Raises CommandError where the file cannot be read."""
    path = profiles_file()
    if not os.path.exists(path):
        return {}, None
    import tomllib

    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as e:
        raise CommandError(f"{path} cannot be read: {e}") from e
    profiles = {
        name: _profile(path, name, table) for name, table in data.get("profiles", {}).items()
    }
    return profiles, data.get("use")


def _profile(path: str, name: str, table: Any) -> Profile:
    if not isinstance(table, dict):
        raise CommandError(f"{path}: profile {name!r} is no table")
    guard = table.get("guard", "confirm")
    if guard not in GUARDS:
        raise CommandError(
            f"{path}: the guard of profile {name!r} is one of {', '.join(GUARDS)}, not {guard!r}"
        )
    colour = table.get("colour")
    if colour is not None and colour not in COLOURS:
        raise CommandError(
            f"{path}: the colour of profile {name!r} is one of {', '.join(COLOURS)}, not {colour!r}"
        )
    unknown = [key for key in table if key not in KEYS]
    if unknown:
        near = nearest(unknown[0], KEYS)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(KEYS)}."
        raise CommandError(f"{path}: profile {name!r} has no key {unknown[0]!r}; {hint}")
    properties = {str(k): _text(v) for k, v in table.get("properties", {}).items()}
    secrets = {str(k): check_secret(str(k), str(v)) for k, v in table.get("secrets", {}).items()}
    return Profile(
        name,
        table.get("bootstrap"),
        properties,
        guard,
        colour,
        table.get("cluster_id"),
        secrets,
    )


def check_secret(key: str, source: str) -> str:
    """`source`, if a secret may come from there. Raises Unusable."""
    kind, _, words = source.partition(":")
    if source in ("prompt", "keyring") or (kind == "command" and words.strip()):
        return source
    raise Unusable(
        f"The secret {key} comes from prompt, keyring or command:WORDS, not {source!r}: "
        "a secret itself stands neither in a file of pk's nor on a command line."
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_properties(path: str) -> dict[str, str]:
    """The entries of a Java properties file. Raises Unusable where it cannot be read."""
    from pk.core.config_keys import ConfigError, parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as e:
        raise Unusable(f"{path} cannot be read: {e.strerror}.") from None
    except (UnicodeDecodeError, ConfigError) as e:
        reason = "it is not UTF-8 text" if isinstance(e, UnicodeDecodeError) else e
        raise Unusable(f"{path} cannot be read: {reason}.") from None


def choose_profile(wanted: str | None) -> Profile | None:
    """The profile by option, environment or choice. Raises CommandError where there is none of that name."""
    wanted = wanted or os.environ.get("PK_PROFILE") or None
    profiles, chosen = read_profiles()
    name = wanted or chosen
    if name is None:
        return None
    if name not in profiles:
        near = nearest(name, profiles)
        hint = (
            f"did you mean {' or '.join(near)}?"
            if near
            else "`pk profile list` shows which there are."
        )
        raise Unusable(f"There is no profile {name!r}; {hint}")
    return profiles[name]


def settings_of(args: Args) -> Settings:
    """The settings for a parsed command line. Raises CommandError."""
    profile = choose_profile(args.profile)
    bootstrap = (None if args.profile else os.environ.get("PK_BOOTSTRAP_SERVER")) or (
        profile.bootstrap if profile else None
    )
    properties: dict[str, str] = dict(profile.properties) if profile else {}
    if profile and profile.secrets:
        from pk.cli.secret_values import secret_values

        properties.update(secret_values(profile.name, profile.secrets))
    if args.config_file:
        properties.update(read_properties(args.config_file))
    given = dict(args.client_properties)
    in_file = properties.pop("bootstrap.servers", None)
    named = given.pop("bootstrap.servers", None)
    return Settings(
        args.bootstrap_server or named or bootstrap or in_file or DEFAULT_BOOTSTRAP,
        properties,
        given,
        profile,
    )
