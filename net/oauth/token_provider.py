"""Gets tokens from a function of the program, or from a command: `sasl.oauthbearer.token.provider`.

Cloud providers such as AWS MSK IAM and Azure have libraries or commands that sign tokens in their
own way. The client calls the function or command when it needs a token, and again before the token
expires.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
from collections.abc import Callable
from typing import Any, Final, NamedTuple, cast

_FUNCTION: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_COMMAND_MAX_S: Final = 30.0


class AccessToken(NamedTuple):
    """A token that a provider returns."""

    token: str
    expires_in_s: float | None = None
    """How long the token is valid from now on; None if the token itself says so (the claim `exp` of
    a JWT). A token without an expiry is used for one login."""

    extensions: tuple[tuple[str, str], ...] = ()
    """The names and values to send with the token (KIP-342)."""


TokenProvider = Callable[[], "AccessToken | str"]
"""Returns a token. A provider is called in a thread of its own, and may block."""


class ProviderFailed(Exception):
    """A provider raised an error, or returned no token."""


def ask(provider: TokenProvider | str) -> AccessToken:
    """Return a token from a provider, or from a provider given as text: `module:function`, or a
    command that prints the token or JSON with `access_token` and `expires_in`. Raises
    ProviderFailed."""
    try:
        found: object = _of_text(provider) if isinstance(provider, str) else provider()
    except ProviderFailed:
        raise
    except Exception as e:
        raise ProviderFailed(f"it raised {type(e).__name__}: {e}") from e
    if isinstance(found, str):
        found = AccessToken(found.strip())
    if not isinstance(found, AccessToken) or not found.token:
        raise ProviderFailed(f"it returned {type(found).__name__}, not a token")
    return found


def check(provider: object) -> str | None:
    """Return the error in a provider given as text, or None. A function's module is not imported
    yet."""
    if not isinstance(provider, str):
        return None
    if _FUNCTION.fullmatch(provider):
        return None
    try:
        words = shlex.split(provider)
    except ValueError as e:
        return f"is neither module:function nor a command: {e}"
    return None if words else "must be module:function or a command"


def _of_text(text: str) -> object:
    if _FUNCTION.fullmatch(text):
        module, _, name = text.partition(":")
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        return found()
    return _of_command(shlex.split(text))


def _of_command(words: list[str]) -> AccessToken:
    try:
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_MAX_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as e:
        raise ProviderFailed(f"{words[0]}: {e}") from None
    if ran.returncode:
        said = ran.stderr.strip().splitlines()
        why = said[-1] if said else f"exit code {ran.returncode}"
        raise ProviderFailed(f"{words[0]}: {why}")
    printed = ran.stdout.strip()
    if not printed.startswith("{"):
        return AccessToken(printed)
    try:
        answer = cast("dict[str, Any]", json.loads(printed))
        token, life = answer["access_token"], answer.get("expires_in")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ProviderFailed(f"{words[0]} printed JSON without access_token") from None
    if not isinstance(token, str):
        raise ProviderFailed(f"{words[0]}: access_token is not a string")
    return AccessToken(token, float(life) if isinstance(life, int | float) else None)
