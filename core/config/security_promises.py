"""Broker keys that promise security which pk does not have.

A broker that reads `ssl.keystore.location`, or `super.users` without an authorizer, and starts all
the same is open to everybody while its operator believes it is not. So such a broker does not
start, and a running one refuses such a key, unless `pk.security.ignore` says that this is known. A
key that has Kafka's default, or that is empty, promises nothing; nor does a line such as `SSL:SSL`
in `listener.security.protocol.map`, which every `server.properties` of Apache's has, as long as no
listener uses it.
"""

from collections.abc import Sequence
from typing import Final

from pk.core.config.keys import ConfigError
from pk.core.config.tables import base_name, broker_key
from pk.core.config.unsupported import PLUGIN_KEYS, UNSUPPORTED
from pk.core.config.views import BrokerConfig
from pk.core.values import SASL_MECHANISMS

_FEATURES: Final = (
    "Java's classes for TLS",
    "Kerberos and SASL's Java classes",
    "principals",
)
_BEGINNINGS: Final = tuple(start for feature in _FEATURES for start in UNSUPPORTED[feature])
_MAP: Final = "listener.security.protocol.map"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols that pk has."""
_MECHANISM_KEYS: Final = (
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.mechanism.controller.protocol",
)
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_KEPT_CLASSES: Final = {
    "sasl.server.callback.handler.class": (
        f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
    ),
    "sasl.login.callback.handler.class": (
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
    ),
}
"""Java's classes whose promise pk keeps: with them Kafka does OAUTHBEARER as pk always does it."""
IGNORE: Final = "pk.security.ignore"
_NAMED: Final = 5
"""How many keys an error names."""


def promised_security(config: BrokerConfig) -> list[str]:
    """The keys of the broker's own file and options that promise security, in order of their
    names."""
    return sorted(name for name in config.static if _promises(config, name))


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where keys promise security, and `pk.security.ignore` is not true."""
    _refuse(promised_security(config), config)


def check_changed_key(name: str, text: str, config: BrokerConfig) -> None:
    """Raises ConfigError where a key that is set while brokers run promises security, and
    `pk.security.ignore` is not true in `config`, that of the broker that decides."""
    _refuse([name] if _key_promises(name, text.strip()) else [], config)


def _refuse(keys: Sequence[str], config: BrokerConfig) -> None:
    if keys and not config.pk_security_ignore:
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        raise ConfigError(
            f"pk cannot keep what {', '.join(keys[:_NAMED])}{more} "
            f"promise{'' if len(keys) > 1 else 's'}: everybody could read and write everything. "
            f"Remove {'them' if len(keys) > 1 else 'it'}, or accept that with {IGNORE}=true"
        )


def _promises(config: BrokerConfig, name: str) -> bool:
    text = config.static[name].strip()
    if base_name(name) == _MAP:
        return bool(text) and _map_promises(config, text)
    if base_name(name) in PLUGIN_KEYS and not config.authorizer_class_name:
        # Without `authorizer.class.name` they have no reader.
        return bool(text) and (base_name(name) == "super.users" or text.lower() != "true")
    return _key_promises(name, text)


def _key_promises(name: str, text: str) -> bool:
    """Whether a key, other than the map of listeners, promises security with this value."""
    base = base_name(name)
    if not text:
        return False
    if base == "security.inter.broker.protocol":
        return text.upper() not in _PROTOCOLS
    key = broker_key(name)
    if base in _MECHANISM_KEYS:
        value = key.parse(text)
        names = value if isinstance(value, tuple) else (value,)
        return value != key.default_value() and not set(names) <= set(SASL_MECHANISMS)
    if not base.startswith(_BEGINNINGS) or text in _KEPT_CLASSES.get(base, ()):
        return False
    return key.parse(text) != key.default_value()


def _map_promises(config: BrokerConfig, text: str) -> bool:
    used = {listener.name for listener in config.listeners}
    for pair in text.split(","):
        name, _, protocol = (part.strip().upper() for part in pair.rpartition(":"))
        if protocol not in _PROTOCOLS and (name != protocol or name in used):
            return True
    return False
