"""Removes secrets from the texts of a bundle."""

import json
import re
from collections.abc import Iterable
from typing import Final

HIDDEN: Final = "[hidden]"

_SECRET: Final = r"pass(?:word|wd|phrase)|secret|token|hmac|credential|jaas|private|api[-_.]?key"

_SECRET_NAME: Final = re.compile(rf"(?i)({_SECRET}|keystore\.key)")

_LOGGED: Final = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|(?i:\b(?:bearer|basic) )[\w.~+/=-]{8,}"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    rf"|(?P<name>(?i:[\w.-]*(?:{_SECRET})[\w.-]*)[\"']?\s*[=:]\s*)"
    r"(?:(?P<quote>[\"'])(?:\\.|(?!(?P=quote)).)*(?P=quote)|[^\r\n]+)",
    re.DOTALL,
)


def is_secret(key: str, value: str | None) -> bool:
    """Whether the value of a config may be a secret. A number or a boolean is not one, as in
    `delegation.token.max.lifetime.ms`."""
    plain = value is None or value == "" or re.fullmatch(r"-?[\d.]+|true|false", value)
    return not plain and _SECRET_NAME.search(key) is not None


def scrubbed(log: str) -> str:
    """Remove everything from a log that looks like a secret. An unquoted value is removed up to the
    end of its line, since it may contain spaces."""

    def hidden(found: re.Match[str]) -> str:
        quote = found["quote"] or ""
        return f"{found['name'] or ''}{quote}{HIDDEN}{quote}"

    return _LOGGED.sub(hidden, log)


def without(text: str, secrets: Iterable[str]) -> str:
    """Remove these secrets from a text, also in the form that they have in JSON."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN).replace(json.dumps(secret)[1:-1], HIDDEN)
    return text
