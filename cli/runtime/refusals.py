"""The operation and the resource that an authorizer refused, which Kafka's errors do not name.

The latest answers of brokers are kept while a command runs. When one of its errors is a refusal,
the answer with its code tells which API was refused, and the table of APIs (`pk.core.api_keys`)
which operation the API requires. Messages are kept by reference. Of those with records, only the
API is kept.
"""

import re
import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, cast

from pk.core.errors import ErrorCode

_KEPT: Final = 64
_PARTS_MAX: Final = 10_000
_WITH_RECORDS: Final = {0: "WRITE", 1: "READ", 78: "READ"}
"""Produce, Fetch and ShareFetch, with the operation that they require on a topic."""

_TYPES: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: ("TOPIC",),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: ("GROUP",),
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ("CLUSTER",),
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ("TRANSACTIONAL_ID",),
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: (
        "DELEGATION_TOKEN",
        "USER",
    ),
}
_NAMES: Final = {
    "TOPIC": ("name", "topic", "topic_name", "resource_name"),
    "GROUP": ("group_id", "key", "resource_name"),
    "TRANSACTIONAL_ID": ("transactional_id", "key"),
}
"""The fields of answers that name a resource."""


_EXPLAINED: Final = (*_NAMES, "CLUSTER")
"""The resource types that `pk why denied` supports."""


class Refusal(NamedTuple):
    """An operation on a resource that was refused."""

    operation: str
    resource_type: str
    name: str | None
    """None for the cluster, and if neither request nor answer names a single resource."""


class Refusals:
    """The latest answers, and the principal that sent the requests."""

    def __init__(self) -> None:
        self.principal: str | None = None
        """`User:alice`; None if only the brokers know it, as with certificates."""

        self._recent: deque[tuple[Any, Any]] = deque(maxlen=_KEPT)

    def begin(self, principal: str | None) -> None:
        """Forget the answers of the previous command."""
        self.principal = principal
        self._recent.clear()

    def answered(self, request: Any, response: Any) -> None:
        """The callback for each answer."""
        if request.API_KEY in _WITH_RECORDS:
            self._recent.append((request.API_KEY, None))
        else:
            self._recent.append((request, response))

    def find(self, code: int, message: str = "") -> Refusal | None:
        """The refusal in the answers with this error code; None if there is none, or several
        differ. `message` is the error's message, which may be the name of the API."""
        found = self._found(code, message)
        return found[0] if len(found) == 1 else None

    def _found(self, code: int, message: str) -> list[Refusal]:
        """All refusals in the answers with this error code, one for each operation."""
        types = _TYPES.get(ErrorCode(code)) if code in set(ErrorCode) else None
        if types is None:
            return []
        from pk.core.wire.index import MESSAGES

        found: dict[tuple[str, str], set[Refusal]] = {}
        records: set[str] = set()
        for request, response in self._recent:
            if response is None:
                records.add(_WITH_RECORDS[request])
                continue
            refused = _refused(request, response, code, types)
            if refused is not None and MESSAGES[request.API_KEY].name == message:
                return [refused]
            if refused is not None:
                found.setdefault((refused.operation, refused.resource_type), set()).add(refused)
        if not found and len(records) == 1 and types == ("TOPIC",):
            partition = re.fullmatch(r"(.+)-\d+", message)
            return [Refusal(records.pop(), "TOPIC", partition[1] if partition else None)]
        return [
            one if not more else one._replace(name=None)
            for one, *more in (found[key] for key in sorted(found))
        ]

    def sentence(self, code: int, message: str = "") -> str | None:
        """The denied principal and operation, and the command that explains it; None if the refusal
        is unknown."""
        every = self._found(code, message)
        # The cluster is a single resource, so one true sentence names all operations that were
        # refused on it.
        if not every or (len(every) > 1 and code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED):
            return None
        found = every[0]
        operations = ", ".join(one.operation for one in every)
        kind, name = found.resource_type, found.name
        resource = kind.lower().replace("_", " ")
        who = self.principal or "The user"
        shown = "the cluster" if kind == "CLUSTER" else f"{resource} {name or ''}"
        if name is None and kind != "CLUSTER":
            shown = f"the {resource}"
        said = f"{who} is denied {operations} on {shown} ({ErrorCode(code).name})"
        if kind not in _EXPLAINED:
            return f"{said}; `pk help errors {ErrorCode(code).name}` says more."
        word = kind.lower().replace("_", "-")
        asked = word if kind == "CLUSTER" else f"{word}:{name or 'NAME'}"
        step = (
            f"pk why denied {shlex.quote(self.principal or 'USER')} "
            f"{found.operation.lower().replace('_', '-')} {shlex.quote(asked)}"
        )
        return (
            f"{said}; `{step}`, run by a user who may see the ACLs, shows which ACL decides or "
            "is missing."
        )


REFUSALS: Final = Refusals()
"""The refusals of the command that runs."""


def _refused(request: Any, response: Any, code: int, types: Sequence[str]) -> Refusal | None:
    """The refusal in an answer with this error code; None if there is none."""
    from pk.core.api_keys import API_KEYS
    from pk.core.needs import Operation
    from pk.core.needs import Refusal as How

    path = next(_holders(response, code), None)
    only_reads = request.changes_nothing() and not getattr(request, "validate_only", False)
    needs = [
        need
        for need in API_KEYS[request.API_KEY].needs
        if need.resource_type.name in types and need.refusal is not How.HIDDEN
        if not (only_reads and need.operation is Operation.ALTER)
    ]
    if path is None or not needs:
        return None
    kind = needs[0].resource_type.name
    name = _named(path, kind) or _only(request, needs[0].of)
    return Refusal(needs[0].operation.name, kind, name)


def _holders(response: Any, code: int) -> Iterator[Sequence[Any]]:
    """The parts of an answer with this error code, each with the parts that contain it, the
    innermost first."""
    todo: deque[tuple[Any, ...]] = deque([(response,)])
    for _ in range(_PARTS_MAX):
        if not todo:
            return
        path = todo.popleft()
        if getattr(path[0], "error_code", 0) == code:
            yield path
        for field in getattr(path[0], "FIELDS", ()):
            inner = getattr(path[0], field, None)
            if isinstance(inner, list):
                parts = cast("list[Any]", inner)
                if parts and hasattr(parts[0], "FIELDS"):
                    todo.extend((part, *path) for part in parts)


def _named(path: Sequence[Any], kind: str) -> str | None:
    for part in path:
        for field in _NAMES.get(kind, ()):
            value = getattr(part, field, None)
            if isinstance(value, str) and value:
                return value
    return None


def _only(request: Any, of: str) -> str | None:
    """The name at a path such as `topics[].name` in a request; None unless there is exactly one."""
    found: list[Any] = [request]
    for step in of.split(".") if of else ():
        field = step.removesuffix("[]")
        values = [v for part in found if (v := getattr(part, field, None)) is not None]
        found = [v for value in values for v in value] if step.endswith("[]") else values
    return found[0] if of and len(found) == 1 and isinstance(found[0], str) else None
