"""`sasl.kerberos.principal.to.local.rules`: the short name of a Kerberos principal
(`alice@EXAMPLE.COM`, `kafka/broker1@EXAMPLE.COM`).

Rules are tried in order. `DEFAULT` takes the first part of a name of the default realm.
`RULE:[N:FORMAT](PATTERN)s/FROM/TO/g` fits names of N parts: FORMAT makes a text of them (`$0` the
realm, `$1` and `$2` the parts), PATTERN must match all of it, and `s/FROM/TO/` replaces the first
match in it, with `g` every match. `/L` or `/U` at the end make it lower or upper case. Pattern and
replacement may be left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from pk.core.auth.principal_mapping import RuleError
from pk.core.lazy_dataclass import dataclass

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[(\d*):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU]?)"
)
_PARAMETER: Final = re.compile(r"\$(\d*)")
_REFERENCE: Final = re.compile(r"\\(.)|\$(\d+)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")


class KerberosName(NamedTuple):
    """The parts of a principal's name."""

    first: str
    instance: str | None
    """`broker1` of `kafka/broker1@EXAMPLE.COM`."""
    realm: str | None

    @staticmethod
    def parse(text: str) -> KerberosName:
        """Raises RuleError."""
        match = _NAME.fullmatch(text)
        if match is None:
            if "@" in text:
                raise RuleError(f"Malformed Kerberos name: {text[:200]!r}")
            return KerberosName(text, None, None)
        return KerberosName(match[1], match[2], match[3])


@dataclass(frozen=True, slots=True)
class _Rule:
    parts: int
    form: str
    pattern: re.Pattern[str] | None
    replaced: re.Pattern[str] | None
    replacement: str
    every: bool
    case: str

    def apply(self, values: Sequence[str]) -> str | None:
        """`values` are the realm and the parts. Raises RuleError."""
        if len(values) - 1 != self.parts:
            return None

        def value(match: re.Match[str]) -> str:
            if not match[1] or int(match[1]) >= len(values):
                raise RuleError(f"the format {self.form!r} names a part that a name lacks")
            return values[int(match[1])]

        text = _PARAMETER.sub(value, self.form)
        if self.pattern is not None and not self.pattern.fullmatch(text):
            return None
        if self.replaced is not None:
            text = self.replaced.sub(self._replace, text, count=0 if self.every else 1)
        if _NOT_SIMPLE.search(text):
            raise RuleError(f"Non-simple name {text!r} after a rule of auth_to_local")
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)

    def _replace(self, match: re.Match[str]) -> str:
        try:
            return _REFERENCE.sub(lambda m: m[1] or match[int(m[2])] or "", self.replacement)
        except IndexError as e:
            raise RuleError(f"{self.replacement!r} names a group that its rule lacks") from e


@lru_cache(maxsize=32)
def _rules(texts: tuple[str, ...]) -> tuple[_Rule | None, ...]:
    return tuple(map(_rule, texts))


def _rule(text: str) -> _Rule | None:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise RuleError(f"Invalid rule: {text[:80]!r}")
    if match[1]:
        return None
    try:
        return _Rule(
            parts=int(match[2] or 0),
            form=match[3],
            pattern=None if match[4] is None else re.compile(match[4]),
            replaced=None if match[5] is None else re.compile(match[5]),
            replacement=match[6] or "",
            every=bool(match[7]),
            case=match[8],
        )
    except re.error as e:
        raise RuleError(f"Invalid rule: {text[:80]!r}: {e}") from e


def check_short_name_rules(rules: Sequence[str]) -> None:
    """Raises RuleError."""
    _rules(tuple(rules))


def short_name(rules: Sequence[str], principal: str, default_realm: str) -> str:
    """The short name of a principal. Raises RuleError where no rule fits, or the name is none."""
    name = KerberosName.parse(principal)
    if name.realm is None:
        return name.first
    values = [name.realm, name.first, *([] if name.instance is None else [name.instance])]
    for rule in _rules(tuple(rules)):
        if rule is not None:
            found = rule.apply(values)
        else:
            found = name.first if name.realm == default_realm else None
        if found:
            return found
    raise RuleError(f"No rules apply to {principal}, rules {', '.join(rules)}")
