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
    """The faults that `Broker` and `Cluster` share. Each broker of a cluster counts `times` by
    itself."""

    def _ask(self, request: PkFaultsRequest) -> Sequence[PkFaultsResponse]:
        """Send a request to every broker; their answers. Raises KafkaError."""
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
        them; -1 until `clear_faults`. `error` is Kafka's name or number. `client_id` names one
        client; None means all.

        Raises ValueError for an API or an error that Kafka does not have.
        """
        self._add("fail", api, error=error_number(error), times=times, client_id=client_id)

    def delay(
        self, api: str, seconds: float, *, times: int = -1, client_id: str | None = None
    ) -> None:
        """Handle requests of an API later: `times` of them, or (-1) all until `clear_faults`. Later
        requests of the connection wait, too, as in Kafka. Raises ValueError."""
        self._add("delay", api, delay_ms=round(seconds * 1000), times=times, client_id=client_id)

    def drop_next(
        self, api: str, *, times: int = 1, answer_only: bool = False, client_id: str | None = None
    ) -> None:
        """Close the connection instead of answering the next `times` requests of an API. They are
        not handled; or with `answer_only` they are, and the client cannot know. Raises
        ValueError."""
        kind = "drop-answer" if answer_only else "drop"
        self._add(kind, api, times=times, client_id=client_id)

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close all connections of clients, or those of one client; how many. Clients may connect
        again at once."""
        request = PkFaultsRequest(action="disconnect", client_id=client_id)
        return sum(response.count for response in self._ask(request))

    def clear_faults(self) -> int:
        """End all faults that fail, delay or drop requests; how many there were."""
        return sum(response.count for response in self._ask(PkFaultsRequest(action="clear")))

    def set_clock(self, seconds: float) -> None:
        """Set the brokers' time of day to `seconds` ahead of the machine's: timestamps of
        LogAppendTime, retention and partitions' producers (which expire at once), transactions and
        commits that expire. 0 makes it right again."""
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
    """The API key of a request's name. Raises ValueError."""
    known = BY_NAME.get(name)
    if known is None:
        near = difflib.get_close_matches(name, BY_NAME, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"pk has no API {name!r}{hint}")
    return known.key


def error_number(error: ErrorCode | int | str) -> int:
    """The code of Kafka's error. Raises ValueError."""
    if not isinstance(error, str):
        return ErrorCode(error)
    try:
        return ErrorCode[error]
    except KeyError:
        near = difflib.get_close_matches(error, ErrorCode.__members__, 1, 0.5)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise ValueError(f"Kafka has no error {error!r}{hint}") from None


def reason_of(error: BaseException) -> BaseException:
    """The first error within the groups that nurseries wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(BaseExceptionGroup[BaseException], error).exceptions[0]
    return error
