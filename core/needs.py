"""The permissions that APIs need: an operation on a resource, and the result of a request without
it. The numbers are those of the protocol (CreateAcls)."""

from enum import Enum, IntEnum
from typing import NamedTuple


class ResourceType(IntEnum):
    """The types of resources that ACLs protect."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """The operations on resources, with the names used in ACLs."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Refusal(Enum):
    """The result of a request that lacks a permission."""

    REQUEST = "the whole request is refused before its handler is called"
    ANSWER = "the handler refuses the whole request"
    EACH = "the parts of the request about the resource are refused; the others are handled"
    HIDDEN = "the resource is left out of the response"


class Need(NamedTuple):
    """A permission that an API needs."""

    operation: Operation
    resource_type: ResourceType
    of: str
    """The field of the request or response that contains the resource's name, or "" for the
    cluster."""
    refusal: Refusal
    when: str = ""
    """The condition under which the permission is needed, or "" for always."""
    silent: bool = False
    """Whether the refusal has no message, although the response has a field for one."""


def cluster(operation: Operation, refusal: Refusal = Refusal.REQUEST, when: str = "") -> Need:
    """Return the need for an operation on the cluster."""
    return Need(operation, ResourceType.CLUSTER, "", refusal, when)


def topics(operation: Operation, of: str, refusal: Refusal = Refusal.EACH, when: str = "") -> Need:
    """Return the need for an operation on each topic in the field `of`."""
    return Need(operation, ResourceType.TOPIC, of, refusal, when)


def group(
    operation: Operation,
    of: str = "group_id",
    refusal: Refusal = Refusal.REQUEST,
    *,
    silent: bool = False,
) -> Need:
    """Return the need for an operation on each group in the field `of`."""
    return Need(operation, ResourceType.GROUP, of, refusal, silent=silent)


def transaction(
    operation: Operation,
    of: str = "transactional_id",
    refusal: Refusal = Refusal.REQUEST,
    when: str = "",
) -> Need:
    """Return the need for an operation on each transactional id in the field `of`."""
    return Need(operation, ResourceType.TRANSACTIONAL_ID, of, refusal, when)
