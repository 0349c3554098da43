"""`ssl.principal.mapping.rules`: the name of a principal from the subject of its certificate
(KIP-371).

Rules are tried in order, `RULE:PATTERN/REPLACEMENT/` with `L` or `U` behind it for lower or upper
case; `DEFAULT` is the subject as it is. A pattern must match the whole subject; `$1` in the
replacement is its first group.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from pk.core.lazy_dataclass import dataclass

_RULE: Final = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)"
)
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")


class RuleError(ValueError):
    """Rules that are none."""


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    replacement: str
    case: str

    def apply(self, subject: str) -> str | None:
        match = self.pattern.fullmatch(subject)
        if match is None:
            return None
        try:
            name = _REFERENCE.sub(lambda m: m[1] or match[int(m[2])] or "", self.replacement)
        except IndexError as e:
            raise RuleError(f"{self.replacement!r} names a group that its rule lacks") from e
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


@lru_cache(maxsize=32)
def _rules(text: str) -> tuple[_Rule | None, ...]:
    found: list[_Rule | None] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or match.end() == position:
            raise RuleError(f"Invalid rule: {text[position:][:80]!r}")
        position = match.end()
        if match[1]:
            found.append(None)
            continue
        try:
            pattern = re.compile(match[2].replace("\\/", "/"))
        except re.error as e:
            raise RuleError(f"Invalid rule: {match[2]!r}: {e}") from e
        found.append(_Rule(pattern, match[3].replace("\\/", "/"), match[4]))
    return tuple(found) or (None,)


def check_rules(text: str) -> None:
    """Raises RuleError."""
    _rules(text)


def mapped_name(rules: str, subject: str) -> str:
    """The principal's name for a subject. Raises RuleError where no rule fits."""
    for rule in _rules(rules):
        name = subject if rule is None else rule.apply(subject)
        if name is not None:
            return name
    raise RuleError(f"No rules apply to {subject}, rules {rules}")
