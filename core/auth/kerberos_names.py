"""`sasl.kerberos.principal.to.local.rules`: the short name of a Kerberos principal
(`alice@EXAMPLE.COM`, `kafka/broker1@EXAMPLE.COM`).

Rules are tried in order. `DEFAULT` takes the first part of a name in the default realm.
`RULE:[N:FORMAT](PATTERN)s/FROM/TO/g` applies to names of N parts: FORMAT builds a text from them
(`$0` is the realm, `$1` and `$2` the parts), PATTERN must match all of it, and `s/FROM/TO/`
replaces the first match in it, with `g` every match. `/L` or `/U` at the end converts it to lower
or upper case. Pattern and replacement are optional. The patterns are Java's (`core/java_regex.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from pk.core.auth.principal_mapping import RuleError
from pk.core.java_regex import JavaRegex, JavaRegexError, Replacement

_NAME: Final = re.compile(r"([^/@]*)(?:/([^/@]*))?@([^/@]*)")
_RULE: Final = re.compile(
    r"(DEFAULT)|RULE:\[([0-9]{1,9}):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?/?([LU]?)"
)
_PARAMETER: Final = re.compile(r"\$([0-9]*)")
_NOT_SIMPLE: Final = re.compile(r"[/@]")


class KerberosName(NamedTuple):
    """The parts of a principal's name."""

    first: str
    instance: str | None
    """The second part, such as `broker1` in `kafka/broker1@EXAMPLE.COM`."""
    realm: str | None

    @staticmethod
    def parse(text: str) -> KerberosName:
        """Parse a name. Raises RuleError."""
        match = _NAME.fullmatch(text)
        if match is None:
            if "@" in text:
                raise RuleError(f"Malformed Kerberos name: {text[:200]!r}")
            return KerberosName(text, None, None)
        return KerberosName(match[1], match[2], match[3])


class _Rule(Struct, frozen=True):
    parts: int
    form: str
    pattern: JavaRegex | None
    replaced: JavaRegex | None
    replacement: Replacement
    every: bool
    case: str

    def apply(self, values: Sequence[str]) -> str | None:
        """Return the short name, or None if the rule does not apply. `values` are the realm and the
        parts. Raises RuleError if the result is not a short name."""
        if len(values) - 1 != self.parts:
            return None

        text = _PARAMETER.sub(lambda match: values[int(match[1])], self.form)
        if self.pattern is not None and not self.pattern.matches(text):
            return None
        if self.replaced is not None:
            text = self.replaced.replace(text, self.replacement, every=self.every)
        if _NOT_SIMPLE.search(text):
            raise RuleError(f"Non-simple name {text!r} after a rule of auth_to_local")
        return {"L": text.lower(), "U": text.upper()}.get(self.case, text)


@lru_cache(maxsize=32)
def _rules(texts: tuple[str, ...]) -> tuple[_Rule | None, ...]:
    return tuple(map(_rule, texts))


def _rule(text: str) -> _Rule | None:
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise RuleError(f"Invalid rule: {text[:80]!r}")
    if match[1]:
        return None
    parts = int(match[2])
    if any(not one or int(one) > parts for one in _PARAMETER.findall(match[3])):
        raise RuleError(f"Invalid rule: {text[:80]!r}: it names a part that a name lacks")
    try:
        replaced = None if match[5] is None else JavaRegex(match[5])
        return _Rule(
            parts=parts,
            form=match[3],
            pattern=None if match[4] is None else JavaRegex(match[4]),
            replaced=replaced,
            replacement=Replacement(()) if replaced is None else replaced.replacement(match[6]),
            every=bool(match[7]),
            case=match[8],
        )
    except JavaRegexError as e:
        raise RuleError(f"Invalid rule: {text[:80]!r}: {e}") from None


def check_short_name_rules(rules: Sequence[str]) -> None:
    """Raise RuleError if rules are invalid."""
    _rules(tuple(rules))


def short_name(rules: Sequence[str], principal: str, default_realm: str) -> str:
    """Return the short name of a principal. Raises RuleError if no rule applies, or the name is
    invalid."""
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
