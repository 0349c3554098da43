r"""`sasl.jaas.config`: a login in Java's notation, `CLASS required KEY="VALUE" … ;`.

The text is parsed as in Apache Kafka, with the rules of `java.io.StreamTokenizer`: `/* … */`, `//
…` and `/ …` are comments, a quoted value may contain escapes (`\n`, the octal `\101`), and a value
that is not quoted is a word of letters, digits and `_ $ . -`. A number is not a word: it needs
quotation marks.

Errors do not quote the text, because it contains passwords.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from pk.core.structs import repr_without

PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
OAUTH_LOGIN: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
KERBEROS_LOGIN: Final = "com.sun.security.auth.module.Krb5LoginModule"
FLAGS: Final = ("required", "requisite", "sufficient", "optional")

_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL: Final = "01234567"
_DIGITS: Final = "0123456789.-"
_WORD_PUNCTUATION: Final = "_$-"
_NUMBER: Final = re.compile(r"-?(?=[0-9.])[0-9]*\.?[0-9]*")


class JaasError(ValueError):
    """The text is not a login. The message does not quote it."""


class Login(Struct, frozen=True):
    """A login module with its options, which are secret."""

    module: str
    options: dict[str, str]

    def __repr__(self) -> str:
        return repr_without(self, "options")

    @property
    def username(self) -> str | None:
        """The user name for logging in as a client."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password for logging in as a client."""
        return self.options.get("password")

    @property
    def plain_users(self) -> dict[str, str]:
        """The passwords of the users that a PLAIN server accepts, from `user_NAME="PASSWORD"`."""
        return {
            key.removeprefix("user_"): password
            for key, password in self.options.items()
            if key.startswith("user_")
        }


def parse_jaas(text: str) -> Login:
    """Parse a login. Raises JaasError."""
    tokens = list(_tokens(text))
    if len(tokens) < 3:
        raise JaasError('a login must be CLASS required KEY="VALUE" … ;')
    module, flag, *rest = tokens
    if module.word is None:
        raise JaasError("a login must begin with the name of a class")
    if flag.word is None or flag.word.lower() not in FLAGS:
        raise JaasError("Invalid login module control flag in the JAAS config: use required")
    options: dict[str, str] = {}
    position = 0
    while position < len(rest) and rest[position].sign != ";":
        key, *after = rest[position : position + 3]
        if len(after) < 2 or key.word is None or after[0].sign != "=" or after[1].word is None:
            raise JaasError(
                "Value not specified for a key, or no ; at the end of the JAAS config. A value "
                "that is a number, or has other characters than letters, digits and _ $ . -, "
                "needs quotation marks"
            )
        options[key.word] = after[1].word
        position += 3
    if position == len(rest):
        raise JaasError("JAAS config entry not terminated by semi-colon")
    if position + 1 < len(rest):
        raise JaasError(
            "JAAS config property contains more than 1 login module, should be 1 module"
        )
    return Login(module.word, options)


class _Token(NamedTuple):
    """A word or quoted text, or a sign. A number has neither."""

    word: str | None = None
    sign: str | None = None


def _tokens(text: str) -> Iterator[_Token]:
    """Split `text` into the tokens that `java.io.StreamTokenizer` finds as configured in Kafka's
    JaasConfig."""
    position, end = 0, len(text)
    while position < end:
        char = text[position]
        if char <= " ":
            position += 1
        elif char == "/":
            position = _after_comment(text, position)
        elif char in "\"'":
            word, position = _quoted(text, position)
            yield _Token(word=word)
        elif number := _NUMBER.match(text, position):
            position = number.end()
            yield _Token()
        elif _is_alpha(char) and char != "-":
            start = position
            while position < end and (_is_alpha(text[position]) or text[position] in _DIGITS):
                position += 1
            yield _Token(word=text[start:position])
        else:
            position += 1
            yield _Token(sign=char)


def _is_alpha(char: str) -> bool:
    return (char.isascii() and char.isalpha()) or char in _WORD_PUNCTUATION or char >= "\xa0"


def _after_comment(text: str, position: int) -> int:
    """Return the end of the comment that begins at `position`."""
    if text.startswith("/*", position):
        end = text.find("*/", position + 2)
        return len(text) if end < 0 else end + 2
    # Java skips the character after a slash without checking it, even if it is a line end.
    position += 2
    while position < len(text) and text[position] not in "\r\n":
        position += 1
    return position


def _quoted(text: str, position: int) -> tuple[str, int]:
    """Return the quoted text that begins at `position`, and its end, which is at most the end of
    the line."""
    quote, found = text[position], list[str]()
    position += 1
    while position < len(text) and text[position] not in (quote, "\n", "\r"):
        char = text[position]
        position += 1
        if char == "\\":
            char, position = _escaped(text, position)
        found.append(char)
    return "".join(found), position + (text[position : position + 1] == quote)


def _escaped(text: str, position: int) -> tuple[str, int]:
    """Return the character that is escaped with a backslash, and the end of the escape."""
    char = text[position : position + 1]
    if not char:
        raise JaasError("a quotation mark is not closed in the JAAS config")
    if char not in _OCTAL:
        return _ESCAPED.get(char, char), position + 1
    # Three digits if the first is 0 to 3, otherwise two, so that the value fits into a byte.
    end = position + 1
    last = min(position + (3 if char <= "3" else 2), len(text))
    while end < last and text[end] in _OCTAL:
        end += 1
    return chr(int(text[position:end], 8)), end
