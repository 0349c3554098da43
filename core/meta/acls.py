"""A controller's decisions about ACLs. Pure: (image, request) → `Decision` of events and a
reply."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from pk.core.auth.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import AclCreated, AclDeleted, Event
from pk.core.meta.image import MetadataImage

CHANGES_MAX: Final = 10_000
"""The maximum number of rules that one request may create or delete, as in Apache Kafka."""

_TOO_MANY: Final = "Unable to perform excessively large batch operation."

_E = TypeVar("_E", ResourceType, PatternType, Operation, Permission)


def create_acls(
    image: MetadataImage, rules: Sequence[AclBinding | KafkaError]
) -> Decision[Event, list[KafkaError | None]]:
    """Create rules. The reply has an error or None for each. A rule that exists already is not an
    error. A KafkaError in `rules` is the error of that entry.

    Raises KafkaError(POLICY_VIOLATION) if there are more than `CHANGES_MAX`.
    """
    if len(rules) > CHANGES_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    errors: list[KafkaError | None] = []
    new: dict[AclBinding, None] = {}
    for rule in rules:
        error = rule if isinstance(rule, KafkaError) else acl_error(rule)
        errors.append(error)
        if error is None and isinstance(rule, AclBinding) and rule not in image.acls:
            new[rule] = None
    return Decision([AclCreated(*rule) for rule in new], reply=errors)


def acl_error(rule: AclBinding) -> KafkaError | None:
    """Return the reason that a rule cannot be created, in Apache's words, or None."""
    resource_type = _known(ResourceType, rule.resource_type)
    pattern_type = _known(PatternType, rule.pattern_type)
    operation, permission = _known(Operation, rule.operation), _known(Permission, rule.permission)
    why: str | None = None
    if resource_type == ResourceType.CLUSTER and rule.resource_name != CLUSTER_NAME:
        why = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    elif not rule.resource_name:
        why = "Invalid empty resource name"
    elif resource_type <= ResourceType.ANY:
        why = f"Invalid resourceType {resource_type.name}"
    elif pattern_type <= PatternType.MATCH:
        why = f"Invalid patternType {pattern_type.name}"
    elif operation <= Operation.ANY:
        why = f"Invalid operation {operation.name}"
    elif permission <= Permission.ANY:
        why = f"Invalid permissionType {permission.name}"
    elif ":" not in rule.principal:
        why = (
            f"Could not parse principal from `{rule.principal}` (no colon is present separating "
            "the principal type from the principal name)"
        )
    return KafkaError(ErrorCode.INVALID_REQUEST, why) if why is not None else None


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> Decision[Event, list[KafkaError | list[AclBinding]]]:
    """Delete the rules that filters match. The reply has, for each filter, the rules that it
    matches or a KafkaError. A rule that two filters match is in both entries.

    Raises KafkaError(POLICY_VIOLATION) if more than `CHANGES_MAX` would be deleted.
    """
    found: list[KafkaError | list[AclBinding]] = []
    gone: dict[AclBinding, None] = {}
    for wanted in filters:
        if (error := filter_error(wanted)) is not None:
            found.append(error)
            continue
        selected = image.acls.selected(wanted)
        found.append(selected)
        gone.update(dict.fromkeys(selected))
        if len(gone) > CHANGES_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, _TOO_MANY)
    return Decision([AclDeleted(*rule) for rule in gone], reply=found)


def filter_error(wanted: AclFilter) -> KafkaError | None:
    """Return the reason to refuse a filter, or None."""
    unknown = None
    if not (
        _known(ResourceType, wanted.resource_type) and _known(PatternType, wanted.pattern_type)
    ):
        unknown = "Unknown patternFilter."
    elif not (_known(Operation, wanted.operation) and _known(Permission, wanted.permission)):
        unknown = "Unknown entryFilter."
    return KafkaError(ErrorCode.INVALID_REQUEST, unknown) if unknown is not None else None


def _known(kind: type[_E], code: int) -> _E:
    """Return the member of `kind` with this number, or UNKNOWN."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
