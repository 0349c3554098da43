"""`sasl.jaas.config`: a login in Java's notation, `CLASS required KEY="VALUE" … ;`.

Nothing of the text is quoted in an error: it holds passwords.
"""

from __future__ import annotations

import re
from typing import Final

from pk.core.lazy_dataclass import dataclass

PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_LOGIN: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS_LOGIN: Final = "com.sun.security.auth.module.Krb5LoginModule"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_TOKEN: Final = re.compile(
    r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([^\s"'=;]+)|([=;]))"""
)
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasError(ValueError):
    """A text that is no login; the message quotes nothing of it."""


@dataclass(frozen=True, slots=True, repr=False)
class Login:
    """One login module with its options, which are secret."""

    module: str
    options: dict[str, str]

    @property
    def username(self) -> str | None:
        """Who logs in with it as a client."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password of `username`."""
        return self.options.get("password")

    @property
    def plain_users(self) -> dict[str, str]:
        """The users whom PLAIN's server lets in, from `user_NAME="PASSWORD"`."""
        return {
            key.removeprefix("user_"): password
            for key, password in self.options.items()
            if key.startswith("user_")
        }


def parse_jaas(text: str) -> Login:
    """The login that `text` says. Raises JaasError."""
    tokens = _tokens(text)
    if len(tokens) < 3:
        raise JaasError('a login is CLASS required KEY="VALUE" … ;')
    (module, _), (flag, _), *rest = tokens
    if flag.lower() not in FLAGS:
        raise JaasError("Invalid login module control flag in the JAAS config: use required")
    options: dict[str, str] = {}
    position = 0
    while position < len(rest) and rest[position] != (";", True):
        chunk = rest[position : position + 3]
        if len(chunk) < 3 or chunk[0][1] or chunk[1] != ("=", True) or chunk[2][1]:
            raise JaasError("Value not specified for a key, or no ; at the end of the JAAS config")
        options[chunk[0][0]] = chunk[2][0]
        position += 3
    if position == len(rest):
        raise JaasError("JAAS config entry not terminated by semi-colon")
    if position + 1 < len(rest):
        raise JaasError(
            "JAAS config property contains more than 1 login module, should be 1 module"
        )
    return Login(module, options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """The words of `text`, and whether each is a = or ; that stands for itself."""
    found: list[tuple[str, bool]] = []
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasError("a quotation mark without its partner in the JAAS config")
        double, single, word, sign = match.groups()
        quoted = double if double is not None else single
        if quoted is not None:
            found.append((_ESCAPE.sub(lambda m: _ESCAPED.get(m[1], m[1]), quoted), False))
        else:
            found.append((word or sign, sign is not None))
        position = match.end()
    return found
