"""Broker keys that promise security which pk does not have.

A broker that reads `authorizer.class.name` or `ssl.keystore.location` and starts without them is open to
everybody while its operator believes it is not. So such a broker does not start, unless
`pk.security.ignore` says that this is known. A key that has Kafka's default, or that is empty,
promises nothing; nor does a line such as `SSL:SSL` in `listener.security.protocol.map`, which
every `server.properties` of Apache's has, as long as no listener uses it.
"""

from typing import Final

from pk.core.config.keys import ConfigError
from pk.core.config.tables import base_name, broker_key
from pk.core.config.unsupported import UNSUPPORTED
from pk.core.config.views import BrokerConfig

_FEATURES: Final = ("TLS", "SASL", "delegation tokens", "authorization")
_BEGINNINGS: Final = tuple(start for feature in _FEATURES for start in UNSUPPORTED[feature])
_MAP: Final = "listener.security.protocol.map"
_PLAINTEXT: Final = "PLAINTEXT"
IGNORE: Final = "pk.security.ignore"
_NAMED: Final = 5
"""How many keys an error names."""


def promised_security(config: BrokerConfig) -> list[str]:
    """The keys of the broker's own file and options that promise security, in order of their names."""
    return sorted(name for name in config.static if _promises(config, name))


def check_security(config: BrokerConfig) -> None:
    """Raises ConfigError where keys promise security, and `pk.security.ignore` is not true."""
    keys = promised_security(config)
    if keys and not config.pk_security_ignore:
        more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
        raise ConfigError(
            f"pk has no TLS, SASL or ACLs yet, so it cannot keep what {', '.join(keys[:_NAMED])}{more} "
            f"promise{'' if len(keys) > 1 else 's'}: everybody could read and write everything. Remove "
            f"{'them' if len(keys) > 1 else 'it'}, or accept that with {IGNORE}=true"
        )


def _promises(config: BrokerConfig, name: str) -> bool:
    base, text = base_name(name), config.static[name].strip()
    if not text:
        return False
    if base == _MAP:
        return _map_promises(config, text)
    if base == "security.inter.broker.protocol":
        return text.upper() != _PLAINTEXT
    if base == "allow.everyone.if.no.acl.found":
        return text.lower() != "true"
    if not base.startswith(_BEGINNINGS):
        return False
    key = broker_key(name)
    return key.parse(text) != key.default_value()


def _map_promises(config: BrokerConfig, text: str) -> bool:
    used = {listener.name for listener in config.listeners}
    for pair in text.split(","):
        name, _, protocol = (part.strip().upper() for part in pair.rpartition(":"))
        if protocol != _PLAINTEXT and (name != protocol or name in used):
            return True
    return False
