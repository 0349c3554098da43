"""Decisions about client quotas (KIP-546), and their description. Pure: (image, request) → events.

Errors, their order and their messages are those of Apache Kafka's ClientQuotaControlManager and
ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import isnan
from typing import Final

from pk.core.errors import ErrorCode, KafkaError
from pk.core.machine import Decision
from pk.core.meta.events import ClientQuotaChanged, Event
from pk.core.meta.image import MetadataImage
from pk.core.quota.entity import (
    CLIENT_ID,
    CLIENT_KEYS,
    ENTITY_TYPES,
    IP,
    IP_KEYS,
    USER,
    WHOLE_KEYS,
    Entity,
    entity_of,
)
from pk.core.wire.messages import alter_client_quotas as alter_
from pk.core.wire.messages import describe_client_quotas as describe_
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from pk.core.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

CHANGES_MAX: Final = 10_000
"""The maximum number of values that one request may change, as in Apache Kafka."""

EXACT: Final = 0
DEFAULT: Final = 1
SPECIFIED: Final = 2
"""The ways in which a component of a filter matches: a name, the default, or any entity of a
type."""

_EPSILON: Final = 1e-6
_INT_MAX: Final = (1 << 31) - 1
_LONG_MAX: Final = float(1 << 63)
"""Kafka's Long.MAX_VALUE as a float, because Java compares it as a double."""

_INVALID: Final = ErrorCode.INVALID_REQUEST


def alter(
    image: MetadataImage, request: AlterClientQuotasRequest, unknown_hosts: Collection[str] = ()
) -> Decision[Event, AlterClientQuotasResponse]:
    """Set and remove quotas. For each entity, either all of its keys change or none.
    `unknown_hosts` are host names in the request that do not resolve to an address.

    Raises KafkaError(POLICY_VIOLATION) if there are more than `CHANGES_MAX` changes.
    """
    decision: Decision[Event, AlterClientQuotasResponse] = Decision()
    answers: dict[Entity, KafkaError | None] = {}
    for entry in request.entries:
        entity = entity_of({one.entity_type: one.entity_name for one in entry.entity})
        ops: dict[str, float | None] = {}
        twice = entity in answers
        for op in entry.ops:
            twice = twice or op.key in ops
            ops[op.key] = None if op.remove else op.value
        if twice:
            said = f"Ignoring duplicate entity {_java_text(entity)}"
            answers[entity] = KafkaError(_INVALID, said)
            continue
        why = _entity_error(entity, ops, unknown_hosts)
        answers[entity] = KafkaError(_INVALID, why) if why is not None else None
        if why is not None:
            continue
        known = image.quotas.get(entity, {})
        for key, value in ops.items():
            if value is None:
                if key in known:
                    decision.records.append(ClientQuotaChanged(entity, key, None))
            elif known.get(key) != value:
                decision.records.append(ClientQuotaChanged(entity, key, value))
        if len(decision.records) > CHANGES_MAX:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
            )
    if request.validate_only:
        decision.records = []
    response = decision.reply = AlterClientQuotasResponse()
    for entity, error in answers.items():
        response.entries.append(_answer(entity, error))
    return decision


def _answer(entity: Entity, error: KafkaError | None) -> ResponseEntryData:
    parts = [
        alter_.EntityData(entity_type=part.entity_type, entity_name=part.entity_name)
        for part in entity
    ]
    if error is None:
        return ResponseEntryData(error_message=None, entity=parts)
    return ResponseEntryData(error_code=error.code, error_message=error.message, entity=parts)


def _java_text(entity: Entity) -> str:
    parts = (f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{', '.join(parts)}}})"


def _entity_error(
    entity: Entity, ops: Mapping[str, float | None], unknown_hosts: Collection[str]
) -> str | None:
    """Return the reason to refuse an entity's change, or None."""
    if not entity:
        return "Invalid empty client quota entity"
    names = dict(entity)
    for kind, name in entity:
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in names:
        if len(names) > 1:
            # Apache's message lacks this space, too.
            return (
                "Invalid quota entity combination, IP entity shouldnot be combined with User "
                "or ClientId"
            )
        if names[IP] in unknown_hosts:
            return f"{names[IP]} is not a valid IP or resolvable host."
    keys = IP_KEYS if IP in names else CLIENT_KEYS
    for key, value in ops.items():
        if value is not None and (why := _value_error(keys, key, value)) is not None:
            return why
    return None


def _value_error(keys: Collection[str], key: str, value: float) -> str | None:
    if key not in keys:
        return f"Invalid configuration key {key}"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if key in WHOLE_KEYS:
        kind, largest = ("an INT", _INT_MAX) if key in IP_KEYS else ("a LONG", _LONG_MAX)
        if value > largest:
            return f"Proposed value for {key} is too large for {kind}."
        if not isnan(value) and abs(int(value + _EPSILON) - value) > _EPSILON:
            return f"{key} cannot be a fractional value."
    return None


def describe(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Return the quotas that a filter matches. Raises KafkaError: INVALID_REQUEST,
    UNSUPPORTED_VERSION."""
    exact, specified = _filter(request)
    wanted_count = len(exact) + len(specified)
    response = DescribeClientQuotasResponse(error_message=None, entries=[])
    assert response.entries is not None
    if request.strict and not wanted_count:
        return response
    for entity, values in image.quotas.items():
        names = dict(entity)
        if request.strict and len(names) != wanted_count:
            continue
        if not all(kind in names and names[kind] == name for kind, name in exact.items()):
            continue
        if not all(kind in names for kind in specified):
            continue
        response.entries.append(
            describe_.EntryData(
                entity=[
                    describe_.EntityData(entity_type=kind, entity_name=name)
                    for kind, name in entity
                ],
                values=[describe_.ValueData(key=key, value=value) for key, value in values.items()],
            )
        )
    return response


def _filter(request: DescribeClientQuotasRequest) -> tuple[dict[str, str | None], set[str]]:
    """Return the wanted names by entity type, and the types that an entity must have. Raises
    KafkaError."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for component in request.components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise KafkaError(_INVALID, "Invalid empty entity type.")
        if kind in exact or kind in specified:
            raise KafkaError(
                _INVALID, f"Entity type {kind} cannot appear more than once in the filter."
            )
        if kind not in ENTITY_TYPES:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        match component.match_type:
            case 0:
                if match is None:
                    why = "Request specified MATCH_TYPE_EXACT, but set match string to null."
                    raise KafkaError(_INVALID, why)
                exact[kind] = match
            case 1 | 2:
                name = "DEFAULT" if component.match_type == DEFAULT else "SPECIFIED"
                if match is not None:
                    why = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
                    raise KafkaError(_INVALID, why)
                if component.match_type == DEFAULT:
                    exact[kind] = None
                else:
                    specified.add(kind)
            case _:
                raise KafkaError(_INVALID, f"Unknown match type {component.match_type}")
    named = exact.keys() | specified
    if IP in named and (USER in named or CLIENT_ID in named):
        raise KafkaError(
            _INVALID,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return exact, specified
