"""The SASL mechanisms of one listener, with the cluster's current users and delegation tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from typing import Final, cast

from pk.core.auth.delegation_tokens import token_secret
from pk.core.auth.gssapi import GssapiServer
from pk.core.auth.jaas import Login
from pk.core.auth.kerberos_login import KerberosLogin
from pk.core.auth.kerberos_names import short_name
from pk.core.auth.oauthbearer import OAuthBearerServer, ValidToken
from pk.core.auth.plain import PlainServer
from pk.core.auth.sasl import GSSAPI, OAUTHBEARER, PLAIN, ServerExchange
from pk.core.auth.sasl_config import (
    enabled_mechanisms,
    kerberos_login,
    login_of,
    short_name_rules,
)
from pk.core.auth.scram import (
    ITERATIONS_MIN,
    CredentialParameters,
    Mechanism,
    ScramCredential,
    ScramServer,
    TokenLogin,
    unknown_user_credential,
    usual_parameters,
)
from pk.core.broker.broker import Broker
from pk.core.config import ConfigError
from pk.core.config.listener_keys import listener_value
from pk.net.kerberos import Context, KerberosUnavailable, accepting, default_realm

NONCE_BYTES: Final = 24


class ScramUsers:
    """The SCRAM users and delegation tokens in the broker's image."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._secret = secrets.token_bytes(32)
        self._shaped: object = None
        self._shapes: dict[Mechanism, CredentialParameters] = {}

    def find(self, user: str, mechanism: Mechanism) -> ScramCredential | None:
        """Return the credential of a user; None if there is none."""
        return self._broker.image.scram.get((user, mechanism))

    def find_token(self, token_id: str, mechanism: Mechanism) -> TokenLogin | None:
        """Return the login of a delegation token; None if there is none, or if it has expired."""
        secret = self._broker.config.delegation_token_secret_key
        token = self._broker.image.tokens.get(token_id)
        if not secret or token is None or token.is_expired(self._broker.clock.now_ms()):
            return None
        return token_secret(secret).login(token, mechanism)

    def shape(self, mechanism: Mechanism) -> CredentialParameters:
        """Return the shape of most credentials. It is computed again after users have changed."""
        scram = self._broker.image.scram
        if self._shaped is not scram:
            self._shaped, self._shapes = scram, {}
        shape = self._shapes.get(mechanism)
        if shape is None:
            known = (credential for (_, one), credential in scram.items() if one == mechanism)
            shape = self._shapes[mechanism] = usual_parameters(known)
        return shape

    @property
    def secret(self) -> bytes:
        """The secret for the salts of unknown users: the cluster's, or one of this process while
        there are no users."""
        return self._broker.image.strangers_secret or self._secret


class ListenerMechanisms:
    """`sasl_server.Mechanisms` of one listener, with its keys and the users that the cluster has
    when a client connects."""

    def __init__(
        self,
        broker: Broker,
        listener: str,
        users: ScramUsers,
        validate: Callable[[str], ValidToken],
    ) -> None:
        """Initialize the mechanisms. `validate` checks OAUTHBEARER tokens."""
        self._broker = broker
        self._config = broker.config
        self._listener = listener
        self._users = users
        self._validate = validate

    @property
    def names(self) -> tuple[str, ...]:
        """See `sasl_server.Mechanisms`."""
        return enabled_mechanisms(self._config, self._listener)

    def begin(self, name: str) -> ServerExchange:
        """See `sasl_server.Mechanisms`."""
        if name == OAUTHBEARER:
            return OAuthBearerServer(self._validate)
        if name == GSSAPI:
            context = _accept(kerberos_login(self._config, self._listener))
            return GssapiServer(context, self._short_name)
        login = login_of(self._config, self._listener, name)
        if name == PLAIN:
            return PlainServer(login.plain_users if login is not None else {})
        mechanism = Mechanism.named(name)

        def find(user: str) -> ScramCredential | None:
            return self._users.find(user, mechanism) or _of_login(login, mechanism, user)

        def unknown_user(user: str) -> ScramCredential:
            return unknown_user_credential(
                mechanism, user, self._users.secret, self._users.shape(mechanism)
            )

        def find_token(token_id: str) -> TokenLogin | None:
            return self._users.find_token(token_id, mechanism)

        return ScramServer(
            mechanism, find, unknown_user, secrets.token_urlsafe(NONCE_BYTES), find_token
        )

    def _short_name(self, principal: str) -> str:
        rules = short_name_rules(self._config, self._listener)
        return short_name(rules, principal, default_realm())

    def session_ms_max(self, name: str) -> int:
        """See `sasl_server.Mechanisms`."""
        value = listener_value(self._config, self._listener, "connections.max.reauth.ms", name)
        return cast(int, value)

    def now_ms(self) -> int:
        """See `sasl_server.Mechanisms`."""
        return self._broker.clock.now_ms()


@lru_cache(maxsize=64)
def _own_credential(mechanism: Mechanism, username: str, password: str) -> ScramCredential:
    salt = sha256(f"{mechanism.sasl_name}\0{username}\0".encode() + password.encode()).digest()
    return ScramCredential.of_password(mechanism, password, salt, ITERATIONS_MIN)


def _of_login(login: Login | None, mechanism: Mechanism, user: str) -> ScramCredential | None:
    """Return the credential of the brokers' own user, with which brokers log in to each other
    before the metadata has any users."""
    if login is None or login.password is None or login.username != user:
        return None
    return _own_credential(mechanism, user, login.password)


def _accept(login: KerberosLogin) -> Context:
    try:
        return accepting(login)
    except KerberosUnavailable as e:
        raise ConfigError(str(e)) from None
