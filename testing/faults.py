"""The faults that a test requests from a broker in this process or from a cluster of processes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final, cast

from pk.core.api_keys import BY_NAME
from pk.core.errors import ErrorCode
from pk.core.wire.messages.pk_faults import PkFaultsRequest, PkFaultsResponse

if TYPE_CHECKING:
    from collections.abc import Sequence

AWAY_S: Final = 0.3
"""How long a partition has no leader after its only in-sync replica resigns."""


class Faults:
    """The methods for faults that `Broker` and `Cluster` share. Each broker of a cluster counts
    `times` by itself."""

    def _ask(self, request: PkFaultsRequest) -> Sequence[PkFaultsResponse]:
        """Send a request to every broker, and return their answers. Raises KafkaError."""
        raise NotImplementedError

    def fail_next(
        self,
        api: str,
        error: ErrorCode | int | str,
        *,
        times: int = 1,
        client_id: str | None = None,
    ) -> None:
        """Answer the next `times` requests of an API ("Produce") with an error, without handling
        them; with -1, all requests until `clear_faults`. `error` is Kafka's name or number.
        `client_id` names one client (None: all).

        Raises ValueError for an API or an error that Kafka does not have.
        """
        self._add("fail", api, error=error_number(error), times=times, client_id=client_id)

    def delay(
        self, api: str, seconds: float, *, times: int = -1, client_id: str | None = None
    ) -> None:
        """Delay the handling of the next `times` requests of an API; with -1, all requests until
        `clear_faults`. Later requests on the same connection wait too, as in Kafka. Raises
        ValueError."""
        self._add("delay", api, delay_ms=round(seconds * 1000), times=times, client_id=client_id)

    def drop_next(
        self, api: str, *, times: int = 1, answer_only: bool = False, client_id: str | None = None
    ) -> None:
        """Close the connection instead of answering the next `times` requests of an API. The
        requests are not handled, unless `answer_only` is set; the client cannot tell the
        difference. Raises ValueError."""
        kind = "drop-answer" if answer_only else "drop"
        self._add(kind, api, times=times, client_id=client_id)

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close all connections of clients, or those of one client. Returns their number. Clients
        may connect again at once."""
        request = PkFaultsRequest(action="disconnect", client_id=client_id)
        return sum(response.count for response in self._ask(request))

    def clear_faults(self) -> int:
        """End all faults that fail, delay or drop requests. Returns their number."""
        return sum(response.count for response in self._ask(PkFaultsRequest(action="clear")))

    def set_clock(self, seconds: float) -> None:
        """Set the brokers' time of day to `seconds` ahead of the machine's: it determines the
        timestamps of LogAppendTime, retention, and the expiry of transactions, committed offsets
        and the state of producers in partitions. 0 restores the machine's time."""
        self._ask(PkFaultsRequest(action="set-clock", shift_ms=round(seconds * 1000)))

    def _add(
        self,
        kind: str,
        api: str,
        *,
        error: int = 0,
        delay_ms: int = 0,
        times: int,
        client_id: str | None,
    ) -> None:
        request = PkFaultsRequest(
            action="add",
            kind=kind,
            request_key=api_key(api),
            fault_code=error,
            delay_ms=delay_ms,
            times=times,
            client_id=client_id,
        )
        self._ask(request)


def api_key(name: str) -> int:
    """Return the API key of a request's name. Raises ValueError."""
    known = BY_NAME.get(name)
    if known is None:
        near = difflib.get_close_matches(name, BY_NAME, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"pk has no API {name!r}{hint}")
    return known.key


def error_number(error: ErrorCode | int | str) -> int:
    """Return the code of Kafka's error. Raises ValueError."""
    if not isinstance(error, str):
        return ErrorCode(error)
    try:
        return ErrorCode[error]
    except KeyError:
        near = difflib.get_close_matches(error, ErrorCode.__members__, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"Kafka has no error {error!r}{hint}") from None


def reason_of(error: BaseException) -> BaseException:
    """Return the first error within the exception groups of nurseries."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(BaseExceptionGroup[BaseException], error).exceptions[0]
    return error
