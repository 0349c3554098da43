"""The sentence for an error, with the next step, and the exit code. Imported only when a command
failed."""

import re
from collections.abc import Iterable, Sequence
from typing import cast

from pk.cli.exits import CommandError, Exit, UsageError
from pk.cli.phrases import join
from pk.cli.runtime.cluster_files import another_address, silent_nodes
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.types import EncodeError
from pk.net.client.errors import (
    BufferExhausted,
    ClientError,
    ConfigError,
    ConnectFailed,
    ControllerDown,
    ControllerSilent,
    Disconnected,
    NoBrokers,
    RequestTimedOut,
    Straggler,
    Unanswered,
    UnknownPartition,
)

NOT_AUTHORISED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
    }
)

_DENIED = frozenset(code for code in NOT_AUTHORISED if code.name.endswith("AUTHORIZATION_FAILED"))
"""Refusals by ACLs; the others are failed logins."""

_NEXT_STEP = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "`pk topics list` lists topics",
    ErrorCode.TOPIC_ALREADY_EXISTS: "--if-not-exists ignores that",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first; `pk groups describe GROUP -m` lists them",
    ErrorCode.GROUP_ID_NOT_FOUND: "`pk groups list` lists groups",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "the group still reads that topic; stop its members first",
    ErrorCode.NOT_ENOUGH_REPLICAS: "`pk isr` shows which replicas are in sync",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "`pk isr` shows which replicas are in sync",
    ErrorCode.MESSAGE_TOO_LARGE: "the topic's max.message.bytes sets the maximum size of a batch",
    ErrorCode.INVALID_REPLICATION_FACTOR: "`pk brokers list` lists brokers",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "`pk isr` shows which replicas are in sync",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "start a broker that holds a replica; "
    "`pk brokers list` shows which are up",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "`pk reassign status` shows what moves",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "are there enough brokers for the replicas of __consumer_offsets? "
        "offsets.topic.replication.factor sets their number"
    ),
    ErrorCode.BROKER_NOT_AVAILABLE: "`pk brokers list` shows which brokers are up",
    ErrorCode.UNSUPPORTED_VERSION: "the broker is too old or too new for this request",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "set delegation.token.secret.key on every broker",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: (
        "log in with SASL or a client certificate, not with a token"
    ),
}

_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "The topic or partition does not exist",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist",
    ErrorCode.NON_EMPTY_GROUP: "The group has members",
    ErrorCode.REQUEST_TIMED_OUT: "The broker did not finish in time",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The group's coordinator is not available",
}

_CONFIG_KEY = re.compile(r"\b[a-z]+(?:\.[a-z]+)+\b")

_SAYS_ALL = frozenset({ErrorCode.INVALID_CONFIG, ErrorCode.BROKER_NOT_AVAILABLE})
"""Errors whose message is complete."""


def leaf(error: BaseException) -> BaseException:
    """The error to report: the most informative one of an exception group."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        inner = [leaf(e) for e in group.exceptions]
        inner.sort(
            key=lambda e: (not isinstance(e, KeyboardInterrupt), not isinstance(e, CommandError))
        )
        error = inner[0]
    return error


def error_name(error: BaseException) -> str:
    """The value of the column `error`: the name of the error code, or the kind of failure."""
    return error.name if isinstance(error, KafkaError) else type(error).__name__


def exit_code(error: BaseException) -> Exit:
    """The exit code of a command that ended with `error`."""
    match error:
        case CommandError():
            return error.code
        case UsageError() | ConfigError() | EncodeError():
            return Exit.USAGE
        case NoBrokers() | ConnectFailed() | ControllerDown() | Disconnected():
            return Exit.NO_CONNECTION
        case RequestTimedOut() | BufferExhausted() | TimeoutError():
            return Exit.TIMED_OUT
        case KeyboardInterrupt():
            return Exit.INTERRUPTED
        case KafkaError():
            if error.code in NOT_AUTHORISED:
                return Exit.NOT_AUTHORISED
            return Exit.TIMED_OUT if error.code == ErrorCode.REQUEST_TIMED_OUT else Exit.FAILED
        case _:
            pass
    return Exit.FAILED


def exit_of_rows(errors: Iterable[BaseException]) -> Exit:
    """The exit code if single items failed: their common code, or else 1."""
    codes = {exit_code(error) for error in errors}
    if not codes:
        return Exit.OK
    return codes.pop() if len(codes) == 1 else Exit.FAILED


def phrase(error: BaseException) -> str:
    """The error without the next step, for a cell of a table."""
    if isinstance(error, KafkaError):
        return (
            f"{error.name}: {error.message}"
            if error.message and error.message != error.name
            else error.name
        )
    return str(error) or type(error).__name__


def sentence(error: BaseException) -> str:
    """The error and the next step, in one sentence."""
    match error:
        case CommandError() | UsageError():
            return str(error)
        case NoBrokers():
            return _no_brokers(error.failures)
        case ConnectFailed():
            return _no_brokers([error])
        case Disconnected():
            return (
                f"The connection was lost ({error}); the broker may or may not have processed "
                "the request."
            )
        case Straggler():
            return (
                f"{str(error).capitalize()}, but others did; what only it knows is missing here "
                "(-X pk.straggler.timeout.ms=… waits longer)."
            )
        case ControllerSilent():
            return _silent_controller(error)
        case Unanswered():
            return _unanswered(error)
        case RequestTimedOut():
            return (
                f"No answer in time ({error}); -X request.timeout.ms=… or "
                "default.api.timeout.ms=… waits longer."
            )
        case ConfigError():
            return f"{error}.".replace("?.", "?")
        case ClientError():
            return f"{error}."
        case UnknownPartition():
            return f"T{str(error.message)[1:]}."
        case KafkaError():
            return getattr(error, "said", None) or _kafka(error)
        case EncodeError():
            return f"This does not fit in a request: {error}."
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}."
        case KeyboardInterrupt():
            return "Interrupted."
        case _:
            pass
    text = str(error)
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"This is a bug in pk ({said}); --debug shows where."


def named_sentence(name: str, error: BaseException) -> str:
    """The sentence after the name of the failed item, unless the sentence already names it."""
    said = sentence(error)
    return said if repr(name) in said else f"{name}: {said}"


def _silent_controller(error: ControllerSilent) -> str:
    said = (
        f"{str(error)[:1].upper()}{str(error)[1:]}, but brokers answer: its process is down or "
        "hangs, and no other node has taken over. Start it again"
    )
    if error.changes:
        said += "; the request may still take effect"
    key = "default.api.timeout.ms" if error.changes else "pk.straggler.timeout.ms"
    return f"{said} (-X {key}=… waits longer)."


def _unanswered(error: Unanswered) -> str:
    if any(node.node_id >= 0 for node in error.nodes):
        step = "`pk brokers list` shows which brokers do"
    else:
        step = "give another with -b HOST:PORT"
    said = str(error)
    said = said.replace("broker", "Broker", 1) if said.startswith("broker") else said
    return f"{said}; {step} (-X default.api.timeout.ms=… waits longer)."


def _by_reason(failures: Sequence[ConnectFailed]) -> str:
    addresses: dict[str, list[str]] = {}
    for failure in failures:
        addresses.setdefault(failure.reason, []).append(failure.address)
    return "; ".join(f"{join(where)}: {reason}" for reason, where in addresses.items())


def _no_brokers(failures: Sequence[ConnectFailed]) -> str:
    if not failures:
        return "No broker is known; give one with -b HOST:PORT."
    tried = _by_reason(failures)
    dead = silent_nodes(f.address for f in failures)
    if dead is not None:
        return f"No broker answers ({tried}): {dead}."
    advertised = [f for f in failures if f.node_id >= 0]
    if advertised:
        first = advertised[0]
        return (
            f"The cluster answered, but its broker {first.node_id} does not ({tried}): "
            f"{first.address} is the address that it advertises (advertised.listeners). Is it up, "
            "and can this machine reach that address?"
        )
    if all(f.by_config for f in failures):
        return f"No broker answers ({tried})."
    if all(f.reached for f in failures):
        return f"No broker answers ({tried}); give another with -b HOST:PORT."
    another = another_address()
    if another is not None:
        return (
            f"No broker answers ({tried}); a cluster of this machine runs at {another} "
            f"(-b {another})."
        )
    return (
        f"No broker answers ({tried}); start one with `pk up`, or give another with -b HOST:PORT."
    )


async def explain(error: BaseException) -> BaseException:
    """The error to raise instead, if a probe finds out what listens at an address that is not a
    broker's."""
    found = leaf(error)
    if isinstance(found, Unanswered):
        return await _explain_silence(found) or error
    failures = found.failures if isinstance(found, NoBrokers) else [found]
    for failure in failures:
        if isinstance(failure, ConnectFailed) and failure.reached and not failure.certain:
            from pk.net.client.probe import BY_CONFIG, describe_server

            host, _, port = failure.address.rpartition(":")
            said = await describe_server(host.strip("[]"), int(port))
            failure.reason = said or failure.reason
            failure.by_config = said in BY_CONFIG
    return error


async def _explain_silence(error: Unanswered) -> NoBrokers | None:
    """The error if none of the nodes that did not answer is a broker; None if one of them may
    be."""
    from pk.net.client.probe import describe_silent_server

    failures: list[ConnectFailed] = []
    for node in error.nodes:
        if node.node_id >= 0:
            return None
        said = await describe_silent_server(node.host, node.port, error.waited_ms / 2000)
        if said is None:
            return None
        failures.append(ConnectFailed(node.address, said, reached=True))
    return NoBrokers(failures)


def _without_request(said: str | None) -> str | None:
    """A broker's message without the request, which Apache Kafka's brokers print when they deny
    one."""
    if said and said.startswith("Request Request("):
        _, needs, right = said.rpartition(") needs ")
        return f"it needs {right}" if needs else None
    return said or None


def _kafka(error: KafkaError) -> str:
    if error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED and (
        (error.message or "").startswith("InitProducerId")
    ):
        # Brokers require WRITE on any topic, or IDEMPOTENT_WRITE on the cluster, and name neither.
        return (
            "The broker refused a producer id (CLUSTER_AUTHORIZATION_FAILED): the user needs WRITE "
            "on the topic (`pk acls add --allow USER --producer --topic TOPIC`); brokers before "
            "2.8 also require IDEMPOTENT_WRITE on the cluster, unless -X enable.idempotence=false "
            "is given."
        )
    from pk.cli.runtime.refusals import REFUSALS

    refused = REFUSALS.sentence(error.code, error.message or "")
    if refused is not None:
        return refused
    try:
        code = ErrorCode(error.code)
    except ValueError:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
    plain = _SENTENCES.get(code)
    said = _without_request(error.message) if error.message != error.name else None
    if said and code in _SAYS_ALL:
        head = said.rstrip(".")
    elif plain and said:
        head = f"{plain}: {said.rstrip('.')}"
    elif plain:
        head = plain
    else:
        head = f"The broker refused with {error.name}" + (f": {said.rstrip('.')}" if said else "")
    step = _NEXT_STEP.get(code)
    if code is ErrorCode.SECURITY_DISABLED and "uthorizer" in (said or ""):
        from pk.core.config.views import STANDARD_AUTHORIZER

        step = (  # the same code says that a broker of pk injects no faults
            f"to use ACLs, set authorizer.class.name={STANDARD_AUTHORIZER} and super.users on all "
            "nodes, or start a new cluster with `pk up --secure`"
        )
    if code in _DENIED:
        step = "`pk why denied USER OPERATION RESOURCE` shows which ACL decides or is missing"
    key = _CONFIG_KEY.search(head) if code is ErrorCode.INVALID_CONFIG else None
    if key is not None:
        step = f"`pk help configs {key[0]}` shows the valid values"
    if step is None and not plain and code not in _SAYS_ALL:
        step = f"`pk help errors {code.name}` says more"
    if head.endswith("?"):
        return head
    return f"{head}; {step}." if step else f"{head}."
