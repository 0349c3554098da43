"""Kerberos contexts for the logins of `core/auth/gssapi.py`, by the Python library gssapi on the
system's library (MIT's or Heimdal's).

A login by keytab needs no `kinit`: the library fetches tickets when they are needed, keeps them in
this process's memory, and renews them before they expire. A ticket cache is renewed by its owner.
"""

from __future__ import annotations

import importlib
import os
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

from pk.core.auth.gssapi import GssFailed
from pk.core.auth.kerberos_login import KerberosLogin

MISSING: Final = "GSSAPI needs the library gssapi: pip install 'pk-client[kerberos]'"


class KerberosUnavailable(Exception):
    """Kerberos cannot be used as configured: the library, a key or a ticket is missing."""


def library() -> Any:
    """Return the Python library gssapi. Raises KerberosUnavailable, which says what to install."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError):
        raise KerberosUnavailable(MISSING) from None


class Context:
    """A `GssContext` that the library implements."""

    def __init__(self, context: Any, error: type[Exception]) -> None:
        self._context = context
        self._error = error

    @property
    def complete(self) -> bool:
        """See `GssContext`."""
        return bool(self._context.complete)

    @property
    def initiator(self) -> str:
        """See `GssContext`."""
        try:
            return str(self._context.initiator_name)
        except self._error as e:
            raise GssFailed(_error_text(e)) from e

    def step(self, token: bytes) -> bytes:
        """See `GssContext`."""
        try:
            return bytes(self._context.step(token or None) or b"")
        except self._error as e:
            raise GssFailed(_error_text(e)) from e

    def wrap(self, data: bytes) -> bytes:
        """See `GssContext`."""
        try:
            return bytes(self._context.wrap(data, False).message)
        except self._error as e:
            raise GssFailed(_error_text(e)) from e

    def unwrap(self, data: bytes) -> bytes:
        """See `GssContext`."""
        try:
            return bytes(self._context.unwrap(data).message)
        except self._error as e:
            raise GssFailed(_error_text(e)) from e


def accepting(login: KerberosLogin) -> Context:
    """Return the server side of a new context. Raises KerberosUnavailable."""
    gssapi = library()
    credentials = _accept_credentials(login.principal or "", login.keytab or "")
    context = gssapi.SecurityContext(creds=credentials, usage="accept")
    return Context(context, gssapi.exceptions.GSSError)


def initiating(login: KerberosLogin, service: str, host: str) -> Context:
    """Return the client side of a new context with the brokers' service on a host. Sends requests
    to the KDC, and so blocks. Raises KerberosUnavailable."""
    gssapi = library()
    try:
        name = None
        if login.principal is not None:
            name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        credentials = gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=_store(login)
        )
        flags = gssapi.RequirementFlag
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service),
            creds=credentials,
            mech=gssapi.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity | flags.out_of_sequence_detection,
            usage="initiate",
        )
    except gssapi.exceptions.GSSError as e:
        raise KerberosUnavailable(f"no Kerberos ticket: {_error_text(e)}") from e
    return Context(context, gssapi.exceptions.GSSError)


@lru_cache(maxsize=1)
def default_realm() -> str:
    """Return the default realm of krb5.conf; "" if there is none. Raises KerberosUnavailable."""
    gssapi = library()
    try:
        name = gssapi.Name("x", gssapi.NameType.user).canonicalize(gssapi.MechType.kerberos)
    except gssapi.exceptions.GSSError:
        return ""
    return str(name).rpartition("@")[2]


@lru_cache(maxsize=32)
def _accept_credentials(principal: str, keytab: str) -> Any:
    """Return a server's credentials. The keytab is read again for each context."""
    gssapi = library()
    if not os.access(keytab, os.R_OK):
        raise KerberosUnavailable(f"the keytab {keytab} cannot be read")
    try:
        return gssapi.Credentials(
            name=gssapi.Name(principal, gssapi.NameType.kerberos_principal),
            usage="accept",
            mechs=[gssapi.MechType.kerberos],
            store={"keytab": f"FILE:{keytab}"},
        )
    except gssapi.exceptions.GSSError as e:
        raise KerberosUnavailable(f"no key of {principal} in {keytab}: {_error_text(e)}") from e


def _store(login: KerberosLogin) -> dict[str, str] | None:
    if login.keytab is not None:
        # One cache per login, so that all clients of a process share its tickets.
        name = sha256(f"{login.principal}\0{login.keytab}".encode()).hexdigest()[:16]
        return {"client_keytab": f"FILE:{login.keytab}", "ccache": f"MEMORY:pk-{name}"}
    return None if login.ticket_cache is None else {"ccache": f"FILE:{login.ticket_cache}"}


def _error_text(error: Exception) -> str:
    """Return the library's message on one line: the message of Kerberos if there is one, else that
    of GSSAPI."""
    text = " ".join(str(error).split())
    detail = text.rpartition("Minor (")[2].partition("): ")[2]
    return detail or text
