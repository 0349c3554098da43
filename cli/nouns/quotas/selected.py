"""The entity and the limits of a quota, from the command line."""

from math import isfinite
from typing import Final

from pk.cli.config_keys.units import plain_value
from pk.cli.exits import Unusable
from pk.cli.nouns.quotas.options import DeleteQuota, QuotaOf, SetQuota
from pk.core.nearest import did_you_mean
from pk.core.quota.entity import CLIENT_ID, CLIENT_KEYS, IP, IP_KEYS, USER, Entity, entity_of

_TYPES: Final = {
    "users": USER,
    "user": USER,
    "clients": CLIENT_ID,
    "client-id": CLIENT_ID,
    "ips": IP,
    "ip": IP,
}
_KEYS: Final = (*CLIENT_KEYS, *IP_KEYS)


def names_given(options: QuotaOf) -> dict[str, str | None]:
    """Type → name; None means the default. Raises Unusable."""
    names: dict[str, str | None] = {}
    for kind, name, default in (
        (USER, options.user, options.user_defaults),
        (CLIENT_ID, options.client_id, options.client_defaults),
        (IP, options.ip, options.ip_defaults),
    ):
        if name is not None and default:
            raise Unusable(f"Give either the {kind} {name!r} or the default, not both.")
        if name is not None or default:
            names[kind] = name
    for kind, name in _as_apache_says(options):
        if kind in names:
            raise Unusable(f"The {kind} is given twice.")
        names[kind] = name
    if any(name == "" for name in names.values()):
        raise Unusable("A name is empty; for the default, use its own option.")
    return names


def _as_apache_says(options: QuotaOf) -> list[tuple[str, str | None]]:
    types = [_TYPES[kind] for kind in options.entity_type]
    names: list[str | None] = list(options.entity_name)
    if not types and (names or options.entity_default):
        raise Unusable("--entity-name and --entity-default need --entity-type.")
    if options.entity_default:
        if len(types) > 1 and names:
            raise Unusable(
                "It is not clear which of the types --entity-default is for; "
                "give --user, --client-id, --default-user or --default-client-id."
            )
        names = [*names, *([None] * (len(types) - len(names)))]
    if len(names) != len(types):
        raise Unusable("Each --entity-type needs an --entity-name or --entity-default.")
    return list(zip(types, names, strict=True))


def entity_given(options: QuotaOf) -> Entity:
    """The entity of the quota. Raises Unusable."""
    names = names_given(options)
    if not names:
        raise Unusable(
            "Give an entity: --user, --client-id, --ip, --default-user, --default-client-id or "
            "--default-ip."
        )
    if IP in names and len(names) > 1:
        raise Unusable("A quota is for an address, or for users and client ids, not for both.")
    return entity_of(names)


def values_given(options: SetQuota, entity: Entity) -> dict[str, float]:
    """The limits to set, by key. Raises Unusable."""
    values: dict[str, float] = {}
    for text in (*options.values, *options.add_config):
        key, equals, value = text.partition("=")
        if not equals:
            raise Unusable(f"A quota must be KEY=VALUE, not {text!r}.")
        _check_key(key, entity)
        if key in values:
            raise Unusable(f"{key} is set twice on one command line.")
        values[key] = _number(key, value)
    if not values:
        raise Unusable(f"Give at least one limit, KEY=VALUE, of {', '.join(_keys_of(entity))}.")
    return values


def keys_given(options: DeleteQuota, entity: Entity) -> list[str]:
    """The limits to remove; empty for all. Raises Unusable."""
    keys = [*options.keys, *options.delete_config]
    for key in keys:
        _check_key(key, entity)
    return list(dict.fromkeys(keys))


def _keys_of(entity: Entity) -> tuple[str, ...]:
    return IP_KEYS if any(kind == IP for kind, _ in entity) else CLIENT_KEYS


def _check_key(key: str, entity: Entity) -> None:
    allowed = _keys_of(entity)
    if key in allowed:
        return
    if key in _KEYS:
        kinds = "addresses" if key in IP_KEYS else "users and client ids"
        raise Unusable(f"{key} is a quota of {kinds}.")
    raise Unusable(f"Unknown quota {key!r}{did_you_mean(key, _KEYS)}")


def _number(key: str, text: str) -> float:
    try:
        plain = plain_value(f"{key}.bytes", text) if key.endswith("_byte_rate") else text
        number = float(plain)
    except ValueError:
        number = float("nan")
    if not isfinite(number) or number <= 0:
        unit = ", such as 1048576 or 1MiB" if key.endswith("_byte_rate") else ""
        raise Unusable(f"{key} must be a number above 0{unit}, not {text!r}.")
    return number
