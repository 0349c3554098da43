"""ACLs (KIP-11, KIP-290): rules that allow or deny principals operations on resources.

`AclBinding` is one rule, `AclFilter` matches some of them, and `Acls` is the set of all rules of a
cluster. The numbers of the enumerations are those of the protocol (CreateAcls, DescribeAcls,
DeleteAcls).

`Acls` is an index, because a broker with ten thousand rules uses it for each request. The rules of
a resource are found by its name, by each length that a prefix has, and by the wildcard `*`, and
those of a principal among them. `Acls` is immutable; `changed` copies only the dictionaries that
its rules touch, so old images of the cluster stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, cast

from msgspec import Struct, field

from pk.core.needs import Operation, ResourceType
from pk.core.structs import repr_without

WILDCARD: Final = "*"
"""The name that stands for every resource in a literal pattern, and for every host in a rule."""

WILDCARD_PRINCIPAL: Final = "User:*"
"""The principal of rules that apply to every principal."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""


class PatternType(IntEnum):
    """How the name in a rule or a filter matches names of resources (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether a rule denies or allows."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """A rule: its resources, and the principal, host and operation that it allows or denies."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    """The principal as `TYPE:NAME`, such as `User:alice`."""
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        permission = Permission(self.permission).name
        operation, pattern = Operation(self.operation).name, PatternType(self.pattern_type).name
        resource = f"{ResourceType(self.resource_type).name}:{pattern}:{self.resource_name}"
        return f"{permission} {self.principal} {operation} {resource} from {self.host}"


class AclFilter(NamedTuple):
    """A filter for rules. None, and ANY for a number, match everything. The pattern type MATCH
    matches the rules that apply to the resource of that name, literally, by prefix or by
    wildcard."""

    resource_type: int = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, rule: AclBinding) -> bool:
        """Whether the filter matches `rule`."""
        return (
            self.resource_type in (ResourceType.ANY, rule.resource_type)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
            and (self.principal is None or self.principal == rule.principal)
            and (self.host is None or self.host == rule.host)
            and self._matches_name(rule)
        )

    def _matches_name(self, rule: AclBinding) -> bool:
        wanted = self.pattern_type
        if wanted not in (PatternType.ANY, PatternType.MATCH, rule.pattern_type):
            return False
        name = self.resource_name
        if name is None or name == rule.resource_name:
            return True
        if wanted != PatternType.MATCH:
            return False
        if rule.pattern_type == PatternType.PREFIXED:
            return name.startswith(rule.resource_name)
        return rule.resource_name == WILDCARD

    @property
    def selects_one(self) -> bool:
        """Whether the filter specifies every field of a rule."""
        return (
            None not in (self.resource_name, self.principal, self.host)
            and self.resource_type > ResourceType.ANY
            and self.pattern_type > PatternType.MATCH
            and self.operation > Operation.ANY
            and self.permission > Permission.ANY
        )


Entry = tuple[int, int, str]
"""The remaining fields of a rule, which is stored under its resource and principal: operation,
permission, host."""

Entries = Mapping[str, tuple[Entry, ...]]
"""The rules of one pattern, by principal."""


class Patterns(Struct, frozen=True):
    """The rules of one resource type, by pattern."""

    literal: Mapping[str, Entries] = field(default_factory=dict[str, Entries])
    prefixed: Mapping[str, Entries] = field(default_factory=dict[str, Entries])
    lengths: tuple[int, ...] = ()
    """The distinct lengths of the prefixes in characters, in ascending order."""


_NO_PATTERNS: Final = Patterns()


class Acls(Struct, frozen=True):
    """All rules of a cluster."""

    rules: Mapping[AclBinding, None] = field(default_factory=dict[AclBinding, None])
    """The rules, in order of creation."""
    by_type: Mapping[int, Patterns] = field(default_factory=dict[int, Patterns])
    """The rules by resource type, for `about` and `of_type`."""

    def __repr__(self) -> str:
        return repr_without(self, "by_type")

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self.rules)

    def __contains__(self, rule: object) -> bool:
        return rule in self.rules

    def matching(self, resource_type: int, name: str) -> Iterator[tuple[str, int, Entries]]:
        """Yield the rules whose pattern matches a resource, as (name of the pattern, its type, the
        rules by principal). Exact matches come first, then prefixes, the longest first, then the
        wildcard."""
        patterns = self.by_type.get(resource_type)
        if patterns is None:
            return
        found = patterns.literal.get(name)
        if found is not None:
            yield name, PatternType.LITERAL, found
        prefixed, length_max = patterns.prefixed, len(name)
        for length in reversed(patterns.lengths):
            if length <= length_max:
                prefix = name[:length]
                found = prefixed.get(prefix)
                if found is not None:
                    yield prefix, PatternType.PREFIXED, found
        if name != WILDCARD:
            found = patterns.literal.get(WILDCARD)
            if found is not None:
                yield WILDCARD, PatternType.LITERAL, found

    def of_type(self, resource_type: int) -> Iterator[tuple[str, int, Entries]]:
        """Yield the rules of a resource type, as (name of the pattern, its type, the rules by
        principal)."""
        patterns = self.by_type.get(resource_type, _NO_PATTERNS)
        for name, found in patterns.literal.items():
            yield name, PatternType.LITERAL, found
        for name, found in patterns.prefixed.items():
            yield name, PatternType.PREFIXED, found

    def selected(self, wanted: AclFilter) -> list[AclBinding]:
        """Return the rules that a filter matches."""
        if wanted.selects_one:
            only = AclBinding(*wanted)  # type: ignore[arg-type]  # all its fields are given
            return [only] if only in self.rules else []
        return [rule for rule in self.rules if wanted.matches(rule)]

    def changed(self, added: Iterable[AclBinding], removed: Iterable[AclBinding]) -> Acls:
        """Return these rules without `removed` and with `added`. Removing a missing rule and adding
        an existing one change nothing."""
        edit = AclsEdit(self)
        for rule in removed:
            edit.remove(rule)
        for rule in added:
            edit.add(rule)
        return edit.finish()


class AclsEdit:
    """Rules that are being changed. A dictionary is copied before the first write to it."""

    def __init__(self, acls: Acls) -> None:
        self._acls = acls
        self.rules = dict(acls.rules)
        self._names: dict[tuple[int, int], dict[str, Entries]] = {}
        self._own: dict[tuple[int, int, str], dict[str, Iterable[Entry]]] = {}

    def add(self, rule: AclBinding) -> None:
        """Add a rule, unless it exists."""
        if rule in self.rules:
            return
        self.rules[rule] = None
        own, entry = self._principals_of(rule), (rule.operation, rule.permission, rule.host)
        _entries_of(own, rule.principal)[entry] = None

    def remove(self, rule: AclBinding) -> None:
        """Remove a rule, if it exists."""
        if rule not in self.rules:
            return
        del self.rules[rule]
        own, entry = self._principals_of(rule), (rule.operation, rule.permission, rule.host)
        entries = _entries_of(own, rule.principal)
        del entries[entry]
        if not entries:
            del own[rule.principal]

    def finish(self) -> Acls:
        """Return the resulting rules. Call no other method after this one."""
        for (resource_type, pattern_type, name), own in self._own.items():
            names = self._names[resource_type, pattern_type]
            if own:
                names[name] = {principal: tuple(entries) for principal, entries in own.items()}
            else:
                names.pop(name, None)
        by_type = dict(self._acls.by_type)
        for resource_type in {resource_type for resource_type, _ in self._names}:
            old = by_type.get(resource_type, _NO_PATTERNS)
            literal = self._names.get((resource_type, PatternType.LITERAL), old.literal)
            prefixed = self._names.get((resource_type, PatternType.PREFIXED), old.prefixed)
            lengths = tuple(sorted({len(name) for name in prefixed}))
            if literal or prefixed:
                by_type[resource_type] = Patterns(literal, prefixed, lengths)
            else:
                by_type.pop(resource_type, None)
        return Acls(self.rules, by_type)

    def _principals_of(self, rule: AclBinding) -> dict[str, Iterable[Entry]]:
        key = (rule.resource_type, rule.pattern_type, rule.resource_name)
        own = self._own.get(key)
        if own is None:
            names = self._names_of(rule.resource_type, rule.pattern_type)
            own = self._own[key] = dict(names.get(rule.resource_name, {}))
        return own

    def _names_of(self, resource_type: int, pattern_type: int) -> dict[str, Entries]:
        names = self._names.get((resource_type, pattern_type))
        if names is None:
            patterns = self._acls.by_type.get(resource_type, _NO_PATTERNS)
            literal = pattern_type == PatternType.LITERAL
            names = dict(patterns.literal if literal else patterns.prefixed)
            self._names[resource_type, pattern_type] = names
        return names


def _entries_of(own: dict[str, Iterable[Entry]], principal: str) -> dict[Entry, None]:
    """Return a principal's entries for a change. They are in a dict, because a tuple of 10,000
    entries would be copied for each change."""
    entries = own.get(principal, ())
    if isinstance(entries, dict):
        return cast(dict[Entry, None], entries)
    own[principal] = changing = dict.fromkeys(entries)
    return changing


NO_ACLS: Final = Acls()
