"""The credentials with which a node or a client authenticates to Kerberos, from the options of
Java's Krb5LoginModule.

A keytab contains the keys of a principal; a ticket cache contains the tickets that `kinit`
obtained. Servers need a keytab. Options for Java's own behavior (`storeKey`, `doNotPrompt`, `debug`
…) have no effect here: pk never prompts, and reads keys when it needs them.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pk.core.auth.jaas import KERBEROS_LOGIN, JaasError, Login, parse_jaas

_JAVAS: Final = frozenset(
    {"storekey", "donotprompt", "debug", "isinitiator", "refreshkrb5config", "renewtgt"}
)
_OPTIONS: Final = frozenset(
    {"usekeytab", "keytab", "principal", "useticketcache", "ticketcache", "servicename"}
)


class KerberosLogin(Struct, frozen=True):
    """The locations of a login's credentials."""

    principal: str | None
    keytab: str | None
    """The keytab file, or None to use a ticket cache."""
    ticket_cache: str | None
    """The ticket cache file, or None for the default cache."""
    service_name: str | None

    @staticmethod
    def parse(text: str) -> KerberosLogin:
        """Parse a `sasl.jaas.config`. Raises JaasError."""
        return KerberosLogin.of(parse_jaas(text))

    @staticmethod
    def of(login: Login) -> KerberosLogin:
        """Parse the options of a login. Raises JaasError."""
        if login.module != KERBEROS_LOGIN:
            raise JaasError(f"the login module of GSSAPI must be {KERBEROS_LOGIN}")
        options = {key.lower(): value for key, value in login.options.items()}
        unknown = [key for key in login.options if key.lower() not in _JAVAS | _OPTIONS]
        if unknown:
            raise JaasError(f"pk does not support the option {unknown[0]} of Krb5LoginModule")
        by_keytab = options.get("usekeytab", "false").lower() == "true"
        by_cache = options.get("useticketcache", "false").lower() == "true"
        keytab, principal = options.get("keytab"), options.get("principal")
        if by_keytab and not (keytab and principal):
            raise JaasError("useKeyTab=true needs keyTab and principal")
        if not by_keytab and not by_cache:
            raise JaasError("GSSAPI needs useKeyTab=true or useTicketCache=true: pk never prompts")
        return KerberosLogin(
            principal=principal,
            keytab=_path(keytab) if by_keytab and keytab else None,
            ticket_cache=_path(options["ticketcache"]) if "ticketcache" in options else None,
            service_name=options.get("servicename"),
        )

    def service(self, given: str | None) -> str:
        """Return the Kerberos service name of the brokers, from the login or
        `sasl.kerberos.service.name`. Raises JaasError if there is none, or they differ."""
        if self.service_name and given and self.service_name != given:
            raise JaasError(
                "Conflicting serviceName values found in JAAS and Kafka configs: value in JAAS"
                f" {self.service_name}, value in Kafka config {given}"
            )
        name = self.service_name or given
        if not name:
            raise JaasError(
                "No serviceName defined in either JAAS or Kafka config: set"
                " sasl.kerberos.service.name, usually to kafka"
            )
        return name


def _path(text: str) -> str:
    """Return a file's path without the prefix FILE:, which Java allows."""
    return text.removeprefix("FILE:")
