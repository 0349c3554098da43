"""Lists the transactions that a broker coordinates (KIP-664). v1 adds a filter by duration
(KIP-994), v2 one by pattern (KIP-1152)."""

from pk.core.wire.schema import Request, Response, Struct, field, message, struct
from pk.core.wire.types import Int16, Int32, Int64


@message(versions=(0, 2))
class ListTransactionsRequest(Request["ListTransactionsResponse"]):
    """The request of ListTransactions."""

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[Int64] = field(default_factory=list)
    duration_filter: Int64 = field(default=-1, since=1)
    transactional_id_pattern: str | None = field(default=None, since=2, nullable=2)


@struct
class TransactionState(Struct):
    """One of `ListTransactionsResponse.transaction_states`."""

    transactional_id: str = ""
    producer_id: Int64 = 0
    transaction_state: str = ""


@message(versions=(0, 2))
class ListTransactionsResponse(Response):
    """The response of ListTransactions."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)
