"""The settings for connecting to a cluster: from options, the environment, the profile, and
defaults, in that order."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from pk.cli.exits import CommandError, Unusable
from pk.cli.runtime.paths import user_dir
from pk.cli.terminal.styles import COLORS
from pk.core.nearest import did_you_mean

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
GUARDS = ("none", "confirm", "type-name", "insist", "readonly")
"""The guards, from the weakest to the strongest."""

DEFAULT_GUARD = "confirm"
FORMER_COLOR: Final = "colour"
"""The name of the key `color` in profiles that older versions have written."""
KEYS = (
    "bootstrap",
    "guard",
    "color",
    "cluster_id",
    "properties",
    "secrets",
    "schema_registry",
)
"""The keys of a profile's table."""

if TYPE_CHECKING:
    from pk.cli.options.option_sets import Reach


class Profile(NamedTuple):
    """A cluster to which the user has given a name."""

    name: str
    bootstrap: str | None = None
    properties: Mapping[str, str] = {}
    guard: str = DEFAULT_GUARD
    color: str | None = None
    cluster_id: str | None = None
    """The id of the expected cluster; commands refuse to run on another one."""

    secrets: Mapping[str, str] = {}
    """Client configs with secret values, and their sources: `prompt`, `keyring`, or
    `command:WORDS`."""

    schema_registry: str | None = None
    """The URL of the cluster's schema registry, or a directory of schemas."""


class Settings(NamedTuple):
    """The settings that a command needs to connect."""

    bootstrap: str
    properties: Mapping[str, str]
    """Client configs from the profile and the config file."""

    given: Mapping[str, str]
    """Client configs from -X."""

    profile: Profile | None

    @property
    def guard(self) -> str:
        return self.profile.guard if self.profile else DEFAULT_GUARD

    @property
    def cluster_name(self) -> str:
        """The cluster's name in questions and the shell's toolbar. Of several addresses it is only
        the first, to leave space for the rest."""
        first, *more = self.bootstrap.split(",")
        address = f"{first} (+{len(more)})" if more else first
        return f"{self.profile.name} ({address})" if self.profile else address


def profiles_file() -> str:
    return os.path.join(user_dir("config"), "profiles.toml")


def read_profiles() -> tuple[dict[str, Profile], str | None]:
    """All profiles, and the name of the current one. Raises CommandError if the file is unreadable
    or invalid."""
    path = profiles_file()
    if not os.path.exists(path):
        return {}, None
    import tomllib

    try:
        with open(path, "rb") as file:
            data = tomllib.load(file)
    except OSError as e:
        raise CommandError(f"{path} cannot be read: {e.strerror}.") from e
    except ValueError as e:  # not TOML, or not even UTF-8
        raise CommandError(f"{path} cannot be read: {e}.") from e
    tables = _table(path, data, "profiles", "the file")
    profiles = {name: profile_in(tables, name, path) for name in tables}
    return profiles, _string(path, data, "use", "the file")


def _table(path: str, outer: dict[str, Any], key: str, whose: str) -> dict[str, Any]:
    """The table under `key`, empty if missing. Raises CommandError for anything else."""
    found = outer.get(key, {})
    if not isinstance(found, dict):
        raise CommandError(f"{path}: {key} of {whose} must be a table, not {found!r}.")
    return cast("dict[str, Any]", found)


def _string(path: str, outer: dict[str, Any], key: str, whose: str) -> str | None:
    """The string under `key`, if any. Raises CommandError for anything else."""
    found = outer.get(key)
    if found is not None and not isinstance(found, str):
        raise CommandError(f"{path}: {key} of {whose} must be a string in quotes, not {found!r}.")
    return found


def profile_in(tables: dict[str, Any], name: str, path: str) -> Profile:
    """The profile in the table `name` of `tables`, which are in the file at `path`. Raises
    CommandError if it is invalid."""
    whose = f"profile {name!r}"
    table = _table(path, tables, name, "profiles")
    guard = table.get("guard", DEFAULT_GUARD)
    if guard not in GUARDS:
        raise CommandError(
            f"{path}: the guard of {whose} must be one of {', '.join(GUARDS)}, not {guard!r}."
        )
    if FORMER_COLOR in table:
        table = {"color": table[FORMER_COLOR], **table}
        del table[FORMER_COLOR]
    color = table.get("color")
    if color is not None and color not in COLORS:
        raise CommandError(
            f"{path}: the color of {whose} must be one of {', '.join(COLORS)}, not {color!r}."
        )
    unknown = [key for key in table if key not in KEYS]
    if unknown:
        hint = did_you_mean(unknown[0], KEYS, f"; the keys are {', '.join(KEYS)}.")
        raise CommandError(f"{path}: {whose} has no key {unknown[0]!r}{hint}")
    properties = _table(path, table, "properties", whose)
    secrets = _table(path, table, "secrets", whose)
    return Profile(
        name,
        _string(path, table, "bootstrap", whose),
        {key: _text(value) for key, value in properties.items()},
        guard,
        color,
        _string(path, table, "cluster_id", whose),
        {key: check_secret(key, str(source)) for key, source in secrets.items()},
        _string(path, table, "schema_registry", whose),
    )


def check_secret(key: str, source: str) -> str:
    """Return `source`, the source of a secret, if it is valid. Raises Unusable."""
    kind, _, words = source.partition(":")
    if source in ("prompt", "keyring") or (kind == "command" and words.strip()):
        return source
    raise Unusable(
        f"The secret {key} must come from prompt, keyring or command:WORDS, not {source!r}: "
        "pk neither stores secrets in files nor accepts them on the command line."
    )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_properties(path: str) -> dict[str, str]:
    """Read the entries of a Java properties file. Raises Unusable if it cannot be read."""
    from pk.core.config.keys import ConfigError, parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except OSError as e:
        raise Unusable(f"{path} cannot be read: {e.strerror}.") from None
    except (UnicodeDecodeError, ConfigError) as e:
        reason = "it is not UTF-8 text" if isinstance(e, UnicodeDecodeError) else e
        raise Unusable(f"{path} cannot be read: {reason}.") from None


def choose_profile(wanted: str | None) -> Profile | None:
    """The profile from the option or the environment, or the current one. Raises CommandError if it
    does not exist."""
    wanted = wanted or os.environ.get("PK_PROFILE") or None
    profiles, chosen = read_profiles()
    name = wanted or chosen
    return None if name is None else _named(profiles, name)


def profile_named(name: str) -> Profile:
    """The profile with this name. Raises CommandError if it does not exist."""
    profiles, _ = read_profiles()
    return _named(profiles, name)


def _named(profiles: Mapping[str, Profile], name: str) -> Profile:
    if name not in profiles:
        hint = did_you_mean(name, profiles, "; `pk profile list` lists profiles.")
        raise Unusable(f"Profile {name!r} does not exist{hint}")
    return profiles[name]


def check_address(text: str | None, source: str) -> str | None:
    """Check that `text` is not empty, and return it; None stays None. Raises Unusable.

    An empty address comes from an unset variable. Using another cluster instead could then change
    the wrong one.
    """
    if text is not None and not text.strip(", "):
        raise Unusable(f"{source} is empty; it must be an address such as host:9092.")
    return text


def check_security(keys: Mapping[str, str], source: str) -> None:
    """Raise Unusable if `keys` require security features that pk does not have: it must not connect
    without them."""
    secure = [key for key in keys if key.startswith(("ssl.", "sasl."))]
    if not secure:
        return
    from pk.core.values import SASL_MECHANISMS
    from pk.net.client.config import ClientConfig
    from pk.net.client.config import keys as keys_of

    known = keys_of(ClientConfig)
    for key in secure:
        if key not in known:
            raise Unusable(
                f"{source}: {key} is not supported; pk cannot load Java classes, and its SASL "
                f"mechanisms are {', '.join(SASL_MECHANISMS)}."
            )


def settings_of(reach: "Reach") -> Settings:
    """The settings for the cluster that the command line chooses. Raises CommandError."""
    typed = check_address(reach.bootstrap_server, "-b")
    if reach.profile is not None and not reach.profile.strip():
        raise Unusable("--profile is empty; it must be the name of a profile.")
    profile = choose_profile(reach.profile)
    in_environment = None if reach.profile else os.environ.get("PK_BOOTSTRAP_SERVER")
    if typed is None:
        check_address(in_environment, "PK_BOOTSTRAP_SERVER")
    given = dict(reach.client_properties)
    check_security(given, "-X")
    named = check_address(given.pop("bootstrap.servers", None), "-X bootstrap.servers")
    settings = settings_from(profile, reach.config_file, given, typed or named or in_environment)
    return settings if settings.bootstrap else settings._replace(bootstrap=DEFAULT_BOOTSTRAP)


def settings_from(
    profile: Profile | None,
    config_file: str | None,
    given: Mapping[str, str],
    address: str | None = None,
) -> Settings:
    """The settings for the cluster at `address`, or else for that of the profile or the file. The
    address is empty if none of them has one. Gets the profile's secrets. Raises CommandError."""
    properties: dict[str, str] = {}
    if profile:
        if not address:
            check_address(profile.bootstrap, f"The bootstrap of profile {profile.name!r}")
            address = profile.bootstrap
        check_security({**profile.properties, **profile.secrets}, f"profile {profile.name!r}")
        properties.update(profile.properties)
    in_config: dict[str, str] = {}
    if config_file:
        in_config = read_properties(config_file)
        check_security(in_config, config_file)
    if profile and profile.secrets:
        from pk.cli.runtime.secrets import secret_values

        properties.update(secret_values(profile.name, profile.secrets))
    properties.update(in_config)
    in_file = check_address(properties.pop("bootstrap.servers", None), "bootstrap.servers")
    return Settings(address or in_file or "", properties, given, profile)
