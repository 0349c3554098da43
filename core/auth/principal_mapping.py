"""`ssl.principal.mapping.rules`: the name of a principal from the subject of its certificate
(KIP-371).

Rules are tried in order: `RULE:PATTERN/REPLACEMENT/`, with `L` or `U` after it for lower or upper
case; `DEFAULT` is the unchanged subject. A pattern is Java's (`core/java_regex.py`) and must match
the whole subject; then every match in it is replaced, so `.*` is replaced twice: the subject, and
the empty match at its end. `$1` in the replacement is the first group; the number of a missing
group is taken literally, if there are any groups.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

from pk.core.java_regex import JavaRegex, JavaRegexError, Replacement

PRINCIPAL_RULES: Final = "ssl.principal.mapping.rules"
_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_WHOLE_RULE: Final = re.compile(_RULE)
_NEXT_RULE: Final = re.compile(rf"[ \t-\r]*({_RULE}.*?|(.*?))[ \t-\r]*(,[ \t-\r]*|$)")
_REFERENCE: Final = re.compile(r"\$([0-9]{1,9})")


class RuleError(ValueError):
    """The rules are invalid."""


class _Rule(Struct, frozen=True):
    pattern: JavaRegex
    replacement: Replacement
    case: str

    def apply(self, subject: str) -> str | None:
        if not self.pattern.matches(subject):
            return None
        name = self.pattern.replace(subject, self.replacement, every=True)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


@lru_cache(maxsize=32)
def _rules(text: str) -> tuple[_Rule | None, ...]:
    found: list[_Rule | None] = []
    for rule in (match[1] for match in _NEXT_RULE.finditer(text.strip(" \t\n\r\f"))):
        match = _WHOLE_RULE.fullmatch(rule)
        if match is not None:
            found.append(None if match[1] else _rule(rule, *match.group(2, 3, 4)))
        elif rule:
            raise RuleError(f"Invalid rule: {rule[:80]!r}")
    if not found:
        raise RuleError("there is no rule, so no certificate would be accepted")
    return tuple(found)


def _rule(rule: str, pattern: str, replacement: str, case: str) -> _Rule:
    try:
        compiled = JavaRegex(pattern)
        replaces = compiled.replacement(_with_literals(replacement, compiled.groups))
    except JavaRegexError as e:
        raise RuleError(f"Invalid rule: {rule[:80]!r}: {e}") from None
    return _Rule(compiled, replaces, case)


def _with_literals(replacement: str, groups: int) -> str:
    """Return the replacement with a backslash before each `$NUMBER` without a group, if there are
    groups. As in Kafka, a second such `$NUMBER` is not found at its old position, and fails."""
    if not groups:
        return replacement
    text = replacement
    for match in _REFERENCE.finditer(replacement):
        number = int(match[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups and not match[1].startswith("0"):
            text = f"{text[: match.start()]}\\{text[match.start() :]}"
    return text


def check_rules(text: str) -> None:
    """Raise RuleError if rules are invalid."""
    _rules(text)


def mapped_name(rules: str, subject: str) -> str:
    """Return the principal's name for a subject. Raises RuleError if no rule applies."""
    for rule in _rules(rules):
        name = subject if rule is None else rule.apply(subject)
        if name is not None:
            return name
    raise RuleError(f"No rules apply to {subject}, rules {rules}")
