"""The errors that a client may raise, other than a `KafkaError` that a broker returned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pk.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pk.net.client.node import Node


class ClientError(Exception):
    """The base of the errors that arise in the client."""


class ConfigError(ClientError, ValueError):
    """An unknown or unsupported config key, or an invalid value."""


class ConnectFailed(ClientError):
    """No connection could be made. `address` is the requested address, and `reason` a phrase that
    describes the failure.

    `node_id` is the broker that advertises the address; -1 for a bootstrap address, even if a
    broker advertises it. `reached` tells whether a server accepted the connection but did not speak
    Kafka, `certain` whether a probe would not learn more, and `by_config` whether the reason names
    the config to change, so that another address would not help.
    """

    def __init__(
        self,
        address: str,
        reason: str,
        *,
        node_id: int = -1,
        reached: bool = False,
        certain: bool = False,
        by_config: bool = False,
    ) -> None:
        super().__init__(f"{address}: {reason}")
        self.certain = certain or by_config
        self.by_config = by_config
        self.address = address
        self.reason = reason
        self.node_id = node_id
        self.reached = reached


class NoBrokers(ClientError):
    """None of the known brokers could be reached; `failures` has the reason for each address
    tried."""

    def __init__(self, failures: list[ConnectFailed]) -> None:
        asked = "; ".join(str(failure) for failure in failures) or "no addresses to try"
        super().__init__(f"no broker could be reached: {asked}")
        self.failures = failures


class UnknownPartition(KafkaError):
    """A topic has `count` partitions, but not the requested one."""

    def __init__(self, topic: str, partition: int, count: int) -> None:
        last = f", from 0 to {count - 1}" if count else ""
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic} has no partition {partition}; it has {count}{last}",
        )


class Disconnected(ClientError):
    """The connection was lost while a request was in flight; whether the broker acted on it is
    unknown."""


class TlsRefused(Disconnected):
    """The peer ended TLS. `reason` is a phrase that says why."""

    def __init__(self, peer: str, reason: str) -> None:
        super().__init__(f"{peer}: {reason}")
        self.reason = reason


class RequestTimedOut(ClientError):
    """No response within `request.timeout.ms` (or the time limit of the whole operation)."""


class Unanswered(RequestTimedOut):
    """The time limit of the whole operation passed without an answer from `nodes`: they may hang
    with their connections open. Nodes with a negative id are bootstrap addresses whose brokers are
    not known yet."""

    def __init__(self, nodes: "Sequence[Node]", waited_ms: float) -> None:
        named = [f"{n.node_id} at {n.address}" for n in nodes if n.node_id >= 0]
        brokers = [f"broker{'s'[: len(named) != 1]} {', '.join(named)}"] if named else []
        brokers += [n.address for n in nodes if n.node_id < 0]
        super().__init__(f"{' and '.join(brokers)} did not answer within {waited_ms / 1000:g} s")
        self.nodes = tuple(nodes)
        self.waited_ms = waited_ms


class Straggler(RequestTimedOut):
    """A broker did not answer within `pk.straggler.timeout.ms` after the others had: it may hang
    with its connections open."""

    def __init__(self, node_id: int, address: str, waited_ms: float) -> None:
        super().__init__(
            f"broker {node_id} at {address} did not answer within {waited_ms / 1000:g} s"
        )
        self.node_id = node_id


class ControllerSilent(RequestTimedOut):
    """The controller did not answer within `pk.straggler.timeout.ms`, although brokers do: it may
    hang, and no other node has taken over. `nodes` are the nodes that were asked: each is the
    controller, or forwards requests to it. A request that `changes` something waited until
    `default.api.timeout.ms`, and may still take effect."""

    def __init__(self, nodes: "Sequence[Node]", waited_ms: float, *, changes: bool = False) -> None:
        names = ", ".join(node.label for node in nodes)
        asked = f", asked through {names}" if names else ""
        super().__init__(f"the controller did not answer within {waited_ms / 1000:g} s{asked}")
        self.nodes = tuple(nodes)
        self.changes = changes


class ControllerDown(ClientError):
    """The controller cannot answer, according to the program that started it on this machine: its
    process is stopped or paused. `step` is the command that resumes it. `asked` means that a broker
    has received the request and may still forward it."""

    def __init__(self, why: str, step: str, *, asked: bool = False) -> None:
        then = ", and the request may still take effect then" if asked else ""
        super().__init__(f"{why}; `{step}` brings it back{then}")
        self.why = why
        self.step = step


class BrokerDown(KafkaError):
    """The broker with a requested id is down: no other broker can answer for it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, "it is not up")


class Closed(ClientError):
    """The client was used after the end of its `async with` block."""


class BufferExhausted(ClientError):
    """`max.block.ms` passed while `buffer.memory` was full or the topic's metadata was unknown."""


class NoTransaction(ClientError):
    """A transactional producer was used outside a transaction, or a second transaction was begun
    inside one."""


class TransactionOutcomeUnknown(ClientError):
    """`max.block.ms` passed without learning how a transaction ended, because the coordinator did
    not answer, asked to retry, or sent an unreadable response: the transaction may be committed or
    aborted. The producer is unusable; the next one with this transactional id waits for the
    outcome."""

    def __init__(self, transactional_id: str, *, commit: bool, cause: Exception) -> None:
        doing = "commit" if commit else "abort"
        super().__init__(
            f"the coordinator did not confirm the {doing} of a transaction of "
            f"{transactional_id!r}, which may or may not have taken effect ({cause})"
        )


class NoOffset(ClientError):
    """`auto.offset.reset` is `none`, and a partition's committed offset is missing or out of
    range."""


class LogTruncated(ClientError):
    """Records that this consumer has read were truncated by an unclean election, and
    `auto.offset.reset` is `none`."""


COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
)
"""The errors after which a group's coordinator must be looked up again."""


def is_retriable(error: KafkaError) -> bool:
    """Return whether the same request may succeed later, even if its broker is down now."""
    return error.retriable or error.code == ErrorCode.BROKER_NOT_AVAILABLE


def unsupported(api: str, node: str, why: str) -> KafkaError:
    """Return the error for a request that the broker in use does not support."""
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{node} does not serve {api} {why}")
