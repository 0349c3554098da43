"""What a client can run into besides a `KafkaError` that a broker answered."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pk.core.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pk.net.client.node import Node


class ClientError(Exception):
    """Base of the errors that arise on this side of the connection."""


class ConfigError(ClientError, ValueError):
    """A config key that is unknown or unsupported, or a value that is not valid for it."""


class ConnectFailed(ClientError):
    """No connection came about. `address` is the one asked for, `reason` a phrase that says what
    happened.

    `node_id` is the broker that is said to listen there, -1 if the address was given and not
    advertised. `reached` is whether somebody took the connection, who then did not speak Kafka;
    `certain` is whether no probe could tell more.
    """

    def __init__(
        self,
        address: str,
        reason: str,
        *,
        node_id: int = -1,
        reached: bool = False,
        certain: bool = False,
    ) -> None:
        super().__init__(f"{address}: {reason}")
        self.certain = certain
        self.address = address
        self.reason = reason
        self.node_id = node_id
        self.reached = reached


class NoBrokers(ClientError):
    """None of the brokers known could be reached; `failures` says why, one per address tried."""

    def __init__(self, failures: list[ConnectFailed]) -> None:
        asked = "; ".join(str(failure) for failure in failures) or "no addresses to try"
        super().__init__(f"no broker could be reached: {asked}")
        self.failures = failures


class UnknownPartition(KafkaError):
    """A topic has `count` partitions, and none of the number that was asked for."""

    def __init__(self, topic: str, partition: int, count: int) -> None:
        last = f", from 0 to {count - 1}" if count else ""
        super().__init__(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic} has no partition {partition}; it has {count}{last}",
        )


class Disconnected(ClientError):
    """The connection was lost while a request was under way; whether the broker acted on it is
    unknown."""


class RequestTimedOut(ClientError):
    """No answer within `request.timeout.ms` (or the time given for the whole operation)."""


class Unanswered(RequestTimedOut):
    """The time given for the whole operation passed, and these were asked and did not answer: they
    may hang with their connections open. Those with a negative id are addresses given, where it is
    not known yet which broker that is."""

    def __init__(self, nodes: "Sequence[Node]", waited_ms: float) -> None:
        named = [f"{n.node_id} at {n.address}" for n in nodes if n.node_id >= 0]
        who = [f"broker{'s'[: len(named) != 1]} {', '.join(named)}"] if named else []
        who += [n.address for n in nodes if n.node_id < 0]
        super().__init__(f"{' and '.join(who)} did not answer within {waited_ms / 1000:g} s")
        self.nodes = tuple(nodes)
        self.waited_ms = waited_ms


class Straggler(RequestTimedOut):
    """A broker did not answer within `pk.straggler.timeout.ms` of the others: it may hang with its
    connections open."""

    def __init__(self, node_id: int, address: str, waited_ms: float) -> None:
        super().__init__(
            f"broker {node_id} at {address} did not answer within {waited_ms / 1000:g} s"
        )
        self.node_id = node_id


class ControllerSilent(RequestTimedOut):
    """The controller did not answer within `pk.straggler.timeout.ms`, though brokers do: it may
    hang, and no other node has taken over. `nodes` were asked: each is the controller itself, or
    passes on what is the controller's to answer. What `changes` something was waited for until
    `default.api.timeout.ms`, and may still be done."""

    def __init__(self, nodes: "Sequence[Node]", waited_ms: float, *, changes: bool = False) -> None:
        way = ", ".join(node.who for node in nodes)
        asked = f", asked through {way}" if way else ""
        super().__init__(f"the controller did not answer within {waited_ms / 1000:g} s{asked}")
        self.nodes = tuple(nodes)
        self.changes = changes


class ControllerDown(ClientError):
    """The controller cannot answer, as whoever started it on this machine knows: its process does
    not run, or is paused. `step` is the command that brings it back. What was `asked` for is with a
    broker, which may still pass it on."""

    def __init__(self, why: str, step: str, *, asked: bool = False) -> None:
        then = ", and what was asked for may take effect then" if asked else ""
        super().__init__(f"{why}; `{step}` brings it back{then}")
        self.why = why
        self.step = step


class NotUp(KafkaError):
    """A broker that was asked for by its id is down: no other can answer for it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BROKER_NOT_AVAILABLE, "it is not up")


class Closed(ClientError):
    """The client was used after its `async with` block had ended."""


class BufferExhausted(ClientError):
    """`max.block.ms` passed while `buffer.memory` was full or the topic's metadata was unknown."""


class NoTransaction(ClientError):
    """A transactional producer was used outside a transaction, or began a second one inside one."""


class TransactionOutcomeUnknown(ClientError):
    """`max.block.ms` passed before the coordinator said how a transaction ended, whether it was
    silent or put us off, or its answer could not be read: the transaction may be committed or
    aborted. The producer is finished; the next one with this transactional id waits for the
    outcome."""

    def __init__(self, transactional_id: str, *, commit: bool, cause: Exception) -> None:
        doing = "commit" if commit else "abort"
        super().__init__(
            f"no answer to the {doing} of a transaction of {transactional_id!r}; whether it took "
            f"place is unknown ({cause})"
        )


class NoOffset(ClientError):
    """`auto.offset.reset` is `none`, and a partition has no committed offset, or one out of
    range."""


class LogTruncated(ClientError):
    """Records this consumer has read were truncated by an unclean election, and `auto.offset.reset`
    is `none`."""


COORDINATOR_MOVED: Final = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.BROKER_NOT_AVAILABLE,
)
"""What says that a group's coordinator must be looked up again."""


def is_passing(error: KafkaError) -> bool:
    """Whether the same request may succeed later: also where its broker is not up now."""
    return error.retriable or error.code == ErrorCode.BROKER_NOT_AVAILABLE


def unsupported(api: str, node: str, why: str) -> KafkaError:
    """The error for a request that the broker at hand cannot be asked."""
    return KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{node} does not serve {api} {why}")
