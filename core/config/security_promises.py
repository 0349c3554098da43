"""Broker keys that promise security which pk does not provide.

If a broker started with a security key that it does not support, or with `super.users` but no
authorizer, it would be open to everyone while its operator believes otherwise. So such a broker
does not start, and a running one refuses such a key, unless `pk.security.ignore` confirms that the
operator knows. `PROMISES` describes the promise of each key. A key of the same features that is not
listed promises nothing by itself, and is accepted. The same is true for a key that is empty or has
Kafka's default, and for an entry such as `SSL:SSL` in `listener.security.protocol.map`, which every
`server.properties` of Apache has, as long as no listener uses it.
"""

from collections.abc import Mapping
from typing import Final

from pk.core.config.keys import ConfigError
from pk.core.config.tables import base_name, broker_key
from pk.core.config.unsupported import PLUGIN_KEYS
from pk.core.config.views import BrokerConfig
from pk.core.values import SASL_MECHANISMS

_MAP: Final = "listener.security.protocol.map"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols that pk supports."""
_MECHANISM_KEYS: Final = (
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "sasl.mechanism.controller.protocol",
)
PROMISES: Final[Mapping[str, str]] = {
    "principal.builder.class": "a Java class decides a client's identity",
    "sasl.client.callback.handler.class": "a Java class logs this node in to others",
    "sasl.login.callback.handler.class": "a Java class gets the credentials of this node",
    "sasl.login.class": "a Java class logs this node in",
    "sasl.oauthbearer.assertion.file": "this node authenticates to its token endpoint with an "
    "assertion",
    "sasl.oauthbearer.assertion.private.key.file": (
        "this node authenticates to its token endpoint with an assertion"
    ),
    "sasl.oauthbearer.jwt.retriever.class": "a Java class gets the tokens of this node",
    "sasl.oauthbearer.jwt.validator.class": "a Java class checks the tokens of clients",
    "sasl.server.callback.handler.class": "a Java class checks logins",
    "security.providers": "Java classes provide security algorithms",
    "ssl.engine.factory.class": "a Java class does TLS, and decides whom to trust",
    "ssl.protocol": "TLS uses a version other than 1.2 and 1.3",
    "ssl.provider": "a specific Java provider, such as a certified one, does TLS",
    "ssl.secure.random.implementation": "a specific Java random generator makes keys",
    "ssl.trustmanager.algorithm": "a specific Java algorithm checks certificates",
}
"""The promise of each key, if its value is not Kafka's default."""
_OTHER_LOGIN: Final = "peers log in by a mechanism or a protocol that pk does not have"
_ACLS: Final = "all but super users need an ACL, which only authorizer.class.name turns on"
_OAUTH: Final = "org.apache.kafka.common.security.oauthbearer."
_KEPT: Final = {
    "sasl.login.callback.handler.class": (
        f"{_OAUTH}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerLoginCallbackHandler",
    ),
    "sasl.oauthbearer.jwt.retriever.class": (
        f"{_OAUTH}ClientCredentialsJwtRetriever",
        f"{_OAUTH}FileJwtRetriever",
    ),
    "sasl.oauthbearer.jwt.validator.class": (f"{_OAUTH}BrokerJwtValidator",),
    "sasl.server.callback.handler.class": (
        f"{_OAUTH}OAuthBearerValidatorCallbackHandler",
        f"{_OAUTH}secured.OAuthBearerValidatorCallbackHandler",
    ),
    "ssl.protocol": ("TLS", "TLSv1.2"),
    "ssl.provider": ("SunJSSE",),
    "ssl.trustmanager.algorithm": ("SunX509",),
}
"""Values whose promise pk keeps, because it always behaves as Kafka does with them."""
IGNORE: Final = "pk.security.ignore"


def promised_security(config: BrokerConfig) -> dict[str, str]:
    """Return the keys in the broker's own file and options that promise security, sorted by name,
    with the promises."""
    found = ((name, _promise(config, name)) for name in sorted(config.static))
    return {name: promise for name, promise in found if promise is not None}


def check_security(config: BrokerConfig) -> None:
    """Raise ConfigError if keys promise security and `pk.security.ignore` is not true."""
    _refuse(promised_security(config), config)


def check_changed_key(name: str, text: str, config: BrokerConfig) -> None:
    """Raise ConfigError if a key set at runtime promises security and `pk.security.ignore` is not
    true in `config`, the configuration of the broker that decides."""
    promise = _key_promise(name, text.strip())
    _refuse({} if promise is None else {name: promise}, config)


def _refuse(promises: Mapping[str, str], config: BrokerConfig) -> None:
    if not promises or config.pk_security_ignore:
        return
    if len(promises) == 1:
        ((name, promise),) = promises.items()
        refusal, pronoun = f"{name} is not supported: it requires that {promise}", "it"
    else:
        each = ", ".join(
            f"{name} (it requires that {promise})" for name, promise in promises.items()
        )
        refusal, pronoun = f"some keys are not supported: {each}", "them"
    raise ConfigError(f"{refusal}. Remove {pronoun}, or ignore {pronoun} with {IGNORE}=true")


def _promise(config: BrokerConfig, name: str) -> str | None:
    text, base = config.static[name].strip(), base_name(name)
    if base == _MAP:
        return _OTHER_LOGIN if text and _map_promises(config, text) else None
    if base in PLUGIN_KEYS and not config.authorizer_class_name:
        # Only the authorizer reads these keys.
        return _ACLS if text and (base == "super.users" or text.lower() != "true") else None
    return _key_promise(name, text)


def _key_promise(name: str, text: str) -> str | None:
    """Return the promise of a key with this value, or None. The map of listeners is handled
    elsewhere."""
    base = base_name(name)
    if not text:
        return None
    if base == "security.inter.broker.protocol":
        return None if text.upper() in _PROTOCOLS else _OTHER_LOGIN
    if base not in PROMISES and base not in _MECHANISM_KEYS:
        return None
    key = broker_key(name)
    value = key.parse(text)
    if value == key.default_value() or text in _KEPT.get(base, ()):
        return None
    if base in _MECHANISM_KEYS:
        names = value if isinstance(value, tuple) else (value,)
        return None if set(names) <= set(SASL_MECHANISMS) else _OTHER_LOGIN
    return PROMISES[base]


def _map_promises(config: BrokerConfig, text: str) -> bool:
    used = {listener.name for listener in config.listeners}
    for pair in text.split(","):
        name, _, protocol = (part.strip().upper() for part in pair.rpartition(":"))
        if protocol not in _PROTOCOLS and (name != protocol or name in used):
            return True
    return False
